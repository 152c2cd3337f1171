//! One line as bytes: how it is numbered, chained and read back.
//!
//! A line is a JSON object whose last field is `mac`, the HMAC-SHA256 under the log's key of the previous line's code
//! followed by this object without the field. A line can therefore not be changed, moved or taken out without the
//! key. Nothing here reads or writes files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use aws_lc_rs::hmac;
use serde::{Deserialize, Serialize};

use super::entry::Kind;
use super::key::Key;
use crate::hex;

/// No line that the log writes is longer, newline included; the bounds of [`super::Entry`]'s fields see to it.
pub(super) const MAX_LINE: usize = 8 * 1024;

const MAC_FIELD: &[u8] = b",\"mac\":\"";
const MAC_END: &[u8] = b"\"}";
/// What a line has more than its body without the brace.
pub(super) const SUFFIX: usize = MAC_FIELD.len() + 64 + MAC_END.len();

/// The code of a line. Not a secret: it stands in the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac([u8; 32]);

impl Mac {
    /// What stands for the previous line before the first line of a log or segment.
    pub(super) const ZERO: Mac = Mac([0; 32]);
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mac({self})")
    }
}

impl Serialize for Mac {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Mac {
    type Err = NotHex;

    fn from_str(text: &str) -> Result<Mac, NotHex> {
        unhex(text.as_bytes()).map(Mac).ok_or(NotHex)
    }
}

/// A text that is not 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 64 lower-case hexadecimal digits")]
pub struct NotHex;

pub(super) fn unhex(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Number and code of a line: enough to tell whether a log still holds it, and everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Head {
    pub n: u64,
    pub mac: Mac,
}

impl Head {
    /// That of an empty log, and of one that is not remembered.
    pub const NONE: Head = Head { n: 0, mac: Mac::ZERO };

    /// Whether a log that ends with `end` cannot be the one that this head was taken of: it is shorter, or ends otherwise.
    pub(super) fn is_missing_from(self, end: Head) -> bool {
        self.n > end.n || (self.n == end.n && self.mac != end.mac)
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.n, self.mac)
    }
}

impl FromStr for Head {
    type Err = NotHex;

    fn from_str(text: &str) -> Result<Head, NotHex> {
        let (n, mac) = text.split_once(':').ok_or(NotHex)?;
        Ok(Head { n: n.parse().map_err(|_| NotHex)?, mac: mac.parse()? })
    }
}

/// Appends the line with this body to `buffer` and gives its code.
pub(super) fn seal(key: &Key, previous: Mac, body: &[u8], buffer: &mut Vec<u8>) -> Mac {
    // `body` is an object, so that its last byte is the brace that the new field goes before.
    let open = body.strip_suffix(b"}").unwrap_or(body);
    let mac = code(key, previous, open);
    buffer.extend_from_slice(open);
    buffer.extend_from_slice(MAC_FIELD);
    buffer.extend_from_slice(mac.to_string().as_bytes());
    buffer.extend_from_slice(MAC_END);
    buffer.push(b'\n');
    mac
}

fn code(key: &Key, previous: Mac, open: &[u8]) -> Mac {
    let mut context = hmac::Context::with_key(key.hmac());
    context.update(&previous.0);
    context.update(open);
    context.update(b"}");
    let mut mac = [0; 32];
    mac.copy_from_slice(context.sign().as_ref());
    Mac(mac)
}

/// A well-formed line; whether it is a true one is for [`Line::follows`] to say.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) n: u64,
    pub(super) time: jiff::Timestamp,
    pub(super) kind: Kind,
    pub(super) mac: Mac,
    open: &'a [u8],
}

#[derive(Deserialize)]
struct Fields<'a> {
    n: u64,
    time: jiff::Timestamp,
    kind: Kind,
    #[serde(borrow)]
    mac: Cow<'a, str>,
}

impl<'a> Line<'a> {
    /// Reads a line without its newline; none if it is not what the log writes.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Line<'a>> {
        let (open, suffix) = bytes.split_at_checked(bytes.len().checked_sub(SUFFIX)?)?;
        let mac = suffix.strip_prefix(MAC_FIELD)?.strip_suffix(MAC_END)?;
        let fields: Fields = serde_json::from_slice(bytes).ok()?;
        let line = Line { n: fields.n, time: fields.time, kind: fields.kind, mac: Mac(unhex(mac)?), open };
        // The database counts in 63 bits, so that nothing overflows by adding to a number that was read.
        ((1..=i64::MAX.cast_unsigned()).contains(&fields.n) && fields.mac.as_bytes() == mac).then_some(line)
    }

    pub(super) fn head(&self) -> Head {
        Head { n: self.n, mac: self.mac }
    }

    /// Whether this line was written with `key` right after a line with the code `previous`.
    pub(super) fn follows(&self, key: &Key, previous: Mac) -> bool {
        code(key, previous, self.open) == self.mac
    }

    /// The extra fields, of lines that the log itself wrote.
    pub(super) fn more(&self) -> BTreeMap<String, serde_json::Value> {
        #[derive(Deserialize)]
        struct Extra {
            #[serde(default)]
            more: BTreeMap<String, serde_json::Value>,
        }
        let mut object = self.open.to_vec();
        object.push(b'}');
        serde_json::from_slice::<Extra>(&object).map(|extra| extra.more).unwrap_or_default()
    }
}

/// The checkpoint that an `expired` line holds.
pub(super) fn checkpoint(more: &BTreeMap<String, serde_json::Value>) -> Option<Head> {
    Some(Head { n: more.get("through")?.as_u64()?, mac: more.get("mac")?.as_str()?.parse().ok()? })
}
