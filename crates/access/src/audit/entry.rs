//! What one line may say.
//!
//! The door is [`Entry`], built from typed parts. There is no field for a header, a body, a token or an error text
//! that came from elsewhere: failure classes and field names are `&'static str`, extra values are numbers, words of
//! our own or names cut to a small alphabet. Identities and object names are bounded, so that one line always fits
//! the space that was reserved for it.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use super::Receipt;

/// What kind of line it is; the kinds after `Act` are written by the log itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Somebody was allowed or denied something.
    Decision,
    /// A change is about to be made.
    Intent,
    /// A change was made, or was not.
    Act,
    /// A process opened the log.
    Start,
    /// A process closed the log in good order.
    Stop,
    /// The last line of a file.
    Rotate,
    /// A checkpoint: the lines through this one may be gone.
    Expired,
    /// What a crash left half written was cut off here.
    Torn,
    /// Decisions were lost here, because the log could not be written.
    Gap,
    /// The first line of a new segment, after tampering was found and accepted.
    Restart,
}

/// How a request proved who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    Token,
    Certificate,
    FrontProxy,
    Static,
    Anonymous,
    /// The server itself, acting for nobody.
    Server,
}

/// Who asks. Texts are cut to their bounds here.
#[derive(Clone, Debug, Serialize)]
pub struct Who {
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    /// How many groups did not fit.
    #[serde(skip_serializing_if = "is_zero")]
    groups_left_out: usize,
    source: Source,
}

impl Who {
    pub fn new(user: &str, source: Source) -> Who {
        Who { user: bounded(user, 256), uid: None, groups: Vec::new(), groups_left_out: 0, source }
    }

    #[must_use]
    pub fn uid(mut self, uid: &str) -> Who {
        self.uid = Some(bounded(uid, 128));
        self
    }

    /// The first sixteen groups are kept, the rest are counted.
    #[must_use]
    pub fn groups<T: AsRef<str>>(mut self, groups: &[T]) -> Who {
        self.groups = groups.iter().take(MAX_GROUPS).map(|group| bounded(group.as_ref(), 128)).collect();
        self.groups_left_out = groups.len().saturating_sub(MAX_GROUPS);
        self
    }
}

/// What is asked for: a verb on a kind of objects, or on a path.
#[derive(Clone, Debug, Serialize)]
pub struct What {
    verb: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl What {
    pub fn resource(verb: &str, group: &str, resource: &str) -> What {
        let (group, resource) = (Some(bounded(group, 128)), Some(bounded(resource, 128)));
        What { verb: bounded(verb, 32), group, resource, subresource: None, path: None }
    }

    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> What {
        self.subresource = Some(bounded(subresource, 64));
        self
    }

    /// A path that stands for itself. The query is left out: people put tokens into queries.
    pub fn path(verb: &str, path: &str) -> What {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        What { verb: bounded(verb, 32), group: None, resource: None, subresource: None, path: Some(bounded(path, 512)) }
    }
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Allowed,
    Denied,
    Done,
    /// A short class in our own words ("conflict", "unavailable"), never the text of an error.
    Failed(&'static str),
}

impl Outcome {
    fn text(self) -> Cow<'static, str> {
        match self {
            Outcome::Allowed => "allowed".into(),
            Outcome::Denied => "denied".into(),
            Outcome::Done => "done".into(),
            Outcome::Failed(class) => bounded(&format!("failed: {class}"), 64).into(),
        }
    }
}

/// An extra value that cannot carry a secret by accident.
#[derive(Clone, Debug)]
pub enum Value {
    Number(u64),
    /// A word of our own.
    Word(&'static str),
    /// A name: letters, digits and `-._:/`; everything else becomes `_`.
    Name(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<&'static str> for Value {
    fn from(word: &'static str) -> Value {
        Value::Word(word)
    }
}

impl Value {
    pub fn name(text: &str) -> Value {
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-._:/".contains(c) { c } else { '_' };
        Value::Name(bounded(&text.chars().take(256).map(safe).collect::<String>(), 256))
    }
}

/// One line to be, without its number and code.
#[derive(Clone, Debug)]
pub struct Entry {
    time: Timestamp,
    kind: Kind,
    who: Option<Who>,
    what: Option<What>,
    namespace: Option<String>,
    name: Option<String>,
    result: Option<Outcome>,
    request_id: Option<String>,
    intent: Option<u64>,
    more: Vec<(&'static str, Value)>,
}

impl Entry {
    pub fn decision(who: Who, what: What, result: Outcome) -> Entry {
        Entry { who: Some(who), what: Some(what), result: Some(result), ..Entry::internal(Kind::Decision) }
    }

    /// A change that is about to be made; see [`super::Audit::commit`] for what its receipt is good for.
    pub fn intent(who: Who, what: What) -> Entry {
        Entry { who: Some(who), what: Some(what), ..Entry::internal(Kind::Intent) }
    }

    pub fn act(who: Who, what: What, result: Outcome) -> Entry {
        Entry { who: Some(who), what: Some(what), result: Some(result), ..Entry::internal(Kind::Act) }
    }

    pub(super) fn internal(kind: Kind) -> Entry {
        Entry {
            time: Timestamp::now(),
            kind,
            who: None,
            what: None,
            namespace: None,
            name: None,
            result: None,
            request_id: None,
            intent: None,
            more: Vec::new(),
        }
    }

    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Entry {
        self.namespace = Some(bounded(namespace, 128));
        self
    }

    #[must_use]
    pub fn name(mut self, name: &str) -> Entry {
        self.name = Some(bounded(name, 512));
        self
    }

    #[must_use]
    pub fn request_id(mut self, id: &str) -> Entry {
        self.request_id = Some(bounded(id, 128));
        self
    }

    /// Names the intent that this act carries out; its space is reserved while the receipt lives.
    #[must_use]
    pub fn after(mut self, intent: &Receipt) -> Entry {
        self.intent = Some(intent.n);
        self
    }

    /// One of at most eight extra fields; later ones are left out.
    #[must_use]
    pub fn with(mut self, field: &'static str, value: impl Into<Value>) -> Entry {
        if self.more.len() < MAX_MORE {
            self.more.push((field, value.into()));
        }
        self
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the space of this line was reserved by its intent.
    pub(super) fn is_reserved(&self) -> bool {
        self.kind == Kind::Act && self.intent.is_some()
    }

    pub(super) fn time(&self) -> Timestamp {
        self.time
    }

    /// The JSON object of this entry as line number `n`, without its code.
    pub(super) fn body(&self, n: u64) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&Body {
            n,
            time: format!("{:.3}", self.time),
            kind: self.kind,
            who: self.who.as_ref(),
            what: self.what.as_ref(),
            namespace: self.namespace.as_deref(),
            name: self.name.as_deref(),
            result: self.result.map(Outcome::text),
            request_id: self.request_id.as_deref(),
            intent: self.intent,
            more: More(&self.more),
        })
    }
}

const MAX_GROUPS: usize = 16;
const MAX_MORE: usize = 8;

#[derive(Serialize)]
struct Body<'a> {
    n: u64,
    time: String,
    kind: Kind,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    who: Option<&'a Who>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    what: Option<&'a What>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<u64>,
    #[serde(skip_serializing_if = "More::is_empty")]
    more: More<'a>,
}

struct More<'a>(&'a [(&'static str, Value)]);

impl More<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for More<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (field, value) in self.0 {
            match value {
                Value::Number(number) => map.serialize_entry(field, number)?,
                Value::Word(word) => map.serialize_entry(field, &bounded(word, 256))?,
                Value::Name(name) => map.serialize_entry(field, name)?,
            }
        }
        map.end()
    }
}

/// Cuts `text` so that it takes at most `bytes` inside a JSON string. Control characters below U+0020 are escaped by
/// JSON; the others, and those that reorder text, would reach the terminal of whoever reads the log: they are replaced.
fn bounded(text: &str, bytes: usize) -> String {
    const MARK: char = '…';
    let mut kept = String::with_capacity(text.len().min(bytes));
    let (mut used, mut cut) = (0, 0);
    for c in text.chars() {
        let c = match c {
            '\u{7f}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                char::REPLACEMENT_CHARACTER
            }
            c => c,
        };
        used += match c {
            '"' | '\\' => 2,
            c if c < ' ' => 6,
            c => c.len_utf8(),
        };
        if used > bytes {
            kept.truncate(cut);
            kept.push(MARK);
            break;
        }
        kept.push(c);
        if used + MARK.len_utf8() <= bytes {
            cut = kept.len();
        }
    }
    kept
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::super::line::MAX_LINE;
    use super::*;

    #[test]
    fn texts_are_cut_to_their_length_inside_json() {
        for (text, bytes, kept) in [
            ("", 4, ""),
            ("abcd", 4, "abcd"),
            ("abcde", 4, "a…"),
            ("\"\"\"", 6, "\"\"\""),
            ("\"\"\"\"", 6, "\"…"),
            ("\u{1}\u{1}", 11, "\u{1}…"),
            ("a\u{9b}2J\u{202e}b", 64, "a\u{fffd}2J\u{fffd}b"),
        ] {
            assert_eq!(bounded(text, bytes), kept, "{text:?} in {bytes}");
            assert!(serde_json::to_string(kept).unwrap().len() - 2 <= bytes, "{text:?} in {bytes}");
        }
    }

    #[test]
    fn the_longest_entry_fits_a_line() {
        for filler in ["a", "\u{1}", "\"", "ü", "\u{9b}"] {
            let long = filler.repeat(2000);
            let groups = vec![long.as_str(); 100];
            let who = Who::new(&long, Source::FrontProxy).uid(&long).groups(&groups);
            for what in [What::resource(&long, &long, &long).subresource(&long), What::path(&long, &long)] {
                let mut entry =
                    Entry::act(who.clone(), what, Outcome::Failed("a class that is not short at all, which"));
                entry = entry.namespace(&long).name(&long).request_id(&long);
                for _ in 0..20 {
                    entry = entry.with("a-name-of-thirty-two-characters-", Value::name(&long));
                }
                let body = entry.body(u64::MAX).unwrap();
                assert!(body.len() + 80 <= MAX_LINE, "{} bytes of {filler:?}", body.len());
            }
        }
    }

    #[test]
    fn the_query_of_a_path_is_left_out() {
        let entry = Entry::decision(
            Who::new("u", Source::Static),
            What::path("get", "/x/y?token=canary#canary"),
            Outcome::Denied,
        );
        let body = String::from_utf8(entry.body(1).unwrap()).unwrap();
        assert!(body.contains(r#""path":"/x/y""#) && !body.contains("canary"), "{body}");
    }
}
