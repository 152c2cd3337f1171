//! YAML that reads back as the same document: blocks for people, quotes wherever a reader could guess.

use super::super::Document;
use super::scalar;

impl Document {
    /// Block style, ended by a newline.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        match self {
            Document::List(items) if !items.is_empty() => list(items, 0, &mut text),
            Document::Map(entries) if !entries.is_empty() => map(entries, 0, &mut text),
            // A block of text would need something to be indented against.
            Document::Text(words) => text.push_str(&inline(words)),
            other => single(other, 0, &mut text),
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }
}

fn map(entries: &[(String, Document)], indent: usize, text: &mut String) {
    for (number, (key, value)) in entries.iter().enumerate() {
        if number > 0 {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str(&inline(key));
        text.push(':');
        match value {
            Document::Map(entries) if !entries.is_empty() => {
                text.push('\n');
                text.push_str(&" ".repeat(indent + 2));
                map(entries, indent + 2, text);
            }
            Document::List(items) if !items.is_empty() => {
                text.push('\n');
                text.push_str(&" ".repeat(indent));
                list(items, indent, text);
            }
            other => {
                text.push(' ');
                single(other, indent, text);
                text.push('\n');
            }
        }
    }
}

fn list(items: &[Document], indent: usize, text: &mut String) {
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str("- ");
        match item {
            Document::Map(entries) if !entries.is_empty() => map(entries, indent + 2, text),
            Document::List(items) if !items.is_empty() => list(items, indent + 2, text),
            other => {
                single(other, indent, text);
                text.push('\n');
            }
        }
    }
}

/// What stands on the line of its key, or begins there.
fn single(value: &Document, indent: usize, text: &mut String) {
    match value {
        Document::Text(words) if is_block(words) => block(words, indent + 2, text),
        Document::Text(words) => text.push_str(&inline(words)),
        other => text.push_str(&other.to_json()),
    }
}

/// Whether a text is of lines that a literal block keeps as they are.
fn is_block(words: &str) -> bool {
    let readable = words
        .chars()
        .all(|letter| letter == '\n' || !letter.is_control() && !"\u{feff}\u{2028}\u{2029}".contains(letter));
    words.trim_end_matches('\n').contains('\n') && readable && !words.starts_with([' ', '\n'])
}

fn block(words: &str, indent: usize, text: &mut String) {
    let body = words.trim_end_matches('\n');
    let ends = words.len() - body.len();
    text.push_str(match ends {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    for line in body.split('\n') {
        text.push('\n');
        if !line.is_empty() {
            text.push_str(&" ".repeat(indent));
            text.push_str(line);
        }
    }
    // The newline of the last line is written by whoever ends the entry.
    text.push_str(&"\n".repeat(ends.saturating_sub(1)));
}

/// A text on one line: as it is where nothing else could be meant, else quoted as in JSON, which YAML reads the same.
fn inline(words: &str) -> String {
    let begins = words.starts_with(|letter: char| letter.is_ascii_alphanumeric() || "/_".contains(letter));
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/_.-+:@=".contains(letter);
    let is_plain = begins && words.chars().all(plain) && !words.ends_with(':');
    // Words that YAML 1.1 takes for something else, beside those that we do.
    let guessed = matches!(words.to_ascii_lowercase().as_str(), "y" | "n" | "yes" | "no" | "on" | "off");
    // Digits with colons are numbers to the base of sixty, and dates are times, to some readers.
    let number = words.starts_with(|letter: char| letter.is_ascii_digit())
        && words.chars().all(|letter| letter.is_ascii_digit() || ":.-+TZtz_eE".contains(letter))
        && !is_dotted(words);
    let is_text = || scalar::plain_value(words).is_ok_and(|value| value.as_str() == Some(words));
    if is_plain && !guessed && !number && is_text() {
        return words.to_owned();
    }
    Document::text(words).to_json()
}

/// Revisions such as `0.1.0` are texts to everybody.
fn is_dotted(words: &str) -> bool {
    words.matches('.').count() > 1 && words.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
}

#[cfg(test)]
mod tests {
    use super::super::read_all;
    use super::*;

    #[test]
    fn what_is_written_reads_back_the_same() {
        let texts = [
            "",
            " ",
            "a",
            "yes",
            "null",
            "~",
            "1",
            "0.1.0",
            "1.5",
            "0123",
            "1e3",
            "true",
            "a b",
            "a: b",
            "a #b",
            "- a",
            "#",
            "'",
            "\"",
            "a\nb",
            "a\nb\n",
            "a\nb\n\n",
            "\na",
            " a\nb",
            "a\n\n  b\n",
            "a\tb",
            "\u{1b}",
            "ü",
            "😀",
            "&a",
            "*a",
            "!a",
            "[a",
            "{a",
            "%a",
            "@a",
            "`a",
            "|",
            ">",
            "a:",
            ":a",
            "12:30:45",
            "2021-12-09",
            "0x1F",
            "---",
            "...",
            "\u{2028}x\ny",
            "a\r\nb",
            "\n",
            "x\n",
        ];
        for text in texts {
            let document = Document::map([
                ("key", text.into()),
                (
                    text,
                    Document::List(vec![
                        text.into(),
                        Document::List(vec![text.into()]),
                        Document::map([("k", text.into())]),
                    ]),
                ),
                ("last", Document::Null),
            ]);
            let written = document.to_yaml();
            assert_eq!(read_all(&written).unwrap(), [document], "{text:?}:\n{written}");
            let alone = Document::text(text);
            assert_eq!(read_all(&alone.to_yaml()).unwrap(), [alone], "{text:?}");
        }
    }

    #[test]
    fn people_can_read_it() {
        let json = r#"{"id":"a-1","value":{"key":"one\ntwo\n","price":1.50,"big":12345678901234567890123,"list":[{"a":1,"b":[]},[2]],"no":{}},
            "typeRef":{"path":"cap.type.x","revision":"0.1.0"}}"#;
        let expected = "id: a-1\nvalue:\n  key: |\n    one\n    two\n  price: 1.50\n  big: 12345678901234567890123\n  list:\n  - a: 1\n    \
                        b: []\n  - - 2\n  \"no\": {}\ntypeRef:\n  path: cap.type.x\n  revision: 0.1.0\n";
        assert_eq!(Document::read(json).unwrap().to_yaml(), expected);
    }
}
