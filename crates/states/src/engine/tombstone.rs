//! Tombstones: a state that was moved elsewhere stays as a head that only says where it went.
//!
//! Its versions stay too, so that a restore takes the tombstone back; until then every read, write and LOCK fails with
//! [`Error::Moved`]. The lock is left as it is: whoever moved the state lets go of it.

use jiff::Timestamp;

use super::State;
use super::change::Verdict;
use super::locking::refused;
use crate::Error;
use crate::head::{Head, Moved};
use crate::lock::{Decision, Wish};

impl State {
    /// Leaves a tombstone. The caller holds the lock, so that nobody writes between its last read and this.
    pub async fn leave_for(&self, to: &str, id: &str, user: &str) -> Result<(), Error> {
        self.change(|head| {
            // A replay.
            if head.moved.as_ref().is_some_and(|moved| moved.to == to) {
                return Ok(Verdict::Keep(()));
            }
            let now = Timestamp::now();
            match self.decide(head, Wish::Change(Some(id)), user, now) {
                Decision::Proceed if head.visible().is_none() => Err(Error::NotFound),
                Decision::Proceed => {
                    head.moved = Some(Moved { to: to.to_owned(), by: user.to_owned(), at: now });
                    Ok(Verdict::Swap(()))
                }
                other => Err(refused(&other, head)),
            }
        })
        .await
    }
}

impl Head {
    /// The head, unless a tombstone is in its place.
    pub(crate) fn here(&self) -> Result<&Head, Error> {
        match &self.moved {
            Some(Moved { to, .. }) => Err(Error::Moved { to: to.clone() }),
            None => Ok(self),
        }
    }
}
