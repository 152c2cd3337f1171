//! Bytes as text in JSON documents.
//!
//! Heads are full of them, and every request reads or writes one: nothing is copied that need not be.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Reads a text without keeping it, and makes something of it.
fn read_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    wanted: &'static str,
    read: fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    struct Reading<T> {
        wanted: &'static str,
        read: fn(&str) -> Option<T>,
        made: PhantomData<T>,
    }

    impl<T> Visitor<'_> for Reading<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str(self.wanted)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            (self.read)(text).ok_or_else(|| E::custom(format_args!("a text is not {}", self.wanted)))
        }
    }

    deserializer.deserialize_str(Reading { wanted, read, made: PhantomData })
}

pub(crate) mod base64_text {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        super::read_text(deserializer, "base64", |text| BASE64_STANDARD.decode(text).ok())
    }
}

pub(crate) mod hex_text {
    use serde::{Deserializer, Serializer};

    pub(crate) fn encode(bytes: &[u8]) -> String {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
            }
        }
        text
    }

    pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
        let mut bytes = [0; N];
        if pairs.len() != N {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(bytes)
    }

    pub(crate) fn serialize<const N: usize, S: Serializer>(bytes: &[u8; N], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(bytes))
    }

    pub(crate) fn deserialize<'de, const N: usize, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; N], D::Error> {
        super::read_text(deserializer, "bytes in hexadecimal digits, as many as there should be", decode)
    }

    /// For a field that is left out where there is nothing.
    pub(crate) mod optional {
        use serde::{Deserializer, Serializer};

        #[expect(clippy::ref_option, reason = "what serde gives")]
        pub(crate) fn serialize<const N: usize, S: Serializer>(
            bytes: &Option<[u8; N]>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match bytes {
                Some(bytes) => super::serialize(bytes, serializer),
                None => serializer.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, const N: usize, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<[u8; N]>, D::Error> {
            super::deserialize(deserializer).map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::hex_text::{decode, encode};

    #[test]
    fn digits_are_read_as_they_were_written_and_nothing_else_is() {
        let bytes = [0x00, 0x0f, 0xf0, 0xff];
        assert_eq!(encode(&bytes), "000ff0ff");
        assert_eq!(decode("000ff0ff"), Some(bytes));
        assert_eq!(decode("000FF0FF"), Some(bytes));
        for wrong in ["", "000ff0f", "000ff0ff0", "000ff0ff00", "000ff0fg", "000ff0f ", "äöüß"] {
            assert_eq!(decode::<4>(wrong), None, "{wrong}");
        }
    }
}
