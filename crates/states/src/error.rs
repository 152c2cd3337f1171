//! Why a request for a state fails, told apart by what the caller can do about it.
//!
//! Texts name states, limits and settings, and never hold a byte of a state.

use crate::codec::BadState;
use crate::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 423: the LockInfo of the holder, or of the lock that was ended last.
    #[error("the state is locked, or the caller's lock is gone")]
    Locked { info: String },
    /// The caller is about to break somebody's lock and has not been asked for that permission.
    #[error("this would break somebody's lock")]
    ForceNeeded,
    /// The state went away since its caller was let in to change it.
    #[error("the state is not there any more, and you may not create it")]
    MayNotCreate,
    #[error("there is no such state")]
    NotFound,
    #[error("there is no such version of the state")]
    NoVersion,
    /// A tombstone is in its place.
    #[error("the state was moved to {to}")]
    Moved { to: String },
    /// A rollback has no serial to raise, or none that can be.
    #[error("the version has no serial that can be raised above the current one")]
    NoSerial,
    /// Another program wrote it: it comes back as it is, but nothing can be told about it.
    #[error("what is stored is not a state that can be read")]
    NotAState,
    /// OpenTofu encrypted it: there is nothing to be read out of it.
    #[error("the state is encrypted by the client")]
    Encrypted,
    #[error(transparent)]
    BadState(#[from] BadState),
    /// The upload took longer than an upload may take, and was given up.
    #[error("the upload took too long and was given up; nothing was written")]
    UploadExpired,
    /// The head cannot hold the current version as an old one; the engine makes room and tries again.
    #[error("the head has no room for another version")]
    NoRoom,
    /// Too many others at the same time.
    #[error("gave up after {attempts} attempts that met other changes of the same state")]
    Busy { attempts: u32 },
    #[error("a part of the state is missing or damaged in the store: {0}")]
    Damaged(String),
    /// The state is sealed, and its key cannot be had.
    #[error(transparent)]
    Key(#[from] keys::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A fault of this program or this machine.
    #[error("failed to work on the state: {0}")]
    Internal(String),
}
