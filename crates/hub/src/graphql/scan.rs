//! A look at a document before it is parsed: brackets that would exhaust the parser, numbers that it would round.

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
    let mut rest = document;
    let mut depth = 0_usize;
    while let Some(letter) = rest.chars().next() {
        let length = match letter {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '"' => {
                let length = string(rest);
                nul(document, document.len() - rest.len(), rest.get(..length).unwrap_or_default())?;
                length
            }
            '_' | 'a'..='z' | 'A'..='Z' => span(rest, |letter| letter == '_' || letter.is_ascii_alphanumeric()),
            '-' | '0'..='9' => {
                let length = span(rest, |letter| letter.is_ascii_digit() || ".eE+-".contains(letter));
                number(document, document.len() - rest.len(), &rest[..length])?;
                length
            }
            _ => {
                depth = match letter {
                    '[' | '{' | '(' => depth + 1,
                    ']' | '}' | ')' => depth.saturating_sub(1),
                    _ => depth,
                };
                if depth > DEEPEST {
                    return Err(Fault::malformed(format!(
                        "query: brackets are nested more than {DEEPEST} levels deep"
                    )));
                }
                letter.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(())
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
            '\n' => return at,
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
        assert!(check(&nested(DEEPEST + 1)).unwrap_err().message.contains("nested"));
        assert_eq!(check(&format!("{{ a(b: \"{}\") }}", "[".repeat(1000))), Ok(()));
        assert_eq!(check(&"a".repeat(LARGEST + 1)).unwrap_err().code, "TOO_LARGE");
    }

    #[test]
    fn whatever_is_sent_is_scanned_to_its_end() {
        for text in ["\"", "\"\"\"", "\"\\", "\"a\nb", "-", "é\"é\\é\"", "#", "1.5.5", "\"\"\"\\\"\"\""] {
            _ = check(text);
        }
    }
}
