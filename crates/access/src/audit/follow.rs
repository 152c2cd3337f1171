//! The head in the database, which follows the log: at the latest a tenth of a second after a line is on disk.
//!
//! The writer says what is synced ([`Synced`]); the task [`Follower::run`] puts the newest of it into the database, many
//! lines with one write, and nobody's answer waits for it. A head never goes before its line. While the database does not
//! take it, [`Shared::head_trouble`] says why, and the writer refuses changes: so far, and no further, may a log be ahead of
//! what the database knows.

use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

use db::Db;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::failpoints::Step;
use super::heads::{self, Advanced};
use super::line::Head;

/// How far the head may be behind its line, and so how many lines share one write.
const LAG: Duration = Duration::from_millis(100);
/// How often a database that refused is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long it has for an answer.
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(5);

/// What the writer tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Synced {
    pub(super) head: Head,
    /// Nothing more will come.
    pub(super) last: bool,
}

pub(super) struct Follower {
    pub(super) shared: Arc<Shared>,
    pub(super) db: Db,
    pub(super) instance: String,
    pub(super) synced: watch::Receiver<Synced>,
    /// Goes with the follower: that is how the writer knows that the last head is recorded, or never will be.
    pub(super) _ended: mpsc::Sender<()>,
}

impl Follower {
    /// Until the last head is recorded, or the writer is gone and there is nothing to record.
    pub(super) async fn run(mut self) {
        while self.synced.changed().await.is_ok() {
            loop {
                let last = |synced: &Synced| synced.last;
                // Others share the write; the last one does not wait for any.
                let _ = timeout(LAG, self.synced.wait_for(last)).await;
                let Synced { head, last } = *self.synced.borrow_and_update();
                let refused = self.record(head).await.err();
                self.shared.set_head_trouble(refused.clone());
                if last || self.synced.has_changed().is_err() {
                    return;
                }
                if refused.is_none() {
                    break;
                }
                sleep(AGAIN).await;
            }
        }
    }

    async fn record(&self, head: Head) -> Result<(), String> {
        if head == self.shared.head() {
            return Ok(());
        }
        Step::AfterSyncBeforeHead.hit();
        self.shared.stats.heads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match timeout(HEAD_DEADLINE, heads::advance(&self.db, &self.instance, head)).await {
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
