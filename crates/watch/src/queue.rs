//! Events on their way to the consumer, in order.
//!
//! Pushing never waits: whoever pushes asks for room before it reads more, so that a slow consumer holds back the watch
//! and nothing is lost. What is pushed after that (the rest of a page, what a fetch told) comes on top.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::ledger::Out;

#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    capacity: usize,
    filled: Notify,
    drained: Notify,
    closing: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    events: VecDeque<(Instant, Out)>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Queue {
        Queue {
            inner: Mutex::default(),
            capacity: capacity.max(1),
            filled: Notify::new(),
            drained: Notify::new(),
            closing: Notify::new(),
        }
    }

    pub(crate) fn push(&self, event: Out) {
        let mut inner = self.inner();
        if !inner.closed {
            inner.events.push_back((Instant::now(), event));
            self.filled.notify_one();
        }
    }

    /// Waits for something and takes at most `most`; `None` when the queue is closed.
    pub(crate) async fn pop(&self, most: usize) -> Option<Vec<Out>> {
        loop {
            {
                let mut inner = self.inner();
                if inner.closed {
                    return None;
                }
                if !inner.events.is_empty() {
                    let count = inner.events.len().min(most.max(1));
                    let events = inner.events.drain(..count).map(|(_since, event)| event).collect();
                    self.drained.notify_one();
                    return Some(events);
                }
            }
            self.filled.notified().await;
        }
    }

    /// Waits until fewer events wait than the queue is meant to hold.
    pub(crate) async fn room(&self) {
        while self.inner().events.len() >= self.capacity {
            self.drained.notified().await;
        }
    }

    /// Drops what waits: the consumer gets nothing more.
    pub(crate) fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        inner.events.clear();
        drop(inner);
        self.filled.notify_one();
        self.drained.notify_one();
        self.closing.notify_one();
    }

    pub(crate) async fn closed(&self) {
        while !self.inner().closed {
            self.closing.notified().await;
        }
    }

    /// How many wait, and how long the oldest has.
    pub(crate) fn waiting(&self) -> (usize, Duration) {
        let inner = self.inner();
        (inner.events.len(), inner.events.front().map_or(Duration::ZERO, |(since, _event)| since.elapsed()))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
