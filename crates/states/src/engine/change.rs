//! The one loop by which heads change: read, decide, swap, and find out.
//!
//! It begins with what this server remembers, if it does: a swap that takes place proves that it was right. Whatever
//! else is decided on it is decided again on what is there.
//!
//! A swap whose answer was lost may have taken place, may have been overtaken since, or may still be under way. So the
//! loop never repeats a swap: it reads back, looks for the ids of its own attempts among the last operations of the
//! head, and only then decides anew. An attempt that is still under way loses against the next one, or is found later.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{Glimpse, State};
use crate::Error;
use crate::head::Head;
use crate::store::{Expect, StoreError};

/// What a decision makes of a head.
#[derive(Debug)]
pub(super) enum Verdict<T> {
    /// The head was changed: swap it.
    Swap(T),
    /// Nothing is to be changed.
    Keep(T),
}

/// Conflicts are others' successes, so that some attempt of everybody gets through; the limit is for one who is always
/// last.
const ATTEMPTS: u32 = 40;
/// A store that does not answer at all takes its deadline every time; a client waits no longer than this for all of them.
const LONGEST: Duration = Duration::from_mins(1);
const LONGEST_PAUSE_MS: u64 = 200;

impl State {
    /// Changes the head by `decide`, which runs again on every new head.
    pub(super) async fn change<T: Clone>(
        &self,
        mut decide: impl FnMut(&mut Head) -> Result<Verdict<T>, Error>,
    ) -> Result<T, Error> {
        let mut unknown: Vec<(Uuid, T)> = Vec::new();
        let (mut last, begun) = (None, Instant::now());
        let mut beginning = self.beginning();
        let mut was_there = beginning.as_ref().is_some_and(|glimpse| glimpse.expected != Expect::Nothing);
        for attempt in 0..ATTEMPTS {
            if begun.elapsed() > LONGEST {
                break;
            }
            let found = match beginning.take() {
                Some(glimpse) => Ok(glimpse),
                None => self.found().await.map(|(head, expected)| Glimpse { head, expected, remembered: false }),
            };
            let Glimpse { mut head, expected, remembered } = match found {
                Ok(glimpse) => glimpse,
                // An outcome is still to be found out: a while without an answer, or with a refusal, is no reason to give
                // up, and no reason to say that nothing was done.
                Err(Error::Store(error @ (StoreError::Unavailable(_) | StoreError::Refused(_))))
                    if !unknown.is_empty() =>
                {
                    last = Some(StoreError::Unknown(error.to_string()));
                    pause(attempt).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some((_, value)) = unknown.iter().find(|(operation, _)| head.operations.contains(operation)) {
                return Ok(value.clone());
            }
            if expected == Expect::Nothing && std::mem::take(&mut was_there) {
                self.may_create().await?;
            }
            let value = match decide(&mut head) {
                Ok(Verdict::Swap(value)) => value,
                _ if remembered => continue,
                Ok(Verdict::Keep(value)) => return Ok(value),
                Err(error) => return Err(error),
            };
            let operation = head.advance();
            match self.store.write_head(&self.key, &head, &expected).await {
                Ok(swapped) => {
                    self.swapped(head, swapped);
                    return Ok(value);
                }
                Err(StoreError::Conflict) if remembered => continue,
                Err(StoreError::Conflict) => last = None,
                Err(StoreError::Unknown(reason)) => {
                    unknown.push((operation, value));
                    last = Some(StoreError::Unknown(reason));
                }
                Err(error @ (StoreError::Unavailable(_) | StoreError::Refused(_))) if !unknown.is_empty() => {
                    last = Some(StoreError::Unknown(error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
            pause(attempt).await;
        }
        Err(last.map_or(Error::Busy { attempts: ATTEMPTS }, Error::Store))
    }

    /// Refuses somebody who was let in to change what was there, and may not make it anew.
    async fn may_create(&self) -> Result<(), Error> {
        match &self.creating.0 {
            Some(may) if !may().await => Err(Error::MayNotCreate),
            _ => Ok(()),
        }
    }
}

/// Longer with every attempt, and different for everybody, so that two do not meet again and again.
async fn pause(attempt: u32) {
    let longest = (2_u64 << attempt.min(10)).min(LONGEST_PAUSE_MS);
    let (random, _) = Uuid::new_v4().as_u64_pair();
    tokio::time::sleep(Duration::from_millis(random % longest + 1)).await;
}
