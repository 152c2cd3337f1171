//! Which states there are, in all stores, with their heads.
//!
//! Finding the keys is one question per store; the heads are read a few at a time, and only of those that the caller
//! may see. Nothing here knows of permissions: the caller of [`States::find`] keeps what may be shown.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;

use super::{State, States};
use crate::Error;
use crate::head::Head;
use crate::lock::{self, Lock};
use crate::store::StoreError;

/// How many heads are read at the same time.
const HEADS_AT_ONCE: usize = 16;

/// A state and what its head says; `None` if that cannot be understood.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) state: State,
    pub(crate) head: Option<Head>,
}

impl States {
    /// The states of a namespace, or of all, by namespace, name and store.
    pub async fn find(&self, namespace: Option<&str>) -> Result<Vec<State>, Error> {
        let mut states = Vec::new();
        for store in self.stores() {
            match store.list(namespace).await {
                Ok(keys) => states.extend(keys.into_iter().map(|key| self.in_store(store.clone(), key))),
                // Beside a cluster there are stores that no route names, and that this server need not be able to read.
                Err(StoreError::Refused(_)) if !self.is_routed(store.name()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        states.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(states)
    }

    /// Whether some namespace is kept in this store.
    pub(super) fn is_routed(&self, name: &str) -> bool {
        let super::Stores { routes, default, .. } = &self.0.stores;
        default.name() == name || routes.iter().any(|(_, store)| store.name() == name)
    }
}

impl State {
    /// By what lists are sorted and continued.
    pub(crate) fn order(&self) -> (&str, &str, &str) {
        (self.key.namespace(), self.key.name(), self.store.name())
    }

    /// Whether the next LOCK may take this lock over.
    pub(crate) fn is_expired(&self, lock: &Lock) -> bool {
        lock::expired(lock, Timestamp::now(), self.rules())
    }
}

/// What `pick` makes of these states, in their order; states that vanish meanwhile are left out.
pub(crate) async fn each_head<T>(
    states: Vec<State>,
    pick: impl Fn(Found) -> Option<T> + Copy,
) -> Result<Vec<T>, Error> {
    let read = |state: State| async move {
        let head = match state.head().await {
            Ok(None) => return Ok(None),
            Ok(head) => head,
            // One bad object must not hide all others.
            Err(Error::Store(error @ (StoreError::Damaged(_) | StoreError::TooLarge(_)))) => {
                tracing::warn!(state = %state.key, %error, "failed to read a head for a list");
                None
            }
            Err(error) => return Err(error),
        };
        Ok(pick(Found { state, head }))
    };
    let picked: Vec<Option<T>> = stream::iter(states).map(read).buffered(HEADS_AT_ONCE).try_collect().await?;
    Ok(picked.into_iter().flatten().collect())
}

impl Head {
    /// Whether there is anything to be shown: a version, deleted or not, or a lock.
    pub(crate) fn is_something(&self) -> bool {
        self.current.is_some() || self.lock.is_some()
    }

    /// How many versions are kept, the current one included.
    pub(crate) fn version_count(&self) -> u64 {
        let here = self.current.iter().len() + self.recent.len();
        let paged: u64 = self.pages.iter().map(|page| page.newest.saturating_sub(page.oldest) + 1).sum();
        u64::try_from(here).unwrap_or(u64::MAX).saturating_add(paged)
    }
}
