//! The head in the database, and the answers that wait for it: who is told that a line is on disk can rely on it that
//! the line is missed when it is cut off, whatever becomes of this process in the next moment.
//!
//! The writer says what is synced and who waits for it ([`Synced`]); the task [`Follower::run`] takes all that has come,
//! puts the newest head into the database with one write, and answers, while the writer goes on with the next lines. A
//! head never goes before its line. It is noted, not synced: only a power cut can undo the latest ones. While the database
//! does not take heads, [`Shared::head_trouble`] says why, and the writer refuses changes: so far, and no further, may a log
//! be ahead of what the database knows.

use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

use db::Db;
use tokio::sync::mpsc::{UnboundedReceiver, error::TryRecvError};
use tokio::time::{Instant, timeout, timeout_at};

use super::error::AuditUnavailable;
use super::failpoints::Step;
use super::heads::{self, Advanced, Record};
use super::line::Head;
use super::writer::Answer;
use super::{Receipt, Shared};

/// How often a database that refused is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long it has for an answer.
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(5);

/// What the writer tells: the newest line on disk, and who waits until the database knows it.
#[derive(Debug)]
pub(super) struct Synced {
    pub(super) head: Head,
    pub(super) waiting: Vec<(Answer, Receipt)>,
    /// Nothing more will come.
    pub(super) last: bool,
}

pub(super) struct Follower {
    pub(super) shared: Arc<Shared>,
    pub(super) db: Db,
    pub(super) instance: String,
    pub(super) synced: UnboundedReceiver<Synced>,
    /// Goes with the follower: that is how the writer knows that the last head is recorded, or never will be.
    pub(super) _ended: mpsc::Sender<()>,
}

impl Follower {
    /// Until the last head is recorded, or the writer is gone and there is nothing to record.
    pub(super) async fn run(mut self) {
        let mut refused_at = None;
        while let Some(synced) = self.next(refused_at).await {
            let record = if synced.last { Record::OnDisk } else { Record::Noted };
            let recorded = self.record(synced.head, record).await;
            self.shared.set_head_trouble(recorded.as_ref().err().cloned());
            for (answer, receipt) in synced.waiting {
                let reason = |reason: &String| AuditUnavailable { reason: reason.clone() };
                // Whoever asked may have gone; the line stays.
                let _ = answer.send(recorded.as_ref().map_err(reason).map(|()| receipt));
            }
            if synced.last {
                return;
            }
            refused_at = recorded.is_err().then(|| (Instant::now(), synced.head));
        }
    }

    /// All that has come, as one; or, when the database refused, the same head again after a while.
    async fn next(&mut self, refused_at: Option<(Instant, Head)>) -> Option<Synced> {
        let mut all = match refused_at {
            None => self.synced.recv().await?,
            Some((at, head)) => match timeout_at(at + AGAIN, self.synced.recv()).await {
                Ok(synced) => synced?,
                Err(_) => Synced { head, waiting: Vec::new(), last: false },
            },
        };
        loop {
            match self.synced.try_recv() {
                Ok(Synced { head, waiting, last }) => {
                    (all.head, all.last) = (head, last);
                    all.waiting.extend(waiting);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Some(all),
            }
        }
    }

    async fn record(&self, head: Head, record: Record) -> Result<(), String> {
        if head == self.shared.head() && record == Record::Noted {
            return Ok(());
        }
        Step::AfterSyncBeforeHead.hit();
        self.shared.stats.heads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match timeout(HEAD_DEADLINE, heads::advance(&self.db, &self.instance, head, record)).await {
            Ok(Ok(Advanced::Done)) => {
                self.shared.set_head(head);
                Step::AfterHead.hit();
                Ok(())
            }
            Ok(Ok(Advanced::Overtaken)) => {
                Err("the database knows a newer line: another process writes under this instance's name".to_owned())
            }
            // The text of the error stays in the server's own log; readiness is seen by others.
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to record the head of the audit log");
                Err("the database does not take the head".to_owned())
            }
            Err(_) => Err(format!("the database did not take the head within {} s", HEAD_DEADLINE.as_secs())),
        }
    }
}

impl Shared {
    /// The newest head that the database has.
    pub(super) fn head(&self) -> Head {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_head(&self, head: Head) {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = head;
    }

    /// Why the database did not take the newest head, if it did not.
    pub(super) fn head_trouble(&self) -> Option<String> {
        self.head_trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_head_trouble(&self, trouble: Option<String>) {
        let mut current = self.head_trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*current, &trouble) {
            (None, Some(reason)) => {
                tracing::error!(reason, "the audit log is ahead of the database: changes are refused");
            }
            (Some(_), None) => tracing::info!("the database knows the newest line of the audit log again"),
            _ => {}
        }
        *current = trouble;
    }
}
