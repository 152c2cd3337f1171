//! JSON as its text: no digit, no order and no nested null is lost on the way.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON document, compact. It may be a secret: Debug does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Arc<str>);

/// The text is not JSON, or is nested too deep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not JSON, or is nested more than {DEEPEST} levels deep")]
pub struct JsonError;

impl Json {
    /// Takes any JSON text and drops the white space between its tokens, and nothing else.
    pub fn parse(text: &str) -> Result<Json, JsonError> {
        let checked: &RawValue = serde_json::from_str(text).map_err(|_| JsonError)?;
        compact(checked.get()).map(|compact| Json(compact.into())).ok_or(JsonError)
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }

    /// The document as schemas see it, where numbers may have lost digits. `None` where a number is beyond all that can be
    /// compared, or a text has half a character: JSON may be written so.
    pub(crate) fn comparable(&self) -> Option<Value> {
        serde_json::from_str(&self.0).ok()
    }

    /// The same; null where there is none.
    pub(crate) fn value(&self) -> Value {
        self.comparable().unwrap_or_default()
    }
}

/// Deeper documents would not be read again by those who make trees of them, schemas among them.
const DEEPEST: usize = 100;

/// `None` if it is nested too deep.
fn compact(text: &str) -> Option<String> {
    let mut compact = String::with_capacity(text.len());
    let (mut in_string, mut escaped, mut depth) = (false, false, 0_usize);
    for letter in text.chars() {
        if in_string {
            in_string = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
        } else if matches!(letter, ' ' | '\t' | '\n' | '\r') {
            continue;
        } else {
            in_string = letter == '"';
            depth = match letter {
                '[' | '{' => depth + 1,
                ']' | '}' => depth.saturating_sub(1),
                _ => depth,
            };
            if depth > DEEPEST {
                return None;
            }
        }
        compact.push(letter);
    }
    Some(compact)
}

impl fmt::Debug for Json {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Json({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_between_tokens_goes() {
        let deepest = "[".repeat(DEEPEST) + &"]".repeat(DEEPEST);
        let table = [
            (" null\n", "null"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("[ 1.50 , -0.0e+10 ]", "[1.50,-0.0e+10]"),
            (r#"{ "b" : null , "a" : " x \" y \\" , "b" : 1 }"#, r#"{"b":null,"a":" x \" y \\","b":1}"#),
            (r#""\u00e9 \\\" \t""#, r#""\u00e9 \\\" \t""#),
            (r"[[],{}]", "[[],{}]"),
            (&deepest, &deepest),
        ];
        for (text, expected) in table {
            assert_eq!(Json::parse(text).unwrap().text(), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_known() {
        for (text, expected) in
            [("{\"a\":1e9}", true), ("[1e999999]", false), (r#"{"a":"\ud800"}"#, false), ("null", true)]
        {
            let json = Json::parse(text).unwrap();
            assert_eq!((json.text(), json.comparable().is_some()), (text, expected));
        }
    }

    #[test]
    fn what_is_not_json_is_refused_and_nothing_is_shown() {
        let too_deep = "[".repeat(DEEPEST + 1) + &"]".repeat(DEEPEST + 1);
        for text in ["", "{", "nul", "1 2", "'a'", "[1,]", &"[".repeat(200), &too_deep] {
            assert_eq!(Json::parse(text), Err(JsonError), "{text}");
        }
        assert_eq!(format!("{:?}", Json::parse("\"secret\"").unwrap()), "Json(8 bytes)");
    }
}
