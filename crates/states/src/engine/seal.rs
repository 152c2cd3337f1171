//! Encryption at rest: what goes into a store is sealed, if the settings say so.
//!
//! A state has one key of its own. Its head keeps it wrapped by a named key, and a copy stands beside the chunks, so
//! that a head that vanished can be rebuilt. Every upload, and every body in a head, is sealed under a key derived from
//! it for that one alone, and bound to the store, the state and its place: what is moved or exchanged does not open.
//! Rotation wraps the state's key anew and touches nothing else.

use bytes::Bytes;
use jiff::Timestamp;
use keys::{DataKey, Keyring, Position, Stream};
use uuid::Uuid;

use super::State;
use super::change::Verdict;
use super::locking::refused;
use super::manifest::{self, Kind, ended};
use super::write::after;
use crate::Error;
use crate::head::{Head, StateKey};
use crate::lock::{Decision, Wish};
use crate::store::ChunkId;

/// With what states are sealed.
#[derive(Clone, Debug, Default)]
pub struct Sealing {
    /// The keys that open what is sealed already.
    pub keyring: Option<Keyring>,
    /// The named key for what is written from now on; `None` writes it in the clear.
    pub key: Option<String>,
}

/// How the bytes of one upload, or of one body in a head, are covered.
#[derive(Debug)]
pub(super) enum Cover {
    Clear,
    Sealed { stream: Stream, place: Vec<u8> },
}

impl Cover {
    /// By how many bytes a covered frame is longer.
    pub(super) fn overhead(&self) -> usize {
        match self {
            Cover::Clear => 0,
            Cover::Sealed { .. } => Stream::OVERHEAD,
        }
    }

    pub(super) fn is_sealed(&self) -> bool {
        matches!(self, Cover::Sealed { .. })
    }

    pub(super) fn close(&self, number: u32, position: Position, bytes: Bytes) -> Result<Bytes, Error> {
        match self {
            Cover::Clear => Ok(bytes),
            Cover::Sealed { stream, place } => Ok(stream.seal(number, position, place, bytes.into())?.into()),
        }
    }

    pub(super) fn open(&self, number: u32, position: Position, bytes: Bytes) -> Result<Bytes, Error> {
        match self {
            Cover::Clear => Ok(bytes),
            Cover::Sealed { stream, place } => Ok(stream.open(number, position, place, bytes.into())?.into()),
        }
    }
}

impl State {
    /// The cover of an upload that is about to be written. `wish` is what the caller wants to do: where the state gets
    /// its key only now, the lock must allow it.
    pub(super) async fn cover(&self, upload: Uuid, wish: Option<(Wish<'_>, &str)>) -> Result<Cover, Error> {
        let sealing = &self.settings.sealing;
        let Some(name) = sealing.key.as_deref() else { return Ok(Cover::Clear) };
        let known = match self.seen_key() {
            Some(known) => Some(known),
            None => self.head().await?.and_then(|head| head.seal),
        };
        let key = match known {
            Some(known) => self.unwrapped(&known).await?,
            None => self.make_key(name, wish).await?,
        };
        Ok(self.sealed(&key, upload))
    }

    /// The cover of what is in the store already.
    pub(super) async fn cover_of(&self, upload: Uuid) -> Result<Cover, Error> {
        let known = match self.seen_key() {
            Some(known) => Some(known),
            None => self.head().await?.and_then(|head| head.seal),
        };
        let known = known.ok_or_else(|| Error::Damaged("sealed bytes of a state that has no key".to_owned()))?;
        Ok(self.sealed(&self.unwrapped(&known).await?, upload))
    }

    /// The cover of what is in the store already, under a key that no head names.
    pub(super) async fn cover_with(&self, key: &StateKey, upload: Uuid) -> Result<Cover, Error> {
        Ok(self.sealed(&self.unwrapped(key).await?, upload))
    }

    fn sealed(&self, key: &DataKey, upload: Uuid) -> Cover {
        Cover::Sealed { stream: key.stream(upload.as_bytes()), place: self.place(b"bytes of a state", upload) }
    }

    fn keyring(&self) -> Result<&Keyring, Error> {
        let keyring = self.settings.sealing.keyring.as_ref();
        keyring.ok_or_else(|| keys::Error::UnknownKey { key: "of this state".to_owned() }.into())
    }

    async fn unwrapped(&self, key: &StateKey) -> Result<DataKey, Error> {
        Ok(self.keyring()?.unwrap(&key.wrapped, &self.place(b"key of a state", key.id)).await?)
    }

    /// Gives the state a key, unless somebody else is faster.
    async fn make_key(&self, name: &str, wish: Option<(Wish<'_>, &str)>) -> Result<DataKey, Error> {
        let id = Uuid::new_v4();
        let (data_key, wrapped) = self.keyring()?.generate(name, &self.place(b"key of a state", id)).await?;
        let made = self.put_copy(StateKey { id, wrapped, copy: Uuid::new_v4() }).await?;
        let taken = self.change(|head| {
            let now = Timestamp::now();
            if let Some((wish, user)) = wish
                && !matches!(self.decide(head, wish, user, now), Decision::Proceed)
            {
                return Err(refused(&self.decide(head, wish, user, now), head));
            }
            if let Some(theirs) = &head.seal {
                return Ok(Verdict::Keep(theirs.clone()));
            }
            head.seal = Some(made.clone());
            Ok(Verdict::Swap(made.clone()))
        });
        let taken = taken.await?;
        if taken == made { Ok(data_key) } else { self.unwrapped(&taken).await }
    }

    /// Puts the wrapped key beside the chunks. Until the head names it, its deadline protects it from the sweeper.
    async fn put_copy(&self, key: StateKey) -> Result<StateKey, Error> {
        let bytes = ended(&key, 0, Kind::Key)?;
        let id = ChunkId { key: self.key.clone(), upload: key.copy, number: 0 };
        self.store.put_chunk(&id, after(self.settings.times.upload), bytes.into()).await?;
        Ok(key)
    }

    /// Wraps the state's key anew where the named key has a newer version, or is another one now. Tells whether.
    pub(super) async fn rewrap(&self, head: &Head) -> Result<bool, Error> {
        let (Some(name), Some(known)) = (&self.settings.sealing.key, &head.seal) else { return Ok(false) };
        let context = self.place(b"key of a state", known.id);
        let Some(wrapped) = self.keyring()?.rewrap(name, &known.wrapped, &context).await? else { return Ok(false) };
        let anew = self.put_copy(StateKey { id: known.id, wrapped, copy: Uuid::new_v4() }).await?;
        let exchanged = self.change(|head| {
            if head.seal.as_ref() != Some(known) {
                return Ok(Verdict::Keep(false));
            }
            head.seal = Some(anew.clone());
            Ok(Verdict::Swap(true))
        });
        let exchanged = exchanged.await?;
        let unused = if exchanged { known.copy } else { anew.copy };
        // What cannot be deleted now is a stray for the sweeper.
        let _ = self.store.delete_chunks(&self.key, unused).await;
        Ok(exchanged)
    }

    /// Where something is, unambiguously: each part with its length.
    fn place(&self, what: &[u8], id: Uuid) -> Vec<u8> {
        let (store, key) = (self.store.name(), &self.key);
        let parts = [what, store.as_bytes(), key.namespace().as_bytes(), key.name().as_bytes(), id.as_bytes()];
        let mut place = Vec::new();
        for part in parts {
            place.extend_from_slice(&(part.len() as u64).to_be_bytes());
            place.extend_from_slice(part);
        }
        place
    }
}

/// The key in a copy of it; `None` if that is something else.
pub(super) fn key_in(bytes: &[u8]) -> Option<StateKey> {
    let (Kind::Key, 0) = manifest::trailer(bytes)? else { return None };
    manifest::read(bytes, "the key of a state").ok()
}
