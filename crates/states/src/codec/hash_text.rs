//! Hashes as text (base64 without padding) where a description of segments is written as JSON: a third of the bytes
//! that an array of numbers takes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD_NO_PAD.encode(hash))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = STANDARD_NO_PAD.decode(text).map_err(D::Error::custom)?;
    bytes.try_into().map_err(|_| D::Error::custom("expected 32 bytes"))
}
