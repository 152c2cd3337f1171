//! What is done after a write, when its client has its answer: old versions become smaller, go into pages, and go for
//! good.
//!
//! A write notes its state here ([`Upkeep::want`]); one task of the server takes note after note. What is lost with a
//! crash is found by the next write or sweep, which look at the head and not at notes.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;
use tokio::sync::Notify;

use super::{State, States};
use crate::Error;
use crate::head::Head;
use crate::key::Key;

/// How many states wait at most; the others are the sweeper's.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Upkeep {
    waiting: Mutex<BTreeMap<(&'static str, Key), State>>,
    noted: Notify,
}

impl Upkeep {
    pub(super) fn want(&self, state: &State) {
        let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if waiting.len() < MOST {
            waiting.insert((state.store.name(), state.key.clone()), state.clone());
            self.noted.notify_one();
        }
    }

    fn take(&self) -> Option<State> {
        let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        waiting.pop_first().map(|(_, state)| state)
    }
}

impl States {
    /// Does what waits, and then whatever comes, for as long as it is polled.
    pub async fn keep_up(&self) {
        loop {
            self.upkeep().await;
            self.0.upkeep.noted.notified().await;
        }
    }

    /// Does what waits.
    pub async fn upkeep(&self) {
        while let Some(state) = self.0.upkeep.take() {
            if let Err(error) = state.upkeep().await {
                // The sweeper comes by again.
                tracing::warn!(state = %state.key, %error, "failed to put old versions away");
            }
        }
    }
}

impl State {
    /// Everything that is due for the old versions of this state.
    pub async fn upkeep(&self) -> Result<(), Error> {
        if let Some(head) = self.head().await? {
            self.rewrap(&head).await?;
        }
        self.seal_clear().await?;
        // On the heap: it is large, and whoever sweeps holds several.
        Box::pin(self.shrink()).await?;
        self.tidy().await
    }

    /// Whether there is something to do, as the head says.
    pub(super) fn needs_upkeep(&self, head: &Head, now: Timestamp) -> bool {
        super::shrink::is_due(head, self.settings.versions) || self.needs_tidying(head, now) || self.has_clear(head)
    }
}
