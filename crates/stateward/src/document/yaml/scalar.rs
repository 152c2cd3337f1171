//! What a scalar of YAML is in JSON: the core schema of YAML 1.2, with numbers taken by their text.

use super::super::Document;

/// What a tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Bool,
    Null,
}

/// The value of a scalar. Only a plain one is anything but a text, unless a tag says so.
pub fn value(text: &str, plain: bool, tag: Option<Kind>) -> Result<Document, String> {
    match tag {
        Some(Kind::Text) => Ok(Document::text(text)),
        Some(Kind::Number) => number(text)?.ok_or_else(|| "it is no number".to_owned()),
        Some(Kind::Bool) => boolean(text).ok_or_else(|| "it is neither true nor false".to_owned()),
        Some(Kind::Null) => Ok(Document::Null),
        None if !plain => Ok(Document::text(text)),
        None => plain_value(text),
    }
}

/// What a text means that stands without quotes.
pub fn plain_value(text: &str) -> Result<Document, String> {
    if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Ok(Document::Null);
    }
    if let Some(boolean) = boolean(text) {
        return Ok(boolean);
    }
    Ok(number(text)?.unwrap_or_else(|| Document::text(text)))
}

fn boolean(text: &str) -> Option<Document> {
    match text {
        "true" | "True" | "TRUE" => Some(Document::Bool(true)),
        "false" | "False" | "FALSE" => Some(Document::Bool(false)),
        _ => None,
    }
}

/// A number as JSON writes it; `None` if it is none, an error if readers of YAML differ about it or JSON has none like it.
fn number(text: &str) -> Result<Option<Document>, String> {
    if is_json(text) {
        return Ok(Some(Document::Number(text.to_owned())));
    }
    let (sign, rest) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    if matches!(rest, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Err("it is no number of JSON: put it in quotes if it is a text".to_owned());
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        let digits = rest.strip_prefix(prefix).filter(|digits| digits.chars().all(|digit| digit.is_digit(radix)));
        if let Some(digits) = digits.filter(|digits| !digits.is_empty()) {
            let number =
                u128::from_str_radix(digits, radix).map_err(|_| "the number is too large: write it out".to_owned())?;
            return Ok(Some(Document::Number(format!("{sign}{number}"))));
        }
    }
    if rest.len() > 1 && rest.starts_with('0') && rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("readers differ about a number with a zero before it: put it in quotes if it is a text".to_owned());
    }
    // Forms that YAML has and JSON has not: a plus, no digit before or after the point.
    let (mantissa, exponent) = rest.find(['e', 'E']).map_or((rest, ""), |end| rest.split_at(end));
    let written = match mantissa.split_once('.') {
        Some(("", "")) | None => format!("{sign}{mantissa}{exponent}"),
        Some((whole, part)) => format!("{sign}{}.{}{exponent}", filled(whole), filled(part)),
    };
    Ok(is_json(&written).then_some(Document::Number(written)))
}

fn filled(digits: &str) -> &str {
    if digits.is_empty() { "0" } else { digits }
}

fn is_json(text: &str) -> bool {
    let begins = text.bytes().next().is_some_and(|byte| byte == b'-' || byte.is_ascii_digit());
    begins && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok_and(|raw| raw.get() == text)
}
