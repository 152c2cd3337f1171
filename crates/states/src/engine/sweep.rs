//! The sweeper: deletes chunks that no version can ever name again, and nothing else.
//!
//! An upload can become a version only while the head names it, before its deadline. So the sweeper first takes an
//! upload whose deadline has passed out of the head, by a swap, and deletes its chunks only then. Chunks that no head
//! names (of a write that died in between) go when their own deadline has passed; those of a head that vanished stay
//! for a grace period, in which it can be rebuilt. Any number of sweepers may run at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::change::Verdict;
use super::{State, States};
use crate::Error;
use crate::failpoints::Step;
use crate::key::Key;
use crate::store::{Found, Store, StoreError, Stray};

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub uploads: usize,
}

impl States {
    /// Sweeps all stores once. A store or state that fails does not keep the others from it.
    pub async fn sweep(&self) -> Swept {
        let mut swept = Swept::default();
        for store in self.stores() {
            match self.sweep_store(&store).await {
                Ok(uploads) => swept.uploads += uploads,
                // This server need not be able to read what no route leads to.
                Err(Error::Store(StoreError::Refused(_))) if !self.is_routed(store.name()) => {}
                Err(error) => tracing::warn!(store = store.name(), %error, "failed to sweep"),
            }
        }
        self.metrics().swept(swept.uploads);
        swept
    }

    async fn sweep_store(&self, store: &Arc<dyn Store>) -> Result<usize, Error> {
        let mut count = 0;
        let now = Timestamp::now();
        let past = before(now, self.settings().times.skew);
        for key in store.list(None).await? {
            let state = self.in_store(store.clone(), key);
            if let Err(error) = state.upkeep().await {
                tracing::warn!(state = %state.key, %error, "failed to put old versions away");
            }
            count += tell(&state, state.sweep_named(past).await);
            tell(&state, state.sweep_deleted(past).await);
        }
        let mut strays: BTreeMap<Key, Vec<Stray>> = BTreeMap::new();
        for stray in store.uploads_before(past).await? {
            strays.entry(stray.key.clone()).or_default().push(stray);
        }
        for (key, strays) in strays {
            let state = self.in_store(store.clone(), key);
            count += tell(&state, state.sweep_strays(&strays, past).await);
        }
        Ok(count)
    }
}

impl State {
    /// Uploads that the head names only as uploads, and whose deadline has passed.
    async fn sweep_named(&self, past: Timestamp) -> Result<usize, Error> {
        let Some(head) = self.head().await? else { return Ok(0) };
        let late: Vec<Uuid> =
            head.uploads.iter().filter(|upload| upload.deadline < past).map(|upload| upload.id).collect();
        if late.is_empty() {
            return Ok(0);
        }
        self.change(|head| {
            let before = head.uploads.len();
            head.uploads.retain(|upload| !late.contains(&upload.id));
            Ok(if head.uploads.len() < before { Verdict::Swap(()) } else { Verdict::Keep(()) })
        })
        .await?;
        Step::SweepHeadWritten.hit();
        for upload in &late {
            self.store.delete_chunks(&self.key, *upload).await?;
        }
        Ok(late.len())
    }

    /// The head of a state that was deleted longer ago than it can be restored; its chunks are strays then.
    async fn sweep_deleted(&self, past: Timestamp) -> Result<usize, Error> {
        let Some(Found { head, revision }) = self.store.read_head(&self.key).await? else { return Ok(0) };
        let past = before(past, self.settings.times.grace);
        if !head.deleted.is_some_and(|deleted| deleted.at < past) || head.lock.is_some() {
            return Ok(0);
        }
        match self.store.delete_head(&self.key, &revision).await {
            Ok(()) => Ok(1),
            // Somebody is using it again.
            Err(StoreError::Conflict) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Chunks that are there although no head may name them.
    async fn sweep_strays(&self, strays: &[Stray], past: Timestamp) -> Result<usize, Error> {
        let garbage: Vec<Uuid> = if let Some(head) = self.head().await? {
            let named = self.named(&head).await?;
            strays.iter().map(|stray| stray.upload).filter(|upload| !named.contains(upload)).collect()
        } else {
            let past = before(past, self.settings.times.grace);
            strays.iter().filter(|stray| stray.deadline < past).map(|stray| stray.upload).collect()
        };
        for upload in &garbage {
            self.store.delete_chunks(&self.key, *upload).await?;
        }
        Ok(garbage.len())
    }
}

fn tell(state: &State, swept: Result<usize, Error>) -> usize {
    swept.unwrap_or_else(|error| {
        tracing::warn!(state = %state.key, %error, "failed to sweep a state");
        0
    })
}

fn before(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_sub(by).unwrap_or(Timestamp::MIN)
}
