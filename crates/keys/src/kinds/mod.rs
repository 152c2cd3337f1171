//! The kinds of named keys, one file each. The list is [`Key`]'s constructors.
//!
//! Adding a kind = one file here, one constructor, one line in the conformance suite.

mod file;
mod local;
mod secret;
mod transit;

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::data_key::DataKey;
use crate::error::Error;
use crate::key_file::Sharing;
use local::Local;

pub use transit::{Auth, Vault, VaultSettings};

/// What every call returns.
pub(crate) type Answer<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// What a kind must be able to do. Each gets the name that the key has in the keyring, to bind and to report it.
pub(crate) trait Kind: std::fmt::Debug + Send + Sync {
    /// The version that wraps now.
    fn newest<'a>(&'a self, name: &'a str) -> Answer<'a, String>;

    /// Wraps under the newest version; gives its id and what is to be kept.
    fn wrap<'a>(&'a self, name: &'a str, key: &'a DataKey, context: &'a [u8]) -> Answer<'a, (String, Vec<u8>)>;

    fn unwrap<'a>(&'a self, name: &'a str, version: &'a str, kept: &'a [u8], context: &'a [u8]) -> Answer<'a, DataKey>;
}

/// A named key, wherever it lives.
#[derive(Clone, Debug)]
pub struct Key(pub(crate) Arc<dyn Kind>);

impl Key {
    /// A key file, see [`crate::key_file`]. It is read again when it changes.
    pub fn file(path: impl Into<PathBuf>, sharing: Sharing) -> Key {
        Key(Arc::new(Local(file::KeyFile::new(path.into(), sharing))))
    }

    /// A Kubernetes Secret whose data are versions: each the 32 bytes of a key, or their base64.
    pub fn secret(client: kube::Client, namespace: &str, secret: &str) -> Key {
        Key(Arc::new(Local(secret::KeySecret::new(client, namespace, secret))))
    }

    /// A key of a transit engine: it never leaves the key service.
    pub fn transit(vault: Vault, mount: &str, key: &str) -> Key {
        Key(Arc::new(transit::Transit::new(vault, mount, key)))
    }
}
