//! Whether the cluster of a name is still the one that its rows are of, asked once for everybody who wants to know.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio::time::timeout;

use super::uid;
use crate::service::options::Settings;

/// So long a caller waits for an answer; one that takes longer is for those who come later.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// A cluster that did not answer is asked again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// The last answer of a cluster to the question which it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Contact(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    known: Mutex<Known>,
    /// Moves with each answer.
    answered: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    last: Option<Answer>,
    /// Somebody asks now.
    asking: bool,
}

/// Of a question that was put at that time about a cluster with that uid.
#[derive(Clone, Debug)]
struct Answer {
    uid: String,
    at: Timestamp,
    is_it: bool,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared { known: Mutex::default(), answered: watch::channel(0).0 }
    }
}

impl Contact {
    /// Whether this cluster answers, as of an answer that is fresh and newer than the last loss. As long as it does not, this
    /// says so at once, and it is asked again beside.
    pub(super) async fn is(&self, expected: &str, lost: Timestamp, client: &Client, settings: &Settings) -> bool {
        let mut answered = self.0.answered.subscribe();
        {
            let mut known = self.0.known();
            let age = |answer: &Answer| Timestamp::now().duration_since(answer.at).unsigned_abs();
            let last = known.last.clone().filter(|answer| answer.uid == expected);
            match &last {
                Some(last) if last.is_it && last.at > lost && age(last) < settings.review_ttl => return true,
                Some(last) if !last.is_it && age(last) < AGAIN => return false,
                Some(_) | None => {}
            }
            if !std::mem::replace(&mut known.asking, true) {
                tokio::spawn(ask(self.clone(), expected.to_owned(), client.clone(), settings.deadline));
            }
            if last.is_some_and(|last| !last.is_it) {
                return false;
            }
        }
        let in_time = timeout(PATIENCE, answered.changed()).await.is_ok();
        let mut known = self.0.known();
        if !in_time && known.asking {
            // Whoever comes next does not wait as long.
            known.last = Some(Answer { uid: expected.to_owned(), at: Timestamp::now(), is_it: false });
        }
        known.last.as_ref().is_some_and(|last| last.uid == expected && last.is_it && last.at > lost)
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(contact: Contact, expected: String, client: Client, deadline: Duration) {
    let at = Timestamp::now();
    let is_it = uid::ask(&client, deadline).await.is_ok_and(|found| found == expected);
    {
        let mut known = contact.0.known();
        known.asking = false;
        known.last = Some(Answer { uid: expected, at, is_it });
    }
    contact.0.answered.send_modify(|number| *number += 1);
}
