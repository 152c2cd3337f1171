//! Waiting for a condition, in place of sleeping and hoping.

use std::fmt::Debug;
use std::panic::Location;
use std::time::{Duration, Instant};

/// What a condition may answer: `bool`, `Option<T>` or `Result<T, E>`.
pub trait Outcome {
    type Value;
    /// The value, or why it is not there yet.
    fn value(self) -> Result<Self::Value, String>;
}

impl Outcome for bool {
    type Value = ();
    fn value(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("it was false".to_owned()) }
    }
}

impl<T> Outcome for Option<T> {
    type Value = T;
    fn value(self) -> Result<T, String> {
        self.ok_or_else(|| "there was none".to_owned())
    }
}

impl<T, E: Debug> Outcome for Result<T, E> {
    type Value = T;
    fn value(self) -> Result<T, String> {
        self.map_err(|error| format!("{error:?}"))
    }
}

/// Asks until the answer is `true`, `Some` or `Ok`, and returns what it holds; panics when the limit has passed.
#[track_caller]
pub fn eventually<O: Outcome, F: Future<Output = O>>(
    limit: Duration,
    mut condition: impl FnMut() -> F,
) -> impl Future<Output = O::Value> {
    let caller = Location::caller();
    async move {
        let started = Instant::now();
        loop {
            // One question may hang: it gets what is left of the time, and a last one is asked at the limit.
            let patience = limit.saturating_sub(started.elapsed()).max(Duration::from_secs(1));
            let answer = match tokio::time::timeout(patience, condition()).await {
                Ok(outcome) => outcome.value(),
                Err(_elapsed) => Err("the question itself was not answered".to_owned()),
            };
            match answer {
                Ok(value) => return value,
                Err(reason) if started.elapsed() >= limit => panic!("not within {limit:?} at {caller}: {reason}"),
                Err(_not_yet) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn the_first_good_answer_is_returned() {
        let asked = Cell::new(0);
        let answer = eventually(Duration::from_mins(1), || async {
            asked.set(asked.get() + 1);
            (asked.get() == 3).then_some("third")
        });
        assert_eq!(answer.await, "third");
        assert_eq!(asked.get(), 3);
    }

    #[tokio::test]
    #[should_panic(expected = "not yet")]
    async fn the_last_reason_is_told_when_the_limit_has_passed() {
        eventually(Duration::from_millis(10), || async { Err::<(), _>("not yet") }).await;
    }

    #[tokio::test]
    #[should_panic(expected = "the question itself was not answered")]
    async fn a_question_that_hangs_does_not_hang_the_test() {
        eventually(Duration::from_millis(10), pending::<bool>).await;
    }
}
