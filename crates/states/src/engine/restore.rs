//! Restoring a state: undoes a soft delete, takes a tombstone back, rebuilds a head that vanished.

use jiff::Timestamp;

use super::State;
use super::change::Verdict;
use super::locking::refused;
use crate::Error;
use crate::lock::{self, Decision, Wish, decide};

impl State {
    /// Makes the current version visible again. A state that is there already is left as it is.
    pub async fn restore(&self, id: Option<&str>, user: &str) -> Result<(), Error> {
        // Where the head itself is gone, chunks are left, from which it may be rebuilt.
        if self.head().await?.is_none_or(|head| head.current.is_none()) {
            return Box::pin(self.rebuild(id, user)).await.map(drop);
        }
        self.change(|head| {
            // Not `self.decide`: it stops at the tombstone that is to go.
            let state = lock::State { lock: head.lock.as_ref(), released: head.released.as_ref() };
            match decide(state, Wish::Change(id), user, Timestamp::now(), self.rules()) {
                Decision::Proceed if head.current.is_none() => Err(Error::NotFound),
                Decision::Proceed if head.deleted.is_none() && head.moved.is_none() => Ok(Verdict::Keep(())),
                Decision::Proceed => {
                    (head.deleted, head.moved) = (None, None);
                    Ok(Verdict::Swap(()))
                }
                other => {
                    // Who holds the lock counts here, not where the state went.
                    head.moved = None;
                    Err(refused(&other, head))
                }
            }
        })
        .await
    }
}
