//! Bytes as text in JSON documents.

pub(crate) mod base64_text {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD.decode(text).map_err(|_| serde::de::Error::custom("a text is not base64"))
    }
}

pub(crate) mod hex_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn encode(bytes: &[u8]) -> String {
        let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
        bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
    }

    pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
        let digits = text.bytes().map(|byte| char::from(byte).to_digit(16)).collect::<Option<Vec<u32>>>()?;
        let pairs = digits.chunks_exact(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]));
        let bytes = pairs.collect::<Result<Vec<u8>, _>>().ok()?;
        bytes.try_into().ok().filter(|_| text.len() == 2 * N)
    }

    pub(crate) fn serialize<const N: usize, S: Serializer>(bytes: &[u8; N], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(bytes))
    }

    pub(crate) fn deserialize<'de, const N: usize, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; N], D::Error> {
        let text = String::deserialize(deserializer)?;
        decode(&text).ok_or_else(|| serde::de::Error::custom(format!("a text is not {N} bytes in hexadecimal digits")))
    }
}
