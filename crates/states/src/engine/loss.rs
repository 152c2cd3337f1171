//! What is on record of a state whose head vanished: since when that is known, and that its end has begun.
//!
//! Only the store remembers it, and a store knows nothing but heads and chunks; a head of ours in a ConfigMap would be a
//! state to the original. So a mark is an upload of its own kind: its id is a UUID of version 8 (those of states are of
//! version 4) whose first byte says what it marks, its deadline is the time when it was put, and it has one chunk with a
//! line for people. Reads, lists and locks look at heads, so that they find no state.

use jiff::Timestamp;
use uuid::{Builder, Uuid};

use super::State;
use crate::Error;
use crate::store::{ChunkId, Stray};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// There were chunks and nothing that may name them: the grace period runs from here.
    Lost,
    /// A sweeper is about to delete what is left. It is put before the head is looked for once more, and whoever
    /// rebuilds the head looks for it after that: one of both sees the other.
    Ending,
}

const CUSTOM: usize = 8;
const LINE: &[u8] = b"stateward: a mark of the sweeper\n";

impl Mark {
    pub(super) fn of(upload: Uuid) -> Option<Mark> {
        match upload.as_bytes().first().filter(|_| upload.get_version_num() == CUSTOM) {
            Some(0) => Some(Mark::Lost),
            Some(1) => Some(Mark::Ending),
            _ => None,
        }
    }

    /// Another id each time: a store may remember ids that it has put.
    fn id(self) -> Uuid {
        let mut bytes = Uuid::new_v4().into_bytes();
        bytes[0] = match self {
            Mark::Lost => 0,
            Mark::Ending => 1,
        };
        Builder::from_custom_bytes(bytes).into_uuid()
    }

    pub(super) fn is_on(self, stray: &Stray) -> bool {
        Mark::of(stray.upload) == Some(self)
    }
}

impl State {
    pub(super) async fn put_mark(&self, mark: Mark) -> Result<Uuid, Error> {
        let chunk = ChunkId { key: self.key.clone(), upload: mark.id(), number: 0 };
        self.store.put_chunk(&chunk, Timestamp::now(), LINE.into()).await?;
        Ok(chunk.upload)
    }

    /// Everything in the store that is of this state, marks included.
    pub(super) async fn strays(&self) -> Result<Vec<Stray>, Error> {
        let all = self.store.uploads_before(Timestamp::MAX).await?;
        Ok(all.into_iter().filter(|stray| stray.key == self.key).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_known_by_its_id_and_no_upload_is_taken_for_one() {
        for mark in [Mark::Lost, Mark::Ending] {
            assert_eq!(Mark::of(mark.id()), Some(mark));
            assert_ne!(mark.id(), mark.id());
        }
        assert!((0..10_000).all(|_| Mark::of(Uuid::new_v4()).is_none()));
    }
}
