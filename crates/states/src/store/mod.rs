//! What a place must be able to do to keep states: swap one small head per state, and keep immutable chunks.
//!
//! Locks, versions, uploads and history are the engine's, above. A store must never retry a swap whose outcome it does
//! not know: it says [`StoreError::Unknown`], and the engine reads back.
//!
//! Adding a store = one file here, one line where the server lists its stores, one line in the
//! conformance suite.

mod metered;
mod objects;
mod s3;
mod sql;

use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;
use jiff::Timestamp;
use uuid::Uuid;

use crate::head::Head;
use crate::key::Key;

pub use metered::Metered;
pub use objects::{ConfigMapStore, Reader, SecretStore, TerraformStore};
pub use s3::{AccessKey, Addressing, Identity, S3Settings, S3Store, Transport, Unfit};
pub use sql::{MIGRATIONS, SqlStore};

/// What every call returns.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// As routes of the configuration name it.
    fn name(&self) -> &'static str;

    /// The resource on which permissions are asked.
    fn resource(&self) -> Resource;

    /// The name of the object on which permissions are asked.
    fn object(&self, key: &Key) -> String {
        key.name().to_owned()
    }

    fn limits(&self) -> Limits;

    fn read_head<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Found>>;

    /// Swaps the head if it is still what the caller has seen.
    fn write_head<'a>(&'a self, key: &'a Key, head: &'a Head, expected: &'a Expect) -> Answer<'a, Swapped>;

    /// Removes a head for good; its chunks are the sweeper's.
    fn delete_head<'a>(&'a self, key: &'a Key, expected: &'a Revision) -> Answer<'a, ()>;

    /// The states of a namespace, or of all, in an order of the store's own.
    fn list<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Key>>;

    /// Puts a chunk. Putting the same chunk again is fine.
    fn put_chunk<'a>(&'a self, chunk: &'a ChunkId, deadline: Timestamp, bytes: Bytes) -> Answer<'a, ()>;

    fn get_chunk<'a>(&'a self, chunk: &'a ChunkId) -> Answer<'a, Option<Bytes>>;

    /// Removes all chunks of an upload.
    fn delete_chunks<'a>(&'a self, key: &'a Key, upload: Uuid) -> Answer<'a, ()>;

    /// Uploads with chunks whose deadline was before this time, named by a head or not.
    fn uploads_before(&self, time: Timestamp) -> Answer<'_, Vec<Stray>>;
}

/// A resource in the words of Kubernetes RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    pub group: &'static str,
    pub resource: &'static str,
}

/// The virtual resource of stores that are no Kubernetes objects.
pub const STATES: Resource = Resource { group: "stateward.dev", resource: "states" };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest body, in stored bytes, that goes into a head.
    pub inline: usize,
    /// How many stored bytes of older versions a head should hold: beyond it, they are put into pages soon.
    pub inline_history: usize,
    /// How many it can hold at all.
    pub inline_history_most: usize,
    pub chunk: usize,
    /// Stored bytes of one state with its older versions, where the store is not made for much; a setting may say otherwise.
    pub room: Option<u64>,
}

/// A head and the revision by which it is swapped.
#[derive(Clone, Debug)]
pub struct Found {
    pub head: Head,
    pub revision: Revision,
}

/// What a store knows a head's state by, such as a resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(pub String);

/// What a read would find after a swap that took place, as far as that is known without one.
#[derive(Clone, Debug)]
pub enum Swapped {
    /// The head as it was given.
    AsGiven(Revision),
    /// The head as the store keeps it.
    AsKept(Box<Found>),
    Unknown,
}

/// What must be there for a swap to take place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    Nothing,
    Revision(Revision),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChunkId {
    pub key: Key,
    pub upload: Uuid,
    pub number: u32,
}

/// An upload of which there are chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    pub key: Key,
    pub upload: Uuid,
    pub deadline: Timestamp,
}

/// Why a store did not do what it was asked. Texts never hold a byte of a state.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The head is not what the caller has seen. Nothing was written.
    #[error("somebody else changed the state at the same time")]
    Conflict,
    /// It may have been written or not.
    #[error("it is not known whether the write took place: {0}")]
    Unknown(String),
    /// Nothing was written, and trying again later may help.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The head or chunk does not fit.
    #[error("the store cannot take that much: {0}")]
    TooLarge(String),
    /// What is there is not what this program writes.
    #[error("the store holds something that is not understood: {0}")]
    Damaged(String),
    /// The store refuses for good, for example because the namespace is not there.
    #[error("the store refuses: {0}")]
    Refused(Refusal),
}

/// Why a store refuses for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    pub text: String,
    /// What an API server said, if it was one.
    pub told: Option<Told>,
}

/// The refusal of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub status: u16,
    /// In its own words, for those who expect them.
    pub message: String,
    /// What it does not find, if that is a namespace.
    pub namespace: Option<String>,
}

impl StoreError {
    pub(crate) fn refused(text: impl Into<String>) -> StoreError {
        StoreError::Refused(Refusal { text: text.into(), told: None })
    }
}

/// Reads the JSON of a head. Its format is looked at by itself only when the whole cannot be read: heads hold some tens
/// of kilobytes, and every request reads one.
pub(crate) fn parse_head(text: &[u8]) -> Result<Head, StoreError> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: u32,
    }
    let parsed = serde_json::from_slice::<Head>(text);
    let format = match &parsed {
        Ok(head) => Some(head.format),
        Err(_) => serde_json::from_slice::<Format>(text).ok().map(|known| known.format),
    };
    match format.filter(|format| *format != crate::head::FORMAT) {
        Some(format) => {
            Err(StoreError::Damaged(format!("a head of format {format}, which another version of this program made")))
        }
        None => parsed.map_err(|error| StoreError::Damaged(format!("a head: {error}"))),
    }
}

pub(crate) fn head_text(head: &Head) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(head).map_err(|error| StoreError::Damaged(error.to_string()))
}
