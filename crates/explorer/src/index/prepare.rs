//! Everything about a row that can be worked out without the index: its words and the fields of its body.
//!
//! The door is [`Preparer::prepare`], which many threads can use at once, so that the index is locked only to take in what
//! is prepared.

use hashbrown::HashTable;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::dictionary::{Hashes, spread};
use super::words::{fold, is_value, words};
use crate::row::Row;

/// Prepares rows for one index.
#[derive(Clone, Debug)]
pub struct Preparer {
    hashes: Hashes,
}

/// A row that is ready to be taken in.
#[derive(Debug)]
pub struct Prepared {
    pub(super) row: Row,
    /// Words of name, message and labels.
    pub(super) public: Words,
    /// Words of the body that are not among those.
    pub(super) body: Words,
    /// Hashes of a path in the body with its value.
    pub(super) fields: Vec<u64>,
}

/// Different words with their hashes.
#[derive(Debug, Default)]
pub(super) struct Words {
    text: String,
    /// Hash, and where the word ends in the text.
    ends: Vec<(u32, u32)>,
}

impl Preparer {
    pub(super) fn new(hashes: Hashes) -> Preparer {
        Preparer { hashes }
    }

    pub fn prepare(&self, row: Row) -> Prepared {
        let mut collector = Collector::new(&self.hashes);
        collector.text(&row.key.name);
        collector.text(&row.message);
        for (key, value) in &row.labels {
            collector.text(key);
            collector.text(value);
        }
        let public = collector.take();
        // What does not parse has no words: there is nobody left to tell.
        let mut body = serde_json::Deserializer::from_str(&row.body);
        let _ = Walk { collector: &mut collector, depth: 0 }.deserialize(&mut body);
        let body = collector.take();
        let mut fields = collector.fields;
        fields.sort_unstable();
        fields.dedup();
        Prepared { row, public, body, fields }
    }
}

impl Prepared {
    pub fn row(&self) -> &Row {
        &self.row
    }

    pub fn into_row(self) -> Row {
        self.row
    }
}

impl Words {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        let mut begin = 0;
        self.ends.iter().map(move |(hash, end)| {
            let word = &self.text[begin..*end as usize];
            begin = *end as usize;
            (*hash, word)
        })
    }
}

/// The hash under which a field of a body is found. Paths are joined by dots; lists have no place in them.
pub(super) fn field_hash(hashes: &Hashes, path: &str, value: &str) -> u64 {
    hashes.of((path, value))
}

struct Collector<'a> {
    hashes: &'a Hashes,
    /// Places in `known`.
    seen: HashTable<u32>,
    /// All words so far: hash, begin, end in `text`.
    known: Vec<(u32, u32, u32)>,
    text: String,
    /// Where the words of the next `take` begin.
    from: usize,
    path: String,
    fields: Vec<u64>,
    folded: String,
}

impl<'a> Collector<'a> {
    fn new(hashes: &'a Hashes) -> Collector<'a> {
        Collector {
            hashes,
            seen: HashTable::with_capacity(256),
            known: Vec::with_capacity(224),
            text: String::with_capacity(2048),
            from: 0,
            path: String::with_capacity(128),
            fields: Vec::with_capacity(128),
            folded: String::with_capacity(128),
        }
    }

    fn text(&mut self, text: &str) {
        let Collector { hashes, seen, known, text: all, .. } = self;
        let add = |word: &str| {
            let begin = all.len();
            fold(word, all);
            let hash = hashes.text(&all[begin..]);
            let is_same = |place: &u32| {
                let (other, from, to) = known[*place as usize];
                other == hash && all[from as usize..to as usize] == all[begin..]
            };
            if seen.find(spread(hash), is_same).is_some() {
                all.truncate(begin);
                return;
            }
            let place = narrow(known.len());
            known.push((hash, narrow(begin), narrow(all.len())));
            seen.insert_unique(spread(hash), place, |place| spread(known[*place as usize].0));
        };
        words(text, add, |_| {});
    }

    fn field(&mut self, value: &str) {
        if is_value(value) && !OF_THE_ROW.contains(&self.path.as_str()) {
            self.folded.clear();
            fold(value, &mut self.folded);
            self.fields.push(field_hash(self.hashes, &self.path, &self.folded));
        }
    }

    /// The words since the last time.
    fn take(&mut self) -> Words {
        let Some(&(_, begin, _)) = self.known.get(self.from) else { return Words::default() };
        let text = self.text[begin as usize..].to_owned();
        let ends = self.known[self.from..].iter().map(|(hash, _, end)| (*hash, end - begin)).collect();
        self.from = self.known.len();
        Words { text, ends }
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("an object is far below 4 GB")
}

/// Parts that say nothing about the object itself, or are columns of the row.
const SKIPPED: &[&str] = &[
    "metadata.managedFields",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration",
];

/// Fields that are columns of the row, and found there.
pub(super) const OF_THE_ROW: [&str; 2] = ["metadata.name", "metadata.namespace"];

/// No object of Kubernetes is deeper; serde_json itself stops at 128.
const DEEPEST: usize = 100;

/// Goes through JSON without building it.
struct Walk<'c, 'a> {
    collector: &'c mut Collector<'a>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth > DEEPEST {
            return IgnoredAny::deserialize(deserializer).map(drop);
        }
        deserializer.deserialize_any(self)
    }
}

impl Walk<'_, '_> {
    fn leaf(&mut self, value: &str) {
        self.collector.text(value);
        self.collector.field(value);
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_str<E>(mut self, value: &str) -> Result<(), E> {
        self.leaf(value);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.collector.field(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E>(mut self, value: i64) -> Result<(), E> {
        self.leaf(&value.to_string());
        Ok(())
    }

    fn visit_u64<E>(mut self, value: u64) -> Result<(), E> {
        self.leaf(&value.to_string());
        Ok(())
    }

    fn visit_f64<E>(mut self, value: f64) -> Result<(), E> {
        self.leaf(&value.to_string());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Walk { collector: self.collector, depth: self.depth + 1 })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Walk { collector, depth } = self;
        let length = collector.path.len();
        while map.next_key_seed(KeyInto(&mut collector.path))?.is_some() {
            // Under `metadata`, and that is what most keys are not.
            if collector.path.starts_with('m') && SKIPPED.contains(&collector.path.as_str()) {
                map.next_value::<IgnoredAny>()?;
            } else {
                let path = std::mem::take(&mut collector.path);
                collector.text(&path[length..]);
                collector.path = path;
                map.next_value_seed(Walk { collector, depth: depth + 1 })?;
            }
            collector.path.truncate(length);
        }
        Ok(())
    }
}

/// Appends a key to a path.
struct KeyInto<'p>(&'p mut String);

impl<'de> DeserializeSeed<'de> for KeyInto<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyInto<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<(), E> {
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::row::Key;
    use crate::status::Status;

    fn prepared(body: &str) -> (Preparer, Prepared) {
        let own = str::to_owned;
        let key = Key { cluster: own("c"), namespace: own("n"), group: own(""), kind: own("K"), name: own("web-one") };
        let row = Row {
            key,
            version: own("v1"),
            resource: own("ks"),
            uid: own("u"),
            status: Status::Success,
            message: own("Stored ARTIFACT"),
            category: own("other"),
            labels: vec![(own("app"), own("Web"))],
            created: None,
            deleted_at: None,
            terminating: false,
            orphaned: false,
            body: own(body),
        };
        let preparer = Preparer::new(Hashes::default());
        let prepared = preparer.prepare(row);
        (preparer, prepared)
    }

    fn list(words: &Words) -> Vec<&str> {
        words.iter().map(|(_, word)| word).collect()
    }

    #[test]
    fn words_of_the_row_and_of_the_body_are_told_apart_and_come_once() {
        let body = json!({
            "metadata": {
                "name": "web-one", "uid": "abc", "resourceVersion": "12", "managedFields": [{ "manager": "kubectl" }],
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "hidden", "note": "seen" },
            },
            "spec": { "image": "nginx:1.25", "ports": [{ "port": 8080 }, { "port": 8081 }], "paused": false },
        });
        let (preparer, prepared) = prepared(&body.to_string());
        assert_eq!(list(&prepared.public), ["web", "one", "stored", "artifact", "app"]);
        let body = list(&prepared.body);
        for word in ["metadata", "name", "annotations", "note", "seen", "spec", "nginx", "1.25", "8080", "8081"] {
            assert!(body.contains(&word), "{word} in {body:?}");
        }
        for word in ["web", "kubectl", "abc", "12", "hidden", "manager", "false"] {
            assert!(!body.contains(&word), "{word} in {body:?}");
        }
        let has = |path, value| prepared.fields.contains(&field_hash(&preparer.hashes, path, value));
        assert!(has("spec.image", "nginx:1.25") && has("spec.ports.port", "8081") && has("spec.paused", "false"));
        assert!(!has("spec.ports", "8081") && !has("metadata.uid", "abc"));
    }

    #[test]
    fn bodies_that_are_no_json_or_too_deep_are_taken_as_far_as_they_go() {
        let (_, broken) = prepared(r#"{"spec": {"a1": "first"}, "b1": "#);
        assert_eq!(list(&broken.body), ["spec", "a1", "first", "b1"]);
        assert!(list(&prepared("").1.body).is_empty());
        prepared(&format!("{}1{}", "[".repeat(5000), "]".repeat(5000)));
    }
}
