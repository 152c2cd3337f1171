//! A look at a document before it is parsed: brackets that would exhaust the parser, numbers that it would round, texts that
//! it would not read as they are meant.

use std::borrow::Cow;
use std::iter;

use async_graphql::Value;
use async_graphql::parser::parse_query;
use async_graphql::parser::types::Selection;

use super::fault::Fault;

/// Values beyond this go into variables, which cost less than what a parser makes of a document.
const LARGEST: usize = 1 << 20;
const DEEPEST: usize = 100;

pub(super) fn check(document: &str) -> Result<(), Fault> {
    if document.len() > LARGEST {
        return Err(Fault::too_large(format!(
            "query: the document is larger than {LARGEST} bytes; send values in variables"
        )));
    }
    let mut depth = 0_usize;
    for (at, token) in tokens(document) {
        match token.as_bytes().first() {
            Some(b'"') => nul(document, at, token)?,
            Some(b'-' | b'0'..=b'9') => number(document, at, token)?,
            Some(b'[' | b'{' | b'(') => depth += 1,
            Some(b']' | b'}' | b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(Fault::malformed(format!("query: brackets are nested more than {DEEPEST} levels deep")));
        }
    }
    Ok(())
}

/// The same document in a spelling that the parser reads as it is meant: it takes no character that is written as a pair of
/// surrogates, and leaves the backslash where a block says `\"""`.
pub(super) fn respelt(document: &str) -> Cow<'_, str> {
    let (mut respelt, mut copied) = (String::new(), 0);
    for (at, token) in tokens(document) {
        if let Some(other) = other_spelling(token) {
            respelt.push_str(&document[copied..at]);
            respelt.push_str(&other);
            copied = at + token.len();
        }
    }
    if copied == 0 {
        return Cow::Borrowed(document);
    }
    respelt.push_str(&document[copied..]);
    Cow::Owned(respelt)
}

fn other_spelling(token: &str) -> Option<String> {
    match token.strip_prefix("\"\"\"") {
        Some(block) if block.contains(QUOTES) => block_as_string(token),
        None if token.starts_with('"') && token.contains("\\u") => pairs_as_characters(token),
        _ => None,
    }
}

/// Three quotes in a block.
const QUOTES: &str = "\\\"\"\"";

fn block_as_string(block: &str) -> Option<String> {
    let document = parse_query(format!("{{a(b:{block})}}")).ok()?;
    let (_name, operation) = document.operations.iter().next()?;
    let Selection::Field(field) = &operation.node.selection_set.node.items.first()?.node else { return None };
    let (_name, value) = field.node.arguments.first()?;
    let Value::String(text) = value.node.clone().into_const()? else { return None };
    let string = serde_json::to_string(&text.replace(QUOTES, "\"\"\"")).ok()?;
    // What comes after it stays in its line.
    Some(string + &"\n".repeat(block.matches('\n').count()))
}

fn pairs_as_characters(string: &str) -> Option<String> {
    let (mut text, mut rest) = (String::with_capacity(string.len()), string);
    while let Some((before, escape)) = rest.find('\\').map(|at| rest.split_at(at)) {
        text.push_str(before);
        rest = if let Some(letter) = escape.get(..12).and_then(pair) {
            text.push(letter);
            &escape[12..]
        } else {
            let (one, after) = escape.split_at(escape.char_indices().nth(2).map_or(escape.len(), |(at, _)| at));
            text.push_str(one);
            after
        };
    }
    text.push_str(rest);
    (text != string).then_some(text)
}

/// The character that two escapes are.
fn pair(escapes: &str) -> Option<char> {
    let unit = |escape: &str| u16::from_str_radix(escape.strip_prefix("\\u")?, 16).ok();
    let units = [unit(escapes.get(..6)?)?, unit(escapes.get(6..)?)?];
    char::decode_utf16(units).next()?.ok().filter(|letter| letter.len_utf16() == 2)
}

/// Where each token begins, and what it is: comments, texts, words and numbers are whole. They end where the parser ends them.
fn tokens(document: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    iter::from_fn(move || {
        let (at, rest) = (next, document.get(next..)?);
        let letter = rest.chars().next()?;
        let length = match letter {
            '#' => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            '"' => string(rest),
            '_' | 'a'..='z' | 'A'..='Z' => span(rest, |letter| letter == '_' || letter.is_ascii_alphanumeric()),
            '-' | '0'..='9' => span(rest, |letter| letter.is_ascii_digit() || ".eE+-".contains(letter)),
            _ => letter.len_utf8(),
        };
        let token = rest.get(..length).unwrap_or(rest);
        next += token.len();
        Some((at, token))
    })
}

fn number(document: &str, at: usize, text: &str) -> Result<(), Fault> {
    // What is no number at all is for the parser to say.
    let Ok(read) = text.parse::<serde_json::Number>() else { return Ok(()) };
    if read.to_string() == text {
        return Ok(());
    }
    let place = place(document, at);
    Err(Fault::malformed(format!(
        "query: the number at {place} would not come back as it is written; send it in a variable"
    )))
}

/// No name has one, and no database takes it.
fn nul(document: &str, at: usize, text: &str) -> Result<(), Fault> {
    if text.contains('\0') || text.contains("\\u0000") {
        let place = place(document, at);
        return Err(Fault::malformed(format!(
            "query: the text at {place} has a NUL character; only values may have one: send it in a variable"
        )));
    }
    Ok(())
}

fn place(document: &str, at: usize) -> String {
    let before = document.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    format!("line {line}, column {column}")
}

/// How long a string is that begins here, with its quotes.
fn string(rest: &str) -> usize {
    if let Some(block) = rest.strip_prefix("\"\"\"") {
        let mut from = 0;
        while let Some(found) = block.get(from..).and_then(|block| block.find("\"\"\"")) {
            let end = from + found;
            if !block[..end].ends_with('\\') {
                return end + 6;
            }
            from = end + 3;
        }
        return rest.len();
    }
    let mut escaped = true;
    for (at, letter) in rest.char_indices() {
        match letter {
            '"' if !escaped => return at + 1,
            '\n' | '\r' => return at,
            _ => escaped = !escaped && letter == '\\',
        }
    }
    rest.len()
}

fn span(rest: &str, belongs: impl Fn(char) -> bool) -> usize {
    rest.find(|letter| !belongs(letter)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_double_rounds_are_refused_with_their_place() {
        for good in [
            "{ a(b: 12, c: -7, d: 0.5, e: 18446744073709551615) }",
            "{ a1_2: b(x: \"1.50\") # 1.50\n c }",
            "\"\"\"1.50 \\\"\"\" 1.50\"\"\"",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, place) in [
            ("{ a(b: 1.50) }", "line 1, column 8"),
            ("{\n  a(b: [1, 12345678901234567890123])\n}", "line 2, column 12"),
            ("{ a(b: \"x\\\"\", c: 1e3) }", "line 1, column 18"),
        ] {
            let fault = check(bad).unwrap_err();
            assert!(fault.message.contains(place) && fault.message.contains("variable"), "{fault}");
        }
    }

    #[test]
    fn texts_are_respelt_as_they_are_meant() {
        let table = [
            (
                r#"{ a(b: "\ud83d\uDE00 \\ud83d\u00e9") } # "\ud83d\ude00""#,
                r#"{ a(b: "😀 \\ud83d\u00e9") } # "\ud83d\ude00""#,
            ),
            (r#"{ a(b: "\ud83d", c: "\ude00\ud83d") }"#, ""),
            (r#"{ a(b: """\ud83d\ude00""") }"#, ""),
            (
                "{ a(b: \"\"\"\n  x \\\"\"\" \\n\n    y\n\"\"\", c: 1) }",
                "{ a(b: \"x \\\"\\\"\\\" \\\\n\\n  y\"\n\n\n, c: 1) }",
            ),
            (r#"{ a(b: """\""" ) }"#, ""),
        ];
        for (document, expected) in table {
            let expected = if expected.is_empty() { document } else { expected };
            assert_eq!(respelt(document), expected, "{document}");
        }
    }

    #[test]
    fn texts_have_no_nul() {
        for text in ["{ a(b: \"x\\u0000\") }", "{ a(b: \"\0\") }", "{ a(b: \"\"\"\0\"\"\") }"] {
            let fault = check(text).unwrap_err();
            assert!(fault.message.contains("NUL") && fault.message.contains("line 1, column 8"), "{fault}");
        }
        assert_eq!(check("{ a(b: \"\\u0001\") } # \\u0000"), Ok(()));
    }

    #[test]
    fn brackets_go_only_so_deep() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(check(&nested(DEEPEST)), Ok(()));
        for before in ["", "#\r", "# \"\r\n", "\"\r"] {
            let document = before.to_owned() + &nested(DEEPEST + 1);
            assert!(check(&document).unwrap_err().message.contains("nested"), "{before:?}");
        }
        assert_eq!(check(&format!("{{ a(b: \"{}\") }}", "[".repeat(1000))), Ok(()));
        assert_eq!(check(&"a".repeat(LARGEST + 1)).unwrap_err().code, "TOO_LARGE");
    }

    #[test]
    fn whatever_is_sent_is_scanned_to_its_end() {
        for text in [
            "\"",
            "\"\"\"",
            "\"\\",
            "\"a\nb",
            "-",
            "é\"é\\é\"",
            "#",
            "1.5.5",
            "\"\"\"\\\"\"\"",
            "\"\\ud83d\\",
            "\"\\ud83d\\ué",
        ] {
            _ = (check(text), respelt(text));
        }
    }
}
