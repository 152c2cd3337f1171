//! LockInfo: what a client says of itself when it locks.
//!
//! The text is kept as it was sent, because clients parse it again in a 423; only what the rules need is read out of
//! it. Go matches the keys of JSON without regard to case and takes the last of several, so this does too.

use std::fmt;

use jiff::Timestamp;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;

/// A LockInfo as it was sent, with the ID that is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    pub id: String,
    /// The whole JSON document.
    pub text: String,
}

/// Why a body is no LockInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLockInfo {
    #[error("the body is not a LockInfo: it is not a JSON object")]
    NotAnObject,
    #[error("the LockInfo has no ID")]
    NoId,
    #[error("the field 'Created' of the LockInfo is not a time as in RFC 3339")]
    Created,
    #[error("the field '{0}' of the LockInfo is not a text")]
    NotText(&'static str),
}

/// The longest ID that is taken: clients send UUIDs.
const LONGEST_ID: usize = 512;

impl LockInfo {
    /// Reads the body of a LOCK: other clients will have to parse it, and Go refuses the whole for one wrong field.
    pub fn of_lock(body: &[u8]) -> Result<LockInfo, BadLockInfo> {
        let (info, fault) = read(body)?;
        fault.map_or(Ok(info), Err)
    }

    /// Reads the body of an UNLOCK: nothing but its ID counts, because OpenTofu's force-unlock sends nothing else.
    pub fn of_unlock(body: &[u8]) -> Result<LockInfo, BadLockInfo> {
        read(body).map(|(info, _)| info)
    }

    /// A LockInfo that no client sent, for states that somebody else locked, or that nobody holds any more.
    pub fn made(id: &str, operation: &str, info: &str, who: &str) -> LockInfo {
        let text = json!({ "ID": id, "Operation": operation, "Info": info, "Who": who }).to_string();
        LockInfo { id: id.to_owned(), text }
    }

    /// A LockInfo for somebody who locks without a client.
    pub fn by_person(lock: &ByPerson<'_>) -> Result<LockInfo, BadLockInfo> {
        let ByPerson { id, operation, reason, user, path } = lock;
        let text = json!({
            "ID": id, "Operation": operation, "Info": reason, "Who": format!("{user}@stateward"),
            "Version": env!("CARGO_PKG_VERSION"), "Created": Timestamp::now().to_string(), "Path": path,
        });
        LockInfo::of_lock(text.to_string().as_bytes())
    }

    /// The text of one of its fields, if it is there.
    pub fn field(&self, name: &str) -> Option<String> {
        let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&self.text).ok()?;
        let (_, value) = fields.into_iter().rfind(|(key, _)| key.eq_ignore_ascii_case(name))?;
        value.as_str().map(str::to_owned)
    }
}

/// What a person says when locking a state.
#[derive(Clone, Copy, Debug)]
pub struct ByPerson<'a> {
    pub id: &'a str,
    pub operation: &'a str,
    pub reason: &'a str,
    pub user: &'a str,
    pub path: &'a str,
}

/// The fields of Go's LockInfo: all are texts, and `Created` is one that is a time.
const KNOWN: [&str; 7] = ["ID", "Operation", "Info", "Who", "Version", "Created", "Path"];

/// The document, and what of it Go could not parse.
fn read(body: &[u8]) -> Result<(LockInfo, Option<BadLockInfo>), BadLockInfo> {
    let text = std::str::from_utf8(body).map_err(|_| BadLockInfo::NotAnObject)?;
    let fields: Fields = serde_json::from_str(text).map_err(|_| BadLockInfo::NotAnObject)?;
    let fits = |id: &String| !id.is_empty() && id.len() <= LONGEST_ID && !id.contains(char::is_control);
    let id = fields.id.filter(fits).ok_or(BadLockInfo::NoId)?;
    Ok((LockInfo { id, text: text.to_owned() }, fields.fault))
}

/// Whether Go's `time.Time` takes this text: RFC 3339 to the letter, where others also take a space or a small `t`.
fn is_rfc_3339(text: &str) -> bool {
    let shape = |text: &str, shape: &str| {
        let fits = |(byte, wanted): (u8, u8)| if wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted };
        text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits)
    };
    let Some((moment, rest)) = text.split_at_checked("0000-00-00T00:00:00".len()) else { return false };
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => match fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()) {
            zone if zone.len() < fraction.len() => zone,
            _ => return false,
        },
    };
    let in_time =
        |zone: &str| zone.get(1..3).is_some_and(|hours| hours < "24") && zone.get(4..).is_some_and(|m| m < "60");
    let zone_fits = zone == "Z" || (shape(zone, "+00:00") || shape(zone, "-00:00")) && in_time(zone);
    // A leap second is one that Go does not know.
    let moment_fits = shape(moment, "0000-00-00T00:00:00") && !moment.ends_with("60");
    moment_fits && zone_fits && format!("{moment}Z").parse::<Timestamp>().is_ok()
}

#[derive(Default)]
struct Fields {
    id: Option<String>,
    fault: Option<BadLockInfo>,
}

/// A field that may hold anything; only a text is kept.
#[derive(Deserialize)]
#[serde(untagged)]
enum Field {
    Text(String),
    /// Go leaves the field as it is.
    Null(()),
    Other(IgnoredAny),
}

impl Fields {
    fn take(&mut self, name: &'static str, field: Field) {
        let fault = match (name, field) {
            (_, Field::Null(())) => None,
            ("ID", Field::Text(id)) => {
                self.id = Some(id);
                None
            }
            ("ID", Field::Other(_)) => {
                self.id = None;
                Some(BadLockInfo::NoId)
            }
            ("Created", Field::Text(time)) if is_rfc_3339(&time) => None,
            ("Created", _) => Some(BadLockInfo::Created),
            (_, Field::Text(_)) => None,
            (name, Field::Other(_)) => Some(BadLockInfo::NotText(name)),
        };
        self.fault = self.fault.or(fault);
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some(key) = map.next_key::<String>()? {
                    match KNOWN.into_iter().find(|known| known.eq_ignore_ascii_case(&key)) {
                        Some(known) => fields.take(known, map.next_value::<Field>()?),
                        None => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_info_is_kept_as_sent_and_read_as_go_reads_it() {
        let cases = [
            (r#"{"ID":"a"}"#, Ok("a")),
            (r#" {"Who":"me","id" : "a","ID":"b"} "#, Ok("b")),
            (r#"{"ID":"a","Created":"2026-11-16T05:59:16.123456789Z"}"#, Ok("a")),
            (r#"{"ID":"a","Created":"0001-01-01T00:00:00Z","Extra":[1,{"x":null}]}"#, Ok("a")),
            (r#"{"ID":"a","created":"yesterday"}"#, Err(BadLockInfo::Created)),
            (r#"{"ID":"a","Created":null,"Who":null}"#, Ok("a")),
            (r#"{"ID":"a","Created":7}"#, Err(BadLockInfo::Created)),
            (r#"{"ID":"a","Created":"2026-11-16 05:59:16Z"}"#, Err(BadLockInfo::Created)),
            (r#"{"ID":"a","Who":5}"#, Err(BadLockInfo::NotText("Who"))),
            (r#"{"ID":"a","version":{}}"#, Err(BadLockInfo::NotText("Version"))),
            (r#"{"ID":"a","Who":"me","who":[]}"#, Err(BadLockInfo::NotText("Who"))),
            (r#"{"ID":"a","id":null}"#, Ok("a")),
            (r#"{"ID":null}"#, Err(BadLockInfo::NoId)),
            (r#"{"ID":""}"#, Err(BadLockInfo::NoId)),
            (r#"{"ID":7}"#, Err(BadLockInfo::NoId)),
            (r#"{"ID":"a\nb"}"#, Err(BadLockInfo::NoId)),
            ("{}", Err(BadLockInfo::NoId)),
            ("", Err(BadLockInfo::NotAnObject)),
            ("null", Err(BadLockInfo::NotAnObject)),
            ("[]", Err(BadLockInfo::NotAnObject)),
            (r#"{"ID":"a"}x"#, Err(BadLockInfo::NotAnObject)),
        ];
        for (text, expected) in cases {
            let found = LockInfo::of_lock(text.as_bytes());
            assert_eq!(found.as_ref().map(|info| info.id.as_str()), expected.as_ref().map(|id| *id), "{text}");
            if let Ok(info) = found {
                assert_eq!(info.text, text);
            }
        }
        assert_eq!(LockInfo::of_unlock(br#"{"ID":"a","Created":"never"}"#).unwrap().id, "a");
        assert_eq!(LockInfo::of_unlock(br#"{"ID":"a","Who":5}"#).unwrap().id, "a");
        assert_eq!(LockInfo::of_lock(b"\xff"), Err(BadLockInfo::NotAnObject));
        assert_eq!(LockInfo::of_lock(br#"{"ID":"a","who":"me"}"#).unwrap().field("Who").as_deref(), Some("me"));
    }

    #[test]
    fn a_time_is_what_go_takes_for_one() {
        let table = [
            ("2026-11-16T05:59:16Z", true),
            ("2026-11-16T05:59:16.123456789Z", true),
            ("2026-11-16T05:59:16.1+02:00", true),
            ("2026-11-16T05:59:16-23:59", true),
            ("0001-01-01T00:00:00Z", true),
            ("", false),
            ("2026-11-16", false),
            ("2026-11-16T05:59Z", false),
            ("2026-11-16T05:59:16", false),
            ("2026-11-16 05:59:16Z", false),
            ("2026-11-16t05:59:16z", false),
            ("2026-11-16T05:59:16.Z", false),
            ("2026-11-16T05:59:16,5Z", false),
            ("2026-11-16T05:59:60Z", false),
            ("2026-02-30T05:59:16Z", false),
            ("2026-11-16T05:59:16+0200", false),
            ("2026-11-16T05:59:16+24:00", false),
            ("2026-11-16T05:59:16+02:60", false),
            ("2026-11-16T05:59:16Z[UTC]", false),
            ("20261116T055916Z", false),
            ("2026-11-16T05:59:1\u{e9}", false),
        ];
        for (text, expected) in table {
            assert_eq!(is_rfc_3339(text), expected, "{text}");
        }
    }
}
