//! The versions of a key whose bytes are here, and how they wrap: AES-256-GCM under a random nonce.
//!
//! A version may wrap four thousand million times before a nonce could repeat with a chance worth naming.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

use crate::binding::bind;
use crate::data_key::{self, DataKey};
use crate::error::Error;

const DOMAIN: &[u8] = b"stateward wrapped key v1";
const ID_LIMIT: usize = 253;

/// A key of some kind, whole.
pub(crate) struct Versions {
    all: Vec<Version>,
    newest: usize,
}

pub(crate) struct Version {
    pub(crate) id: String,
    bytes: Zeroizing<[u8; data_key::LENGTH]>,
}

impl Version {
    /// Of 32 raw bytes, or of their base64; `None` if it is neither.
    pub(crate) fn read(id: &str, value: &[u8]) -> Option<Version> {
        let mut bytes = Zeroizing::new([0; data_key::LENGTH]);
        if value.len() == data_key::LENGTH {
            bytes.copy_from_slice(value);
        } else {
            let decoded = Zeroizing::new(BASE64_STANDARD.decode(value.trim_ascii()).ok()?);
            if decoded.len() != data_key::LENGTH {
                return None;
            }
            bytes.copy_from_slice(&decoded);
        }
        Some(Version { id: id.to_owned(), bytes })
    }

    pub(crate) fn random(id: String) -> Result<Version, Error> {
        let mut bytes = Zeroizing::new([0; data_key::LENGTH]);
        rand::fill(&mut bytes[..]).map_err(|_| Error::Internal("the system gave no random bytes"))?;
        Ok(Version { id, bytes })
    }

    pub(crate) fn base64(&self) -> Zeroizing<String> {
        Zeroizing::new(BASE64_STANDARD.encode(&self.bytes[..]))
    }

    fn cipher(&self) -> Result<LessSafeKey, Error> {
        let key = UnboundKey::new(&AES_256_GCM, &self.bytes[..]);
        key.map(LessSafeKey::new).map_err(|_| Error::Internal("the key has another length"))
    }
}

impl Versions {
    /// In the order given; `None` if there are none or `newest` is not one of them.
    pub(crate) fn new(all: Vec<Version>, newest: usize) -> Option<Versions> {
        (newest < all.len()).then_some(Versions { all, newest })
    }

    pub(crate) fn newest(&self) -> &str {
        &self.all[self.newest].id
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|version| version.id.as_str())
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids().any(|known| known == id)
    }

    /// Wraps under the newest version; gives its id and what is to be kept.
    pub(crate) fn wrap(&self, name: &str, key: &DataKey, context: &[u8]) -> Result<(String, Vec<u8>), Error> {
        let version = &self.all[self.newest];
        let mut kept = vec![0; NONCE_LEN];
        rand::fill(&mut kept).map_err(|_| Error::Internal("the system gave no random bytes"))?;
        let nonce =
            Nonce::try_assume_unique_for_key(&kept).map_err(|_| Error::Internal("a nonce of another length"))?;
        let mut sealed = Vec::with_capacity(data_key::LENGTH + AES_256_GCM.tag_len());
        sealed.extend_from_slice(key.bytes());
        let bound = bind(&[DOMAIN, name.as_bytes(), version.id.as_bytes(), context]);
        // In place and with room for the tag: no plain byte is left behind.
        let done = version.cipher()?.seal_in_place_append_tag(nonce, Aad::from(bound), &mut sealed);
        done.map_err(|_| Error::Internal("the cipher refused"))?;
        kept.append(&mut sealed);
        Ok((version.id.clone(), kept))
    }

    pub(crate) fn unwrap(&self, name: &str, id: &str, kept: &[u8], context: &[u8]) -> Result<DataKey, Error> {
        let version = self.all.iter().find(|version| version.id == id).ok_or_else(|| Error::no_version(name, id))?;
        let wrong = || Error::wrong_key(name, id);
        let (nonce, sealed) = kept.split_at_checked(NONCE_LEN).ok_or_else(wrong)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| wrong())?;
        let mut plain = Zeroizing::new(sealed.to_vec());
        let bound = bind(&[DOMAIN, name.as_bytes(), id.as_bytes(), context]);
        let opened = version.cipher()?.open_in_place(nonce, Aad::from(bound), &mut plain).map_err(|_| wrong())?;
        DataKey::from_bytes(opened).ok_or_else(wrong)
    }
}

/// Ids stand in files, JSON and error texts: letters, digits, dots, hyphens and underscores, as in the keys of a Secret.
pub(crate) fn is_version_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=ID_LIMIT).contains(&text.len()) && text.bytes().all(fits)
}

impl fmt::Debug for Versions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<&str> = self.ids().collect();
        formatter.debug_struct("Versions").field("ids", &ids).field("newest", &self.newest()).finish_non_exhaustive()
    }
}
