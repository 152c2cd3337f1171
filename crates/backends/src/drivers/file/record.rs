//! What is in a file: lines of `field="text"`, as programs for `.env` files read them. Pure.
//!
//! ```text
//! 1="{\"user\":\"admin\"}"
//! 1_key="01JC..."
//! locked_by="default/install"
//! ```
//! A field with a number is a version; the text is quoted as in JSON. `_key` is by which call it came, so that its repetition
//! is known. Nothing else may be in it: a file that is not understood is not written over.

use std::collections::BTreeMap;

const LOCKED_BY: &str = "locked_by";
const KEY: &str = "_key";

/// A record as it is on disk.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) versions: BTreeMap<u32, Version>,
    pub(super) lock: Option<Lock>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Version {
    /// Empty where there is none.
    pub(super) value: String,
    pub(super) key: String,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) owner: String,
    pub(super) key: String,
}

impl Record {
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        let mut field = |name: &str, value: &str, key: &str| {
            text.push_str(&format!("{name}={}\n", quote(value)));
            if !key.is_empty() {
                text.push_str(&format!("{name}{KEY}={}\n", quote(key)));
            }
        };
        for (number, version) in &self.versions {
            field(&number.to_string(), &version.value, &version.key);
        }
        if let Some(lock) = &self.lock {
            field(LOCKED_BY, &lock.owner, &lock.key);
        }
        text
    }

    /// Fails with the number of the first line that makes no sense.
    pub(super) fn parse(text: &str) -> Result<Record, usize> {
        let mut record = Record::default();
        for (number, line) in text.lines().enumerate() {
            record.take(line).ok_or(number + 1)?;
        }
        Ok(record)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let (name, quoted) = line.split_once('=')?;
        let text: String = serde_json::from_str(quoted).ok()?;
        match (name, name.strip_suffix(KEY)) {
            (LOCKED_BY, _) => self.lock = Some(Lock { owner: text, key: String::new() }),
            (_, Some(LOCKED_BY)) => self.lock.as_mut()?.key = text,
            (_, Some(version)) => self.versions.get_mut(&version.parse().ok()?)?.key = text,
            (version, None) => {
                self.versions.insert(version.parse().ok()?, Version { value: text, key: String::new() });
            }
        }
        Some(())
    }
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_to_the_letter() {
        let version = |value: &str, key: &str| Version { value: value.to_owned(), key: key.to_owned() };
        let versions = [
            (1, version("{\"a\": 1.50,\n \"b\":\"=\\\"\"}", "k=1")),
            (2, version("", "")),
            (10, version("plain \u{1f512}\r\n\0 text", "two\nlines")),
        ];
        let lock = Some(Lock { owner: "ns/\"me\"".to_owned(), key: "k3".to_owned() });
        let record = Record { versions: versions.into(), lock };
        assert!(Record::parse(&record.render()) == Ok(record.clone()));
        assert_eq!(record.render().lines().count(), 7, "a field is a line:\n{}", record.render());
        assert!(Record::parse("") == Ok(Record::default()));
    }

    #[test]
    fn what_is_not_understood_names_its_line() {
        let table = [
            ("1=\"a\"\n2=\"b", 2),
            ("1=a", 1),
            ("x=\"a\"", 1),
            ("nothing", 1),
            ("2_key=\"k\"", 1),
            ("locked_by_key=\"k\"", 1),
            ("1=\"a\"\n\n", 2),
        ];
        for (text, line) in table {
            assert!(Record::parse(text) == Err(line), "{text}");
        }
    }
}
