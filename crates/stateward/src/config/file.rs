//! The YAML file: which keys it sets, on which line, and what in it is no key at all.
//!
//! The file is read into a tree of texts first, so that one wrong value does not hide the others.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::Problem;
use super::keys::{GROUPS, KEYS, Key, find};
use super::kind::Raw;
use super::suggest::nearest;

/// A key that the file sets; `None` stands for an explicit null.
pub(super) struct Assignment {
    pub key: &'static Key,
    pub value: Option<Raw>,
    pub line: u64,
}

/// Reads the text of a file. Problems name `path` and the line.
pub(super) fn read(path: &Path, text: &str) -> (Vec<Assignment>, Vec<Problem>) {
    let mut reader = Reader { path, assignments: Vec::new(), problems: Vec::new() };
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    match serde_saphyr::from_str_with_options::<Option<Spanned<Node>>>(text, options) {
        Ok(None | Some(Spanned { value: Node::Null, .. })) => {}
        Ok(Some(Spanned { value: Node::Map(entries), .. })) => reader.entries("", entries),
        Ok(Some(node)) => {
            let place = reader.place(node.referenced.line());
            let problem = Problem::new("configuration file", "is not a mapping", "write KEY: VALUE lines").at(place);
            reader.problems.push(problem);
        }
        Err(error) => {
            let place = reader.place(error.location().map_or(0, |location| location.line()));
            let fault = format!("is not YAML: {}", first_line(&error.without_snippet().to_string()));
            let problem =
                Problem::new("configuration file", fault, "correct the syntax; all else is checked after that");
            reader.problems.push(problem.at(place));
        }
    }
    (reader.assignments, reader.problems)
}

/// Where a line of a file is, as people and editors write it.
pub(super) fn place(path: &Path, line: u64) -> String {
    if line == 0 { path.display().to_string() } else { format!("{}:{line}", path.display()) }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

struct Reader<'a> {
    path: &'a Path,
    assignments: Vec<Assignment>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn place(&self, line: u64) -> String {
        place(self.path, line)
    }

    fn entries(&mut self, group: &str, entries: Vec<(Spanned<String>, Node)>) {
        for (name, node) in entries {
            let line = name.referenced.line();
            let path = if group.is_empty() { name.value } else { format!("{group}.{}", name.value) };
            if let Some(key) = find(&path) {
                self.value(key, node, line);
            } else if GROUPS.iter().any(|(group, _)| !group.is_empty() && *group == path) {
                match node {
                    Node::Map(entries) => self.entries(&path, entries),
                    Node::Null => {}
                    Node::Text(_) | Node::List(_) => self.problem(&path, line, "is a group of keys, not a value", &{
                        let members = KEYS.iter().filter(|key| key.group() == path).map(|key| key.path);
                        format!("write a mapping with keys such as {}", members.take(3).collect::<Vec<_>>().join(", "))
                    }),
                }
            } else {
                let cure = match nearest(&path, KEYS.iter().map(|key| key.path)) {
                    Some(key) => format!("did you mean {key}?"),
                    None => "remove it, or see docs/reference/configuration.md for all keys".to_owned(),
                };
                self.problem(&path, line, "is not a known key", &cure);
            }
        }
    }

    fn value(&mut self, key: &'static Key, node: Node, line: u64) {
        let value = match node {
            Node::Null => None,
            Node::Text(text) => Some(Raw::Text(text)),
            Node::List(items) if key.kind.is_list() => {
                let mut texts = Vec::new();
                for item in items {
                    match item {
                        Node::Text(text) => texts.push(text),
                        _ => {
                            return self.problem(
                                key.path,
                                line,
                                "holds something that is not text",
                                "write plain items",
                            );
                        }
                    }
                }
                Some(Raw::List(texts))
            }
            Node::List(_) | Node::Map(_) => {
                let fault = if matches!(node, Node::List(_)) { "is a list" } else { "is a mapping" };
                return self.problem(key.path, line, fault, &format!("write {}", key.kind.syntax()));
            }
        };
        self.assignments.push(Assignment { key, value, line });
    }

    fn problem(&mut self, subject: &str, line: u64, fault: &str, cure: &str) {
        let place = self.place(line);
        self.problems.push(Problem::new(subject, fault, cure).at(place));
    }
}

/// Any YAML, with scalars as text: the kind of the key says what they mean.
enum Node {
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Spanned<String>, Node)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }
}
