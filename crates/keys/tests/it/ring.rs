//! Keyrings for tests.

use std::path::{Path, PathBuf};

use keys::{Error, Key, Keyring, Settings, Sharing, key_file};
use testbed::process::scratch;

/// Remembers nothing: every question reaches the key.
pub(crate) const FORGETFUL: Settings = Settings { cache_ttl: std::time::Duration::from_mins(1), cache_entries: 0 };

/// A fresh key file.
pub(crate) fn scratch_key() -> PathBuf {
    let path = scratch("keys").expect("a directory").join("main.key");
    key_file::create(&path).expect("a key");
    path
}

/// A ring with the key `main` in that file.
pub(crate) fn file_ring(path: &Path) -> Keyring {
    ring("main", Key::file(path, Sharing::Private))
}

/// A ring with one key.
pub(crate) fn ring(name: &str, key: Key) -> Keyring {
    Keyring::new([(name.to_owned(), key)], FORGETFUL).expect("a keyring")
}

/// Two data keys are the same if a stream of one opens what a stream of the other sealed.
pub(crate) fn same(one: &keys::DataKey, other: &keys::DataKey) -> bool {
    let sealed = one.stream(b"same").seal(0, keys::Position::Last, b"", b"x".to_vec()).expect("sealed");
    match other.stream(b"same").open(0, keys::Position::Last, b"", sealed) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, Error::Changed);
            false
        }
    }
}
