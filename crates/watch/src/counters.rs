//! What a stream counts, for whoever exports metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of one stream. They only grow.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) applied: Counter,
    pub(crate) deleted: Counter,
    pub(crate) lists: Counter,
    pub(crate) expired: Counter,
    pub(crate) watches: Counter,
    pub(crate) bookmarks: Counter,
    pub(crate) stale: Counter,
    pub(crate) faults: Counter,
    pub(crate) fetches: Counter,
}

/// The counters at one moment, with what waits for the consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Events put into the queue.
    pub applied: u64,
    pub deleted: u64,
    /// Lists begun, the first one included.
    pub lists: u64,
    /// Watches and lists that came too late for the API server (410).
    pub expired: u64,
    /// Watches begun.
    pub watches: u64,
    pub bookmarks: u64,
    /// Events that were older than what a fetch had told, and were left out.
    pub stale: u64,
    /// Calls that failed, expired ones not counted.
    pub faults: u64,
    pub fetches: u64,
    /// Events in the queue now.
    pub waiting: usize,
    /// How long the oldest of them has waited.
    pub lag: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn figures(&self, waiting: usize, lag: Duration) -> Figures {
        Figures {
            applied: self.applied.get(),
            deleted: self.deleted.get(),
            lists: self.lists.get(),
            expired: self.expired.get(),
            watches: self.watches.get(),
            bookmarks: self.bookmarks.get(),
            stale: self.stale.get(),
            faults: self.faults.get(),
            fetches: self.fetches.get(),
            waiting,
            lag,
        }
    }
}
