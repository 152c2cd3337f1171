//! JSON with its numbers as text.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{DEEPEST, Document, Fault};

/// JSON documents, one after the other; at least one.
pub fn read_all(text: &str) -> Result<Vec<Document>, Fault> {
    let stream = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let documents: Vec<Document> = stream
        .map(|raw| raw.map_err(|error| fault(&error)).and_then(|raw| read(raw.get(), 0)))
        .collect::<Result<_, _>>()?;
    if documents.is_empty() { Err(Fault::new("it is empty")) } else { Ok(documents) }
}

/// The text is JSON: somebody has looked at it already.
fn read(text: &str, depth: usize) -> Result<Document, Fault> {
    let text = text.trim();
    if depth > DEEPEST {
        return Err(Fault::new(format!("it is nested more than {DEEPEST} levels deep")));
    }
    Ok(match text.as_bytes().first() {
        Some(b'n') => Document::Null,
        Some(b't') => Document::Bool(true),
        Some(b'f') => Document::Bool(false),
        Some(b'"') => Document::Text(serde_json::from_str(text).map_err(|error| fault(&error))?),
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| fault(&error))?;
            Document::List(items.into_iter().map(|item| read(item.get(), depth + 1)).collect::<Result<_, _>>()?)
        }
        Some(b'{') => {
            let Entries(entries) = serde_json::from_str(text).map_err(|error| fault(&error))?;
            let entry = |(key, value): (String, &RawValue)| read(value.get(), depth + 1).map(|value| (key, value));
            Document::Map(entries.into_iter().map(entry).collect::<Result<_, _>>()?)
        }
        _ => Document::Number(text.to_owned()),
    })
}

/// Without the words of the parser, which may repeat what it read.
fn fault(error: &serde_json::Error) -> Fault {
    Fault::at("it is not JSON", error.line(), error.column())
}

struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries<'de>, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Entries<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

impl Document {
    /// Compact JSON.
    pub fn to_json(&self) -> String {
        // A tree of texts is always JSON: numbers were checked when they were read.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Only from JSON: other formats have made numbers of numbers already.
impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Document, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        read(raw.get(), 0).map_err(D::Error::custom)
    }
}

/// Only to JSON; [`Document::to_yaml`] is the other one.
impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Document::Null => serializer.serialize_unit(),
            Document::Bool(value) => serializer.serialize_bool(*value),
            Document::Number(text) => {
                RawValue::from_string(text.clone()).map_err(S::Error::custom)?.serialize(serializer)
            }
            Document::Text(text) => serializer.serialize_str(text),
            Document::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Document::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_comes_out_as_it_went_in() {
        let deepest = format!("{}{}", "[".repeat(DEEPEST), "]".repeat(DEEPEST));
        for text in [
            r#"{"b":12345678901234567890123,"a":[1.50,-0.0,1E400,null,true,false,"ü\n\"😀"],"b":{}}"#,
            "12345678901234567890123",
            "null",
            r#""""#,
            &deepest,
        ] {
            let [document] = &read_all(text).unwrap()[..] else { panic!("{text}") };
            assert_eq!(document.to_json(), text);
            assert_eq!(serde_json::from_str::<Document>(text).unwrap(), *document);
        }
        let escaped = read_all(r#" "\ud83d\ude00" "#).unwrap();
        assert_eq!(escaped, [Document::text("😀")]);
    }

    #[test]
    fn what_is_not_json_is_told_from_it() {
        for text in ["", "{a: 1}", "01", "[1,]", "nul", "{\"a\": 1} x", &"[".repeat(5000)] {
            assert!(read_all(text).is_err(), "{text}");
        }
        let too_deep = format!("{}{}", "[".repeat(DEEPEST + 2), "]".repeat(DEEPEST + 2));
        assert!(read_all(&too_deep).unwrap_err().to_string().contains("levels deep"));
    }
}
