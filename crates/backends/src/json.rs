//! Whether bytes are JSON, without reading what they say: numbers stay as they were written.

use bytes::Bytes;
use serde::de::IgnoredAny;

/// Whether this is one JSON document.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// A text as a JSON string.
pub(crate) fn string(text: &str) -> Bytes {
    Bytes::from(serde_json::Value::from(text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_whole_document_is_json_and_nothing_else_is() {
        for good in ["null", "\"a\"", "1.50", "12345678901234567890123", "[1,null]", "{\"a\":{\"b\":null}}", " {} \n"] {
            assert!(is_json(good.as_bytes()), "{good}");
        }
        for bad in [b"".as_slice(), b"plain", b"{", b"{} {}", b"\"\xff\"", b"'a'", b"{\"a\":01}", b"\xef\xbb\xbf{}"] {
            assert!(!is_json(bad), "{bad:?}");
        }
        assert_eq!(string("say \"hi\"\n"), "\"say \\\"hi\\\"\\n\"");
    }
}
