//! Reads that are under way: who asks for the same value again meanwhile gets the same answer. Never across callers: what a
//! backend says to one is nobody else's to see.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt as _, Shared, WeakShared};

use super::Trouble;
use crate::Json;
use crate::store::VersionId;

/// What is read, by whom and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) reader: String,
    pub(crate) backend: String,
    /// Which version of the backend's record says how it is reached.
    pub(crate) described: u32,
    pub(crate) id: VersionId,
}

type Answer = Result<Option<Json>, Trouble>;
type Landing = Shared<BoxFuture<'static, Answer>>;

#[derive(Debug, Default)]
pub(crate) struct Flights {
    under_way: Arc<Mutex<HashMap<Flight, WeakShared<BoxFuture<'static, Answer>>>>>,
    joined: AtomicUsize,
}

impl Flights {
    /// The answer of the same read that is under way, else of this one. It goes on for as long as somebody waits.
    pub(crate) fn join<F>(&self, flight: Flight, read: F) -> Landing
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(landing) = under_way.get(&flight).and_then(WeakShared::upgrade) {
            self.joined.fetch_add(1, Ordering::Relaxed);
            return landing;
        }
        let end = End { flight: flight.clone(), of: Arc::clone(&self.under_way) };
        let landing = async move {
            let _end = end;
            read.await
        };
        let landing = landing.boxed().shared();
        if let Some(weak) = landing.downgrade() {
            under_way.insert(flight, weak);
        }
        landing
    }

    /// How many reads found the same one under way.
    pub(crate) fn joined(&self) -> usize {
        self.joined.load(Ordering::Relaxed)
    }
}

/// Takes a flight off the board when it has landed, or when nobody waits for it any more.
struct End {
    flight: Flight,
    of: Arc<Mutex<HashMap<Flight, WeakShared<BoxFuture<'static, Answer>>>>>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.flight);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn flight(reader: &str, number: u32) -> Flight {
        let id = VersionId { record: "r".to_owned(), number };
        Flight { reader: reader.to_owned(), backend: "b".to_owned(), described: 1, id }
    }

    #[tokio::test]
    async fn the_same_read_of_one_caller_is_one_and_of_another_is_another() {
        let flights = Flights::default();
        let calls = Arc::new(AtomicUsize::new(0));
        let (land, landed) = oneshot::channel::<()>();
        let landed = async move { landed.await.unwrap_or_default() }.boxed().shared();
        let read = || {
            let (calls, landed) = (Arc::clone(&calls), landed.clone());
            async move {
                let number = calls.fetch_add(1, Ordering::Relaxed) + 1;
                landed.await;
                Ok(Json::parse(&number.to_string()).ok())
            }
        };
        let asked = [flight("a", 1), flight("a", 1), flight("b", 1), flight("a", 2), flight("a", 1)];
        let waiting = asked.map(|flight| tokio::spawn(flights.join(flight, read())));
        land.send(()).unwrap();
        let mut answers = Vec::new();
        for waiting in waiting {
            answers.push(waiting.await.unwrap().unwrap().unwrap().text().to_owned());
        }
        assert_eq!((calls.load(Ordering::Relaxed), flights.joined()), (3, 2));
        assert!(answers[0] == answers[1] && answers[0] == answers[4] && answers[0] != answers[2], "{answers:?}");
        flights.join(flight("a", 1), read()).await.unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 4, "what has landed is read anew");
        drop(flights.join(flight("a", 1), read()));
        assert!(flights.under_way.lock().unwrap().is_empty(), "nothing is left behind");
    }
}
