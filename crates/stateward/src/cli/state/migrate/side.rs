//! What `migrate` needs of the two sides of a copy; one file beside this per kind of place.

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::Value;

use super::super::push::Existing;
use super::super::spooled::Spooled;
use crate::client::transfer::Pieces;

pub type Doing<'a, T> = BoxFuture<'a, anyhow::Result<T>>;

/// Whether a place is ours alone for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locking {
    Locked,
    /// Why not; the copy goes on without.
    Impossible(String),
}

/// A place that can be locked.
pub trait Side: Send {
    /// What people and tombstones call it; holds no credential.
    fn place(&self) -> String;

    /// Locks it. One that is already locked with the same ID, by an earlier run that did not come to its end, is ours.
    fn lock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, Locking>;

    /// Releases it; without effect if it is not ours.
    fn unlock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, ()>;
}

/// Where a state comes from.
pub trait Source: Side {
    /// Where an earlier run has moved it, if it did.
    fn moved(&mut self) -> Doing<'_, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    /// Its bytes; a place without a state is an error.
    fn open(&mut self) -> Doing<'_, Pieces>;

    /// Leaves a sign where it has gone. Tells whether there is one now.
    fn leave<'a>(&'a mut self, _to: &'a str, _info: &'a Value) -> Doing<'a, Left> {
        Box::pin(async { Ok(Left::AsItWas) })
    }
}

/// What became of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Tombstone,
    AsItWas,
}

/// Where a state goes.
pub trait Destination: Side {
    /// What is there now.
    fn existing(&mut self) -> Doing<'_, Option<Existing>>;

    fn write<'a>(&'a mut self, state: &'a Spooled, pieces: Pieces, info: &'a Value) -> Doing<'a, ()>;

    /// Its bytes, to compare them with what was written.
    fn read_back(&mut self) -> Doing<'_, Pieces>;
}

/// The ID in a LockInfo.
pub fn id(info: &Value) -> &str {
    info["ID"].as_str().unwrap_or_default()
}

/// Whether a LockInfo that somebody else keeps is ours.
pub fn is_ours(kept: &[u8], info: &Value) -> bool {
    states::lock_info::LockInfo::of_unlock(kept).is_ok_and(|kept| kept.id == id(info))
}

/// A body that is all there.
pub fn whole(bytes: Bytes) -> Pieces {
    Box::pin(futures::stream::once(async { Ok(bytes) }))
}
