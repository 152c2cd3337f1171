//! A key of the transit engine of Vault or OpenBao: it wraps over there, and its bytes never come here.
//!
//! The context is sent as associated data, which an AEAD key (`aes256-gcm96`, the default, or `chacha20-poly1305`)
//! authenticates, and as the derivation context that a derived key needs besides; other types of keys refuse it. The
//! engine's own `rewrap` ignores associated data, so that re-wrapping is a decryption and an encryption.

mod login;
mod vault;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::FutureExt as _;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::{Answer, Kind};
use crate::binding::bind;
use crate::data_key::DataKey;
use crate::error::Error;
use vault::{BadRequest, CallError};

pub use login::Auth;
pub use vault::{Vault, VaultSettings};

const DOMAIN: &[u8] = b"stateward transit key v1";
/// How long the number of the newest version is believed.
const TIME_TO_LIVE: Duration = Duration::from_secs(5);
/// Longer ones are nobody's data key.
const CIPHERTEXT_LIMIT: usize = 4096;

#[derive(Debug)]
pub(super) struct Transit {
    vault: Vault,
    mount: String,
    key: String,
    newest: Mutex<Option<(Instant, String)>>,
}

#[derive(Serialize)]
struct Encrypt<'a> {
    plaintext: &'a str,
    associated_data: &'a str,
    context: &'a str,
}

#[derive(Serialize)]
struct Decrypt<'a> {
    ciphertext: &'a str,
    associated_data: &'a str,
    context: &'a str,
}

#[derive(Deserialize)]
struct Answered<T> {
    data: T,
}

#[derive(Deserialize)]
struct Ciphertext {
    ciphertext: String,
}

#[derive(Deserialize)]
struct Plaintext<'a> {
    /// Borrowed from the answer, which is wiped.
    #[serde(borrow)]
    plaintext: Cow<'a, str>,
}

impl Transit {
    pub(super) fn new(vault: Vault, mount: &str, key: &str) -> Transit {
        Transit { vault, mount: mount.to_owned(), key: key.to_owned(), newest: Mutex::default() }
    }

    async fn encrypt(&self, name: &str, key: &DataKey, context: &[u8]) -> Result<(String, Vec<u8>), Error> {
        let bound = bound_text(name, context);
        let plaintext = Zeroizing::new(BASE64_STANDARD.encode(key.bytes()));
        let request = Encrypt { plaintext: &plaintext, associated_data: &bound, context: &bound };
        let answer = self.call("encrypt", &request).await.map_err(|error| self.failure(name, None, error))?;
        let understood = serde_json::from_slice::<Answered<Ciphertext>>(&answer);
        let ciphertext = understood.map_err(|_| self.odd(name))?.data.ciphertext;
        let version = version_of(&ciphertext).ok_or_else(|| self.odd(name))?.to_owned();
        *self.newest.lock().await = Some((Instant::now(), version.clone()));
        Ok((version, ciphertext.into_bytes()))
    }

    async fn decrypt(&self, name: &str, version: &str, kept: &[u8], context: &[u8]) -> Result<DataKey, Error> {
        let wrong = || Error::wrong_key(name, version);
        let ciphertext = std::str::from_utf8(kept).ok().filter(|text| text.len() <= CIPHERTEXT_LIMIT);
        let ciphertext = ciphertext.filter(|text| version_of(text) == Some(version)).ok_or_else(wrong)?;
        let bound = bound_text(name, context);
        let request = Decrypt { ciphertext, associated_data: &bound, context: &bound };
        let answer = self.call("decrypt", &request).await.map_err(|error| self.failure(name, Some(version), error))?;
        let understood = serde_json::from_slice::<Answered<Plaintext<'_>>>(&answer).map_err(|_| self.odd(name))?;
        let plain = Zeroizing::new(BASE64_STANDARD.decode(understood.data.plaintext.as_bytes()).map_err(|_| wrong())?);
        DataKey::from_bytes(&plain).ok_or_else(wrong)
    }

    async fn call(&self, verb: &str, request: &impl Serialize) -> Result<Zeroizing<Vec<u8>>, CallError> {
        let path: Vec<&str> = self.mount.split('/').chain([verb, &self.key]).collect();
        self.vault.post(&path, request).await
    }

    /// `version` is that of a decryption.
    fn failure(&self, name: &str, version: Option<&str>, error: CallError) -> Error {
        let Transit { mount, key, .. } = self;
        match (error, version) {
            (CallError::Unavailable(reason), _) => Error::unavailable(name, reason),
            (CallError::Refused(reason), _) => Error::refused(name, reason),
            (CallError::Forbidden, _) => Error::refused(
                name,
                format!(
                    "the token may not use it, or it is not there: its policy needs `update` on {mount}/encrypt/{key} \
                     and {mount}/decrypt/{key}"
                ),
            ),
            (CallError::NotFound, _) => {
                Error::refused(name, format!("the key service has no transit engine at '{mount}'"))
            }
            (CallError::Bad(BadRequest::NoKey), _) => {
                Error::refused(name, format!("the transit engine '{mount}' has no key '{key}'"))
            }
            (CallError::Bad(BadRequest::NoVersion), Some(version)) => Error::no_version(name, version),
            (CallError::Bad(_), Some(version)) => Error::wrong_key(name, version),
            (CallError::Bad(_), None) => Error::refused(
                name,
                format!("'{mount}/{key}' does not wrap: it must be an AEAD key, such as one of the type aes256-gcm96"),
            ),
        }
    }

    fn odd(&self, name: &str) -> Error {
        Error::refused(
            name,
            format!("what answers at {} is not understood: is it Vault or OpenBao?", self.vault.address()),
        )
    }
}

impl Kind for Transit {
    /// By wrapping something: what `encrypt` uses is what counts, and it needs no permission to read the key's facts.
    fn newest<'a>(&'a self, name: &'a str) -> Answer<'a, String> {
        async move {
            if let Some((at, version)) = &*self.newest.lock().await
                && at.elapsed() < TIME_TO_LIVE
            {
                return Ok(version.clone());
            }
            Ok(self.encrypt(name, &DataKey::random()?, b"newest version").await?.0)
        }
        .boxed()
    }

    fn wrap<'a>(&'a self, name: &'a str, key: &'a DataKey, context: &'a [u8]) -> Answer<'a, (String, Vec<u8>)> {
        self.encrypt(name, key, context).boxed()
    }

    fn unwrap<'a>(&'a self, name: &'a str, version: &'a str, kept: &'a [u8], context: &'a [u8]) -> Answer<'a, DataKey> {
        self.decrypt(name, version, kept, context).boxed()
    }
}

fn bound_text(name: &str, context: &[u8]) -> String {
    BASE64_STANDARD.encode(bind(&[DOMAIN, name.as_bytes(), context]))
}

/// Of `vault:v3:...`, the 3.
fn version_of(ciphertext: &str) -> Option<&str> {
    let (number, _) = ciphertext.strip_prefix("vault:v")?.split_once(':')?;
    let is_number = (1..=9).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::version_of;

    #[test]
    fn the_version_is_in_the_ciphertext() {
        let table = [
            ("vault:v1:abc", Some("1")),
            ("vault:v12:abc", Some("12")),
            ("vault:v:abc", None),
            ("vault:v-1:abc", None),
            ("vault:v1", None),
            ("vault:v1234567890:abc", None),
            ("other:v1:abc", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(version_of(text), expected, "{text}");
        }
    }
}
