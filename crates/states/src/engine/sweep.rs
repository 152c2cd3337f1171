//! The sweeper: deletes chunks that no version can ever name again, and nothing else.
//!
//! An upload can become a version only while the head names it, before its deadline. So the sweeper first takes an
//! upload whose deadline has passed out of the head, by a swap, and deletes its chunks only then. Chunks that no head
//! names (of a write that died in between) go when their own deadline has passed; those of a head that vanished stay
//! for a grace period, in which it can be rebuilt. It begins when a sweeper first sees the loss (see [`loss`]), not when
//! the chunks were put, and a LOCK meanwhile does not end it: a head without versions is as good as none. Any number of
//! sweepers may run at once.
//!
//! [`loss`]: super::loss

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::change::Verdict;
use super::loss::Mark;
use super::{State, States};
use crate::Error;
use crate::failpoints::Step;
use crate::key::Key;
use crate::store::{Found, Store, StoreError, Stray};

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub uploads: usize,
    /// Stores and states that could not be swept this time; the log says why.
    pub failures: usize,
}

impl States {
    /// Sweeps all stores once. A store or state that fails does not keep the others from it.
    pub async fn sweep(&self) -> Swept {
        let mut swept = Swept::default();
        for store in self.stores() {
            match self.sweep_store(&store, &mut swept).await {
                Ok(()) => {}
                // This server need not be able to read what no route leads to.
                Err(Error::Store(StoreError::Refused(_))) if !self.is_routed(store.name()) => {}
                Err(error) => {
                    swept.failures += 1;
                    tracing::warn!(store = store.name(), %error, "failed to sweep");
                }
            }
        }
        self.metrics().swept(swept.uploads);
        swept
    }

    async fn sweep_store(&self, store: &Arc<dyn Store>, swept: &mut Swept) -> Result<(), Error> {
        let now = Timestamp::now();
        let past = before(now, self.settings().times.skew);
        for key in store.list(None).await? {
            let state = self.in_store(store.clone(), key);
            if let Err(error) = state.upkeep().await {
                swept.failures += 1;
                tracing::warn!(state = %state.key, %error, "failed to put old versions away");
            }
            swept.take(&state, state.sweep_named(past).await);
            swept.take(&state, state.sweep_deleted(past).await);
        }
        let mut strays: BTreeMap<Key, Vec<Stray>> = BTreeMap::new();
        for stray in store.uploads_before(Timestamp::MAX).await? {
            if stray.deadline < past || Mark::of(stray.upload).is_some() {
                strays.entry(stray.key.clone()).or_default().push(stray);
            }
        }
        for (key, strays) in strays {
            let state = self.in_store(store.clone(), key);
            swept.take(&state, state.sweep_strays(&strays, past).await);
        }
        Ok(())
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

    /// A state that was deleted longer ago than it can be restored: its head, and then its chunks.
    async fn sweep_deleted(&self, past: Timestamp) -> Result<usize, Error> {
        let Some(Found { head, revision }) = self.store.read_head(&self.key).await? else { return Ok(0) };
        let past = before(past, self.settings.times.grace);
        let is_over = head.deleted.as_ref().is_some_and(|deleted| deleted.at < past);
        // What is being uploaded is to be a new version of it.
        if !is_over || head.lock.is_some() || !head.uploads.is_empty() {
            return Ok(0);
        }
        let left = self.named(&self.seen(head)).await?;
        match self.store.delete_head(&self.key, &revision).await {
            Ok(()) if left.is_empty() => Ok(0),
            // They had their grace period with the head.
            Ok(()) => Ok(if self.end(&left, &[]).await? { left.len() } else { 0 }),
            // Somebody is using it again.
            Err(StoreError::Conflict) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Chunks that are there although no head may name them, and the marks of states that were lost.
    async fn sweep_strays(&self, strays: &[Stray], past: Timestamp) -> Result<usize, Error> {
        let head = self.head().await?;
        let named = match &head {
            Some(head) => self.named(head).await?,
            None => BTreeSet::new(),
        };
        let strays = strays.iter().filter(|stray| !named.contains(&stray.upload));
        let (marks, chunks): (Vec<&Stray>, Vec<&Stray>) = strays.partition(|stray| Mark::of(stray.upload).is_some());
        let mark_ids: Vec<Uuid> = marks.iter().map(|stray| stray.upload).collect();
        let chunk_ids: BTreeSet<Uuid> = chunks.iter().map(|stray| stray.upload).collect();
        if chunks.is_empty() || head.is_some_and(|head| head.has_versions()) {
            return self.delete_all(chunk_ids.iter().chain(&mark_ids)).await.map(|()| chunks.len());
        }
        // The last mark counts, and never a mark that is older than what it is about.
        let Some(lost) = marks.iter().filter(|stray| Mark::Lost.is_on(stray)).map(|stray| stray.deadline).max() else {
            self.put_mark(Mark::Lost).await?;
            return Ok(0);
        };
        let since = chunks.iter().map(|stray| stray.deadline).fold(lost, Timestamp::max);
        if since >= before(past, self.settings.times.grace) {
            return Ok(0);
        }
        Ok(if self.end(&chunk_ids, &mark_ids).await? { chunks.len() } else { 0 })
    }

    /// Deletes what is left of a state without a head, unless somebody has just rebuilt it. Tells whether.
    async fn end(&self, chunks: &BTreeSet<Uuid>, marks: &[Uuid]) -> Result<bool, Error> {
        let ending = self.put_mark(Mark::Ending).await?;
        if self.head().await?.is_some_and(|head| head.has_versions()) {
            self.store.delete_chunks(&self.key, ending).await?;
            return Ok(false);
        }
        // The marks go last: while there is anything left of it, it is known to be at its end.
        self.delete_all(chunks.iter().chain(marks).chain([&ending])).await?;
        Ok(true)
    }

    async fn delete_all(&self, uploads: impl Iterator<Item = &Uuid>) -> Result<(), Error> {
        for upload in uploads {
            self.store.delete_chunks(&self.key, *upload).await?;
        }
        Ok(())
    }
}

impl Swept {
    fn take(&mut self, state: &State, uploads: Result<usize, Error>) {
        match uploads {
            Ok(uploads) => self.uploads += uploads,
            Err(error) => {
                self.failures += 1;
                tracing::warn!(state = %state.key, %error, "failed to sweep a state");
            }
        }
    }
}

fn before(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_sub(by).unwrap_or(Timestamp::MIN)
}
