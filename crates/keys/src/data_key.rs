//! The key of one thing that is sealed: 32 random bytes, never stored but wrapped.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::{aead, rand};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::stream::Stream;

pub(crate) const LENGTH: usize = 32;

/// Keeps this use of a data key apart from every other one that may come.
const STREAM: &[u8] = b"stateward stream v1\0";

/// A data key; its bytes are wiped when the last copy goes.
#[derive(Clone)]
pub struct DataKey(Arc<Zeroizing<[u8; LENGTH]>>);

impl DataKey {
    /// The key of exactly one stream: HKDF-SHA256 of the data key and `info`. Two streams under one data key need
    /// different `info`.
    pub fn stream(&self, info: &[u8]) -> Stream {
        let extracted = Salt::new(HKDF_SHA256, &[]).extract(&self.0[..]);
        let parts = [STREAM, info];
        let expanded = extracted.expand(&parts, &aead::AES_256_GCM).expect("HKDF gives as much as one hash");
        Stream::new(expanded.into())
    }

    pub(crate) fn random() -> Result<DataKey, Error> {
        // Filled where it stays, so that no copy is left on the stack.
        let mut key = Arc::new(Zeroizing::new([0; LENGTH]));
        let bytes = Arc::get_mut(&mut key).expect("nobody else has it yet");
        rand::fill(&mut bytes[..]).map_err(|_| Error::Internal("the system gave no random bytes"))?;
        Ok(DataKey(key))
    }

    /// `None` if that is not as many bytes as a key has.
    pub(crate) fn from_bytes(given: &[u8]) -> Option<DataKey> {
        let mut key = Arc::new(Zeroizing::new([0; LENGTH]));
        let bytes = Arc::get_mut(&mut key).expect("nobody else has it yet");
        if given.len() != LENGTH {
            return None;
        }
        bytes.copy_from_slice(given);
        Some(DataKey(key))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[..]
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DataKey(hidden)")
    }
}
