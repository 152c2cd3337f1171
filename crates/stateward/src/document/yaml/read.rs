//! From the events of the parser to trees.

use std::collections::HashMap;
use std::iter::Peekable;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::super::{DEEPEST, Document, Fault};
use super::scalar;

/// What anchors and their repetitions may make of a file, in nodes.
const MOST_NODES: usize = 1_000_000;

/// The documents of a stream; a stream without any is empty.
pub fn read_all(text: &str) -> Result<Vec<Document>, Fault> {
    let mut reader = Reader { events: Parser::new_from_str(text).peekable(), anchors: HashMap::new(), nodes: 0 };
    let mut documents = Vec::new();
    while let Some((event, _)) = reader.next()? {
        if matches!(event, Event::DocumentStart(..)) {
            reader.anchors.clear();
            documents.push(reader.node(0)?);
        }
    }
    Ok(documents)
}

struct Reader<'a> {
    events: Peekable<Parser<'a, StrInput<'a>>>,
    anchors: HashMap<usize, Document>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    /// The next event that is data.
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Fault> {
        for event in self.events.by_ref() {
            let (event, span) = event.map_err(|error| broken(&error))?;
            if !matches!(event, Event::Comment(..)) {
                return Ok(Some((event, span)));
            }
        }
        Ok(None)
    }

    fn node(&mut self, depth: usize) -> Result<Document, Fault> {
        let (event, span) = self.next()?.ok_or_else(|| Fault::new("it ends too early"))?;
        self.node_of(event, span, depth)
    }

    fn node_of(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Document, Fault> {
        if depth > DEEPEST {
            return Err(at(span, format!("it is nested more than {DEEPEST} levels deep")));
        }
        self.nodes += 1;
        let (anchor, document) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_deref().map(|tag| meaning(tag, span)).transpose()?;
                let plain = style == ScalarStyle::Plain;
                (anchor, scalar::value(&text, plain, tag).map_err(|fault| at(span, fault))?)
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.list(depth)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.map(depth)?),
            Event::Alias(anchor) => (0, self.repeated(anchor, span)?),
            _ => return Err(at(span, "there is no value where one is meant")),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, document.clone());
        }
        if self.nodes > MOST_NODES {
            return Err(at(span, format!("it has more than {MOST_NODES} nodes")));
        }
        Ok(document)
    }

    fn repeated(&mut self, anchor: usize, span: Span) -> Result<Document, Fault> {
        let document = self.anchors.get(&anchor).ok_or_else(|| at(span, "an alias stands within its own anchor"))?;
        self.nodes += count(document);
        if self.nodes > MOST_NODES {
            return Err(at(span, format!("it has more than {MOST_NODES} nodes")));
        }
        Ok(document.clone())
    }

    fn list(&mut self, depth: usize) -> Result<Document, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                Some((Event::SequenceEnd, _)) => return Ok(Document::List(items)),
                Some((event, span)) => items.push(self.node_of(event, span, depth + 1)?),
                None => return Err(Fault::new("it ends within a list")),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Document, Fault> {
        let mut entries: Vec<(String, Document)> = Vec::new();
        loop {
            let (key, span) = match self.next()? {
                Some((Event::MappingEnd, _)) => return Ok(Document::Map(entries)),
                Some((Event::Scalar(text, style, ..), span)) => {
                    if style == ScalarStyle::Plain && text == "<<" {
                        return Err(at(span, "a merge key is not taken: write the fields out"));
                    }
                    (text.into_owned(), span)
                }
                Some((_, span)) => return Err(at(span, "a key must be a plain text")),
                None => return Err(Fault::new("it ends within a map")),
            };
            if entries.iter().any(|(known, _)| *known == key) {
                return Err(at(span, "a key is there twice"));
            }
            entries.push((key, self.node(depth + 1)?));
        }
    }
}

fn count(document: &Document) -> usize {
    1 + match document {
        Document::List(items) => items.iter().map(count).sum(),
        Document::Map(entries) => entries.iter().map(|(_, value)| count(value)).sum(),
        _ => 0,
    }
}

fn meaning(tag: &Tag, span: Span) -> Result<scalar::Kind, Fault> {
    match tag.core_suffix() {
        Some("str") => Ok(scalar::Kind::Text),
        Some("int" | "float") => Ok(scalar::Kind::Number),
        Some("bool") => Ok(scalar::Kind::Bool),
        Some("null") => Ok(scalar::Kind::Null),
        _ if tag.suffix().is_empty() => Ok(scalar::Kind::Text),
        _ => Err(at(span, "a tag has no meaning here: leave it out")),
    }
}

fn at(span: Span, fault: impl Into<String>) -> Fault {
    Fault::at(fault, span.start.line(), span.start.col() + 1)
}

/// Without the words of the parser, which may repeat what it read.
fn broken(error: &ScanError) -> Fault {
    Fault::at("it is neither JSON nor YAML", error.marker().line(), error.marker().col() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_is_json_with_its_numbers_as_they_were_written() {
        let table = [
            ("a: 12345678901234567890123\nb: 1.50\n", r#"{"a":12345678901234567890123,"b":1.50}"#),
            ("- 1e400\n- -0.0\n- 0.1.0\n- '1'\n- !!str 2", r#"[1e400,-0.0,"0.1.0","1","2"]"#),
            ("a: null\nb: ~\nc:\nd: ''\ne: no\nf: True", r#"{"a":null,"b":null,"c":null,"d":"","e":"no","f":true}"#),
            ("a: 0x1F\nb: +5\nc: .5\nd: 1.\ne: 0o17", r#"{"a":31,"b":5,"c":0.5,"d":1.0,"e":15}"#),
            ("a: |\n  one\n  two\nb: >-\n  one\n  two\n", r#"{"a":"one\ntwo\n","b":"one two"}"#),
            ("1: a\ntrue: b\n", r#"{"1":"a","true":"b"}"#),
            ("a: &x {k: 1.0}\nb: *x\n", r#"{"a":{"k":1.0},"b":{"k":1.0}}"#),
            ("value: foo # a comment\n", r#"{"value":"foo"}"#),
            (
                "at: 2021-12-09\nid: 1234-5\nip: 10.0.0.1:50051",
                r#"{"at":"2021-12-09","id":"1234-5","ip":"10.0.0.1:50051"}"#,
            ),
            ("foo", r#""foo""#),
        ];
        for (text, expected) in table {
            let [document] = &read_all(text).unwrap()[..] else { panic!("{text}") };
            assert_eq!(document.to_json(), expected, "{text}");
        }
    }

    #[test]
    fn what_would_be_guessed_or_grow_is_refused() {
        let lines = (0..8).map(|step| {
            let (name, last) = (char::from(b'b' + step), char::from(b'a' + step));
            format!("{name}: &{name} [{}]\n", vec![format!("*{last}"); 10].join(","))
        });
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned() + &lines.collect::<Vec<_>>().concat();
        let deep = "[".repeat(DEEPEST + 2) + &"]".repeat(DEEPEST + 2);
        let table = [
            ("a: 1\na: 2", "a key is there twice at line 2, column 1"),
            ("base: &b {x: 1}\nover:\n  <<: *b", "merge key"),
            ("a: 0123", "quotes"),
            ("a: .inf", "no number of JSON"),
            ("a: !!int x", "no number"),
            ("a: !secret x", "tag"),
            ("? [a]\n: b", "a key must be a plain text"),
            ("a: [1", "neither JSON nor YAML"),
            (&bomb, "more than"),
            (&deep, "levels deep"),
        ];
        for (text, fault) in table {
            let error = read_all(text).unwrap_err().to_string();
            assert!(error.contains(fault), "{error}");
        }
    }
}
