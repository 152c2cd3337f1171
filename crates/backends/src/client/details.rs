//! What may be shown of somebody else's error text: printable, short, and nothing of what we sent.
//!
//! A backend that quotes its input would otherwise put a secret into our errors and logs. Only what is sent is known here: a
//! text that shows what the backend itself keeps, or that encodes what it got, is the backend's fault and cannot be told.

use std::collections::HashSet;

use serde_json::Value;

use crate::Document;

/// Letters of a text that are shown.
const LETTERS: usize = 512;
/// A shorter text is no secret, and would be found in every sentence.
const SHORTEST: usize = 4;
/// So many bytes in a row that are the same as in what was sent are taken for a part of it.
const PART: usize = 8;
const HIDDEN: &str = "[hidden]";

/// The text with control characters replaced, cut.
pub(super) fn plain(text: &str) -> String {
    let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let mut letters = text.trim().chars();
    let mut plain: String = letters.by_ref().take(LETTERS).collect();
    if letters.next().is_some() {
        plain.push('…');
    }
    plain
}

/// The same, without any part of what was sent.
pub(super) fn shown(text: &str, sent: &[&Document]) -> String {
    let text = plain(text);
    let mut hide = vec![false; text.len()];
    let parts: HashSet<&[u8]> = text.as_bytes().windows(PART).collect();
    for document in sent {
        for secret in texts(document) {
            mark(&text, secret.as_bytes(), &parts, &mut hide);
        }
    }
    let mut shown = String::with_capacity(text.len());
    let mut hidden = false;
    for (at, letter) in text.char_indices() {
        let hides = hide[at..at + letter.len_utf8()].iter().any(|&hide| hide);
        if !hides {
            shown.push(letter);
        } else if !hidden {
            shown.push_str(HIDDEN);
        }
        hidden = hides;
    }
    shown
}

fn mark(text: &str, secret: &[u8], parts: &HashSet<&[u8]>, hide: &mut [bool]) {
    let found: Vec<&[u8]> = match secret.len() {
        0..SHORTEST => return,
        SHORTEST..PART => vec![secret],
        _ => {
            let common: HashSet<&[u8]> = secret.windows(PART).filter(|part| parts.contains(part)).collect();
            common.into_iter().collect()
        }
    };
    for part in found {
        for (at, window) in text.as_bytes().windows(part.len()).enumerate() {
            if window == part {
                hide[at..at + part.len()].fill(true);
            }
        }
    }
}

/// Every text and number in a document, names of members aside: they are what a useful error speaks of.
fn texts(document: &Document) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = match serde_json::from_slice::<Value>(&document.0) {
        Ok(value) => vec![value],
        Err(_) => return vec![String::from_utf8_lossy(&document.0).into_owned()],
    };
    while let Some(value) = left.pop() {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => found.push(number.to_string()),
            Value::String(text) => {
                // As it stands in JSON, too: that is how it is often quoted.
                let quoted = Value::from(text.as_str()).to_string();
                found.extend([quoted.trim_matches('"').to_owned(), text]);
            }
            Value::Array(items) => left.extend(items),
            Value::Object(members) => left.extend(members.into_iter().map(|(_, value)| value)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, sent: &str) -> String {
        shown(text, &[&Document(sent.as_bytes().to_vec().into())])
    }

    #[test]
    fn what_was_sent_is_hidden_whole_in_part_and_quoted() {
        let table = [
            ("no such key", r#"{"password":"correct horse"}"#, "no such key"),
            ("bad password: correct horse!", r#"{"password":"correct horse"}"#, "bad password: [hidden]!"),
            ("near 'orrect hors'", r#""correct horse""#, "near '[hidden]'"),
            ("got hunt", r#"["hunt"]"#, "got [hidden]"),
            ("got 'abc'", r#""abc""#, "got 'abc'"),
            ("pin 918273645", r#"{"pin":918273645}"#, "pin [hidden]"),
            (r#"value "a\nlonger\nsecret""#, r#""a\nlonger\nsecret""#, r#"value "[hidden]""#),
            ("cannot read plain text value", "plain text value", "cannot read [hidden]"),
            (
                "two: first-one-secret, second-secret",
                r#"["first-one-secret","second-secret"]"#,
                "two: [hidden], [hidden]",
            ),
        ];
        for (text, sent, expected) in table {
            assert_eq!(after(text, sent), expected, "{text}");
        }
    }

    #[test]
    fn texts_are_printable_and_short() {
        assert_eq!(plain(" a\n\u{1b}[31mb\0 "), "a  [31mb");
        let long = plain(&"ä".repeat(LETTERS + 1));
        assert_eq!(long.chars().count(), LETTERS + 1);
        assert!(long.ends_with('…'));
        assert_eq!(plain(&"ä".repeat(LETTERS)).chars().count(), LETTERS);
    }
}
