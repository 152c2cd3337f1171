//! The door: data keys, wrapped by named keys.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use moka::future::Cache;

use crate::binding::bind;
use crate::data_key::DataKey;
use crate::error::Error;
use crate::kinds::Key;
use crate::sealed::{self, Opener, SealedError, Sealer};
use crate::wrapped::Wrapped;

/// What a keyring remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long an unwrapped data key is remembered.
    pub cache_ttl: Duration,
    /// How many are remembered at most.
    pub cache_entries: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { cache_ttl: Duration::from_mins(5), cache_entries: 1000 }
    }
}

/// Every named key of this process.
#[derive(Clone)]
pub struct Keyring(Arc<Inner>);

struct Inner {
    keys: BTreeMap<String, Key>,
    /// By a hash of the wrapped key and its context: who has not got both finds nothing.
    opened: Cache<[u8; 32], DataKey>,
}

impl Keyring {
    /// Names are DNS labels, each there once.
    pub fn new(keys: impl IntoIterator<Item = (String, Key)>, settings: Settings) -> Result<Keyring, Error> {
        let mut named = BTreeMap::new();
        for (name, key) in keys {
            if !is_name(&name) {
                return Err(Error::Setup(format!(
                    "'{name}' cannot be the name of a key: it must be lower-case letters, digits and hyphens"
                )));
            }
            if named.insert(name.clone(), key).is_some() {
                return Err(Error::Setup(format!("there are two keys named '{name}'")));
            }
        }
        let opened = Cache::builder().max_capacity(settings.cache_entries).time_to_live(settings.cache_ttl).build();
        Ok(Keyring(Arc::new(Inner { keys: named, opened })))
    }

    /// A fresh data key, and the same wrapped by the newest version of the named key. Whoever unwraps it must know
    /// `context`, which should say what the key is for and where that is kept.
    pub async fn generate(&self, name: &str, context: &[u8]) -> Result<(DataKey, Wrapped), Error> {
        let data_key = DataKey::random()?;
        let wrapped = self.wrap(name, &data_key, context).await?;
        Ok((data_key, wrapped))
    }

    /// The data key, remembered for a while; many who ask at the same time put one question to the key service.
    pub async fn unwrap(&self, wrapped: &Wrapped, context: &[u8]) -> Result<DataKey, Error> {
        let Wrapped { key: name, version, bytes } = wrapped;
        let key = self.key(name)?;
        let opening = key.0.unwrap(name, version, bytes, context);
        self.0.opened.try_get_with(place(wrapped, context), opening).await.map_err(|error| (*error).clone())
    }

    /// The same data key under the newest version of the named key, which may be another than before; `None` if that
    /// is where it is already.
    pub async fn rewrap(&self, name: &str, wrapped: &Wrapped, context: &[u8]) -> Result<Option<Wrapped>, Error> {
        let key = self.key(name)?;
        if wrapped.key == name && wrapped.version == key.0.newest(name).await? {
            return Ok(None);
        }
        let data_key = self.unwrap(wrapped, context).await?;
        self.wrap(name, &data_key, context).await.map(Some)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.keys.contains_key(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys.keys().map(String::as_str)
    }

    /// Whether the named key can wrap now; gives its newest version.
    pub async fn check(&self, name: &str) -> Result<String, Error> {
        self.key(name)?.0.newest(name).await
    }

    /// Begins a sealed stream under a fresh data key; see [`Sealer`].
    pub async fn seal_stream<W: Write>(&self, name: &str, context: &[u8], writer: W) -> Result<Sealer<W>, SealedError> {
        let (data_key, wrapped) = self.generate(name, context).await?;
        Ok(Sealer::new(writer, &wrapped, &data_key, context)?)
    }

    /// Reads the head of a sealed stream and opens the rest as it is read; see [`Opener`].
    pub async fn open_stream<R: Read>(&self, context: &[u8], mut reader: R) -> Result<Opener<R>, SealedError> {
        let wrapped = sealed::read_head(&mut reader)?;
        let data_key = self.unwrap(&wrapped, context).await?;
        Ok(Opener::new(reader, &data_key, context))
    }

    async fn wrap(&self, name: &str, data_key: &DataKey, context: &[u8]) -> Result<Wrapped, Error> {
        let (version, bytes) = self.key(name)?.0.wrap(name, data_key, context).await?;
        let wrapped = Wrapped { key: name.to_owned(), version, bytes };
        // What is written is soon read.
        self.0.opened.insert(place(&wrapped, context), data_key.clone()).await;
        Ok(wrapped)
    }

    fn key(&self, name: &str) -> Result<&Key, Error> {
        self.0.keys.get(name).ok_or_else(|| Error::unknown(name))
    }
}

fn place(wrapped: &Wrapped, context: &[u8]) -> [u8; 32] {
    let parts = bind(&[wrapped.key.as_bytes(), wrapped.version.as_bytes(), &wrapped.bytes, context]);
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, &parts).as_ref());
    hash
}

/// Whether this can be the name of a key: a DNS label.
pub fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('-') && !text.ends_with('-')
}

impl fmt::Debug for Keyring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        formatter.debug_struct("Keyring").field("keys", &names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_file::Sharing;

    fn made(names: &[&str]) -> Result<Keyring, Error> {
        let key = |name: &&str| ((*name).to_owned(), Key::file("/nowhere", Sharing::Private));
        Keyring::new(names.iter().map(key), Settings::default())
    }

    #[test]
    fn names_are_dns_labels_and_each_is_there_once() {
        let longest = "a".repeat(63);
        let ring = made(&["a", "main-2", "0", &longest]).unwrap();
        assert!(ring.has("main-2") && !ring.has("main"));
        assert_eq!(ring.names().collect::<Vec<_>>(), ["0", "a", &longest, "main-2"]);
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", "\u{e9}", &"a".repeat(64)] {
            assert!(matches!(made(&[bad]), Err(Error::Setup(_))), "{bad}");
        }
        assert_eq!(made(&["a", "b", "a"]).unwrap_err(), Error::Setup("there are two keys named 'a'".to_owned()));
    }
}
