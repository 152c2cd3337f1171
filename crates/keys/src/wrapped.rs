//! A data key as it is kept beside what it seals.

use serde::{Deserialize, Serialize};

/// A wrapped data key. It is no secret: only the named key opens it, and only in the context that it was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrapped {
    /// The name of the key that wrapped it.
    pub key: String,
    /// The version of that key.
    pub version: String,
    /// What that key made of it.
    #[serde(with = "base64_text")]
    pub bytes: Vec<u8>,
}

mod base64_text {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD.decode(text).map_err(|_| serde::de::Error::custom("a wrapped key is not base64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_base64_in_json() {
        let wrapped = Wrapped { key: "main".to_owned(), version: "v1".to_owned(), bytes: vec![0, 255, 62] };
        let text = serde_json::to_string(&wrapped).unwrap();
        assert_eq!(text, r#"{"key":"main","version":"v1","bytes":"AP8+"}"#);
        assert_eq!(serde_json::from_str::<Wrapped>(&text).unwrap(), wrapped);
        assert!(serde_json::from_str::<Wrapped>(r#"{"key":"main","version":"v1","bytes":"?"}"#).is_err());
    }
}
