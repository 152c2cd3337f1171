//! The calls of one change: beside one another, and none any more once one of them has failed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use backends::Code;
use futures::stream::{StreamExt as _, iter};
use jiff::Timestamp;

use crate::hub::Hub;
use crate::journal::{Fate, Intent, IntentKind, Left};
use crate::storage::{Destination, Landed, Trouble};
use crate::{Error, Json};

/// Calls at a time.
const AT_ONCE: usize = 16;

/// What became of the call for one entry.
pub(super) struct Outcome<T> {
    pub(super) index: usize,
    pub(super) intent: Intent,
    /// `None`: it was not called, because another one had failed.
    pub(super) done: Option<Result<T, Trouble>>,
}

/// Whether the others are still worth a call when one has failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    Stop,
    GoOn,
}

pub(super) async fn call_all<'a, T, F, A>(intents: &'a [(usize, Intent)], others: Others, call: F) -> Vec<Outcome<T>>
where
    F: Fn(usize, &'a Intent) -> A,
    A: Future<Output = Result<T, Trouble>>,
{
    let failed = AtomicBool::new(false);
    let calls = intents.iter().map(|(index, intent)| {
        let (call, failed) = (&call, &failed);
        async move {
            if others == Others::Stop && failed.load(Ordering::Relaxed) {
                return Outcome { index: *index, intent: intent.clone(), done: None };
            }
            let done = call(*index, intent).await;
            failed.fetch_or(done.is_err(), Ordering::Relaxed);
            Outcome { index: *index, intent: intent.clone(), done: Some(done) }
        }
    });
    // Gathered first: a stream that makes them as it goes cannot be told apart by lifetimes in a task of its own.
    let calls: Vec<_> = calls.collect();
    let mut outcomes: Vec<Outcome<T>> = iter(calls).buffer_unordered(AT_ONCE).collect().await;
    outcomes.sort_by_key(|outcome| outcome.index);
    outcomes
}

impl<T> Outcome<T> {
    /// What is left to do when the change as a whole does not take place.
    pub(super) fn fate(&self) -> Fate {
        match &self.done {
            None => Fate::Nothing,
            Some(Err(trouble)) if trouble.landed == Landed::No => Fate::Nothing,
            Some(Err(_)) => Fate::UndoTwice,
            // An earlier attempt of the same call may still be on its way, and nobody waits for an id that was never told.
            Some(Ok(_)) if self.intent.kind == IntentKind::Create => Fate::UndoTwice,
            Some(Ok(_)) => Fate::Undo,
        }
    }
}

/// The entries of a change that does not take place, with what is left to do. A backend finds what it did by the context that
/// it told.
pub(super) fn given_up<T>(
    outcomes: Vec<Outcome<T>>,
    fate: impl Fn(&Outcome<T>) -> Fate,
    told: impl Fn(T) -> Option<Json>,
) -> Vec<(Intent, Fate)> {
    let given_up = |outcome: Outcome<T>| {
        let fate = fate(&outcome);
        match outcome.done {
            Some(Ok(done)) => (Intent { context: told(done), ..outcome.intent }, fate),
            _ => (outcome.intent, fate),
        }
    };
    outcomes.into_iter().map(given_up).collect()
}

/// The failures among the outcomes.
pub(super) fn troubles<T>(outcomes: &[Outcome<T>]) -> Vec<&Trouble> {
    outcomes.iter().filter_map(|outcome| outcome.done.as_ref()?.as_ref().err()).collect()
}

impl Hub {
    /// How an entry is left whose calls end now: to be looked at by whoever comes first.
    pub(super) fn left_now(&self) -> Left {
        let now = self.now();
        Left { lease_until: now, deadline: now.checked_add(self.settings().times.grace).unwrap_or(Timestamp::MAX) }
    }

    /// The backends of entries, or what is wrong with them.
    pub(super) async fn places_of(
        &self,
        intents: &[(usize, Intent)],
    ) -> Result<HashMap<String, Result<Destination, Trouble>>, Error> {
        let mut places = HashMap::new();
        for (_index, intent) in intents {
            if !places.contains_key(&intent.backend) {
                let place = match self.destination(&intent.backend).await {
                    Ok(place) => Ok(place),
                    Err(Error::Refused { message, .. }) => Err(Trouble::new(Code::Unavailable, message)),
                    Err(error) => return Err(error),
                };
                places.insert(intent.backend.clone(), place);
            }
        }
        Ok(places)
    }
}
