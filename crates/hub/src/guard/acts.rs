//! A change as one or several acts of the caller: each on record before it is done, all of them done or none.
//!
//! Every act is decided, announced and ended by [`Caller::act`]. The first one does the work as soon as the others are
//! announced; these wait for what becomes of it. If one is refused, nothing is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use access::Action;
use access::http::{Caller, Problem};
use futures::future::{BoxFuture, join_all};
use http::StatusCode;
use tokio::sync::{oneshot, watch};

use super::Failure;
use crate::Error;

/// Does the work as these acts of the caller; the same act twice is one.
pub(super) async fn together<T, W>(caller: &Caller, actions: Vec<Action>, work: W) -> Result<T, Failure>
where
    T: Send + 'static,
    W: Future<Output = Result<T, Error>> + Send + 'static,
{
    let mut distinct: Vec<Action> = Vec::with_capacity(actions.len());
    for action in actions {
        if !distinct.contains(&action) {
            distinct.push(action);
        }
    }
    let mut actions = distinct.into_iter();
    let Some(first) = actions.next() else { return Ok(work.await?) };

    let (done, outcome) = watch::channel(None::<Result<(), StatusCode>>);
    let (mut announced, mut acts): (Vec<oneshot::Receiver<()>>, Vec<Act<'_>>) = (Vec::new(), Vec::new());
    for action in actions {
        let (ready, is_ready) = oneshot::channel();
        announced.push(is_ready);
        let (mut outcome, started) = (outcome.clone(), Arc::new(AtomicBool::new(false)));
        let begun = started.clone();
        let wait = async move {
            begun.store(true, Ordering::Relaxed);
            _ = ready.send(());
            let outcome = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| *outcome);
            match outcome {
                Some(Ok(())) => Ok(()),
                Some(Err(status)) => Err(not_done(status)),
                None => Err(not_done(StatusCode::FORBIDDEN)),
            }
        };
        acts.push(Act { started, result: Box::pin(caller.act(action, wait)) });
    }

    let result: Arc<Mutex<Option<Result<T, Error>>>> = Arc::default();
    let (slot, started) = (result.clone(), Arc::new(AtomicBool::new(false)));
    let begun = started.clone();
    let lead = async move {
        begun.store(true, Ordering::Relaxed);
        for ready in announced {
            if ready.await.is_err() {
                return Err(not_done(StatusCode::FORBIDDEN));
            }
        }
        let worked = work.await;
        let told = worked.as_ref().map(drop).map_err(Failure::status);
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(worked);
        done.send_replace(Some(told));
        told.map_err(not_done)
    };
    acts.insert(0, Act { started, result: Box::pin(caller.act(first, lead)) });

    let (started, acts): (Vec<Arc<AtomicBool>>, Vec<_>) =
        acts.into_iter().map(|Act { started, result }| (started, result)).unzip();
    let ended = join_all(acts).await;
    let worked = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    match worked {
        Some(Err(error)) => Err(error.into()),
        Some(Ok(answer)) => match ended.into_iter().find_map(Result::err) {
            // It was made, and the log could not take it.
            Some(problem) => Err(problem.into()),
            None => Ok(answer),
        },
        None => {
            // Those that had begun were only waiting for the one that was refused.
            let refused = ended.into_iter().zip(&started).filter(|(_, started)| !started.load(Ordering::Relaxed));
            let problem = refused.into_iter().find_map(|(ended, _)| ended.err());
            Err(problem.unwrap_or_else(|| Problem::unavailable("the change could not be put on record")).into())
        }
    }
}

struct Act<'a> {
    started: Arc<AtomicBool>,
    result: BoxFuture<'a, Result<(), Problem>>,
}

fn not_done(status: StatusCode) -> Problem {
    Problem::new(status, "nothing was changed", "see the other errors of this request")
}
