//! Documents as people write them and servers answer them, with every number as it was written.
//!
//! The door is [`Document`], a tree whose numbers are their text: `12345678901234567890123` and `1.50` come out of a file, go
//! into a request and come back from an answer without a digit changed. [`json`] and [`yaml`] read and write it, [`path`] takes
//! parts out of it. It may hold secrets: Debug shows its shape alone, and no error repeats what is in it.

pub mod json;
pub mod path;
pub mod yaml;

use std::fmt;

/// A JSON document.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Document {
    #[default]
    Null,
    Bool(bool),
    /// As JSON writes it.
    Number(String),
    Text(String),
    List(Vec<Document>),
    /// In the order in which it was written.
    Map(Vec<(String, Document)>),
}

/// Why a text is no document, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}{place}")]
pub struct Fault {
    fault: String,
    place: String,
}

/// Deeper documents are refused: whoever walks through one does so by recursion.
const DEEPEST: usize = 100;

impl Document {
    /// The documents of a file: JSON, one or several, or else YAML.
    pub fn read_all(text: &str) -> Result<Vec<Document>, Fault> {
        json::read_all(text).map_or_else(|_not_json| yaml::read_all(text), Ok)
    }

    /// The one document of a file.
    pub fn read(text: &str) -> Result<Document, Fault> {
        let mut documents = Document::read_all(text)?;
        match documents.len() {
            0 => Ok(Document::Null),
            1 => Ok(documents.remove(0)),
            several => Err(Fault::new(format!("there are {several} documents where one is meant"))),
        }
    }

    pub fn text(text: impl Into<String>) -> Document {
        Document::Text(text.into())
    }

    pub fn map<const N: usize>(entries: [(&str, Document); N]) -> Document {
        Document::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    pub fn is_null(&self) -> bool {
        *self == Document::Null
    }

    /// What a map has under a key, null or not.
    pub fn get(&self, key: &str) -> Option<&Document> {
        match self {
            Document::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// What maps within maps have under keys; `None` where something on the way is absent, and where it is null.
    pub fn at(&self, keys: &[&str]) -> Option<&Document> {
        keys.iter().try_fold(self, |place, key| place.get(key)).filter(|found| !found.is_null())
    }

    /// Takes something out of a map.
    pub fn take(&mut self, key: &str) -> Option<Document> {
        let Document::Map(entries) = self else { return None };
        let index = entries.iter().position(|(name, _)| name == key)?;
        Some(entries.remove(index).1)
    }

    /// Puts something into a map, in its old place if there was something under that key. Anything else becomes a map.
    pub fn put(&mut self, key: &str, value: Document) {
        if !matches!(self, Document::Map(_)) {
            *self = Document::Map(Vec::new());
        }
        let Document::Map(entries) = self else { return };
        match entries.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => entries.push((key.to_owned(), value)),
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Document::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Document]> {
        match self {
            Document::List(items) => Some(items),
            _ => None,
        }
    }

    pub fn is_map(&self) -> bool {
        matches!(self, Document::Map(_))
    }
}

impl From<&str> for Document {
    fn from(text: &str) -> Document {
        Document::text(text)
    }
}

impl From<u32> for Document {
    fn from(number: u32) -> Document {
        Document::Number(number.to_string())
    }
}

impl<T: Into<Document>> From<Option<T>> for Document {
    fn from(value: Option<T>) -> Document {
        value.map_or(Document::Null, Into::into)
    }
}

impl<T: Into<Document>> FromIterator<T> for Document {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Document {
        Document::List(items.into_iter().map(Into::into).collect())
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Document::Null => formatter.write_str("null"),
            Document::Bool(_) => formatter.write_str("bool"),
            Document::Number(_) => formatter.write_str("number"),
            Document::Text(text) => write!(formatter, "text of {} bytes", text.len()),
            Document::List(items) => write!(formatter, "list of {}", items.len()),
            Document::Map(entries) => {
                let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
                write!(formatter, "map of {}", keys.join(", "))
            }
        }
    }
}

impl Fault {
    pub(crate) fn new(fault: impl Into<String>) -> Fault {
        Fault { fault: fault.into(), place: String::new() }
    }

    fn at(fault: impl Into<String>, line: usize, column: usize) -> Fault {
        Fault { fault: fault.into(), place: format!(" at line {line}, column {column}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_taken_apart_and_put_together() {
        let mut document = Document::read("{a: {b: 1}, c: null}").unwrap();
        assert_eq!(document.at(&["a", "b"]), Some(&Document::from(1)));
        assert_eq!((document.at(&["c"]), document.get("c")), (None, Some(&Document::Null)));
        document.put("c", "x".into());
        document.put("d", Document::Bool(true));
        assert!(document.take("a").is_some() && document.take("a").is_none());
        assert_eq!(document.to_json(), r#"{"c":"x","d":true}"#);
    }

    #[test]
    fn files_are_json_or_yaml_one_document_or_several() {
        let table = [
            ("", 0),
            ("{\"a\": 1}", 1),
            ("{\"a\": 1}\n{\"a\": 2}", 2),
            ("a: 1", 1),
            ("---\na: 1\n---\na: 2\n", 2),
            ("# nothing\n", 0),
        ];
        for (text, documents) in table {
            assert_eq!(Document::read_all(text).unwrap().len(), documents, "{text}");
        }
        assert_eq!(Document::read("").unwrap(), Document::Null);
        assert!(Document::read("--- 1\n--- 2").unwrap_err().to_string().contains("2 documents"));
    }

    #[test]
    fn debug_and_errors_hold_no_value() {
        let document = Document::read("password: canary").unwrap();
        assert_eq!(format!("{document:?}"), "map of password");
        for broken in ["password: 'canary", "a: [canary", "a: canary: b", "{\"canary\": ", "&canary canary: *other"] {
            let error = Document::read(broken).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }
}
