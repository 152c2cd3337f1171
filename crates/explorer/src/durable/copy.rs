//! The queue before the file, and the task that writes it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use db::{Db, params};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::Error;
use super::batch::{Batch, Tenant, Write, unpack};
use super::schema;
use crate::failpoints::Step;
use crate::index::Slot;
use crate::row::{Key, Row};

/// A batch is closed when it has so many changes.
const LONGEST: usize = 2000;
/// So many closed batches wait before those who bring changes have to.
const MOST_WAITING: usize = 8;
/// How long changes wait for others to share a sync with.
const LINGER: Duration = Duration::from_millis(20);
/// How long to wait after a failure; the file may be on a disk that is full.
const AGAIN: Duration = Duration::from_secs(1);

/// The copy on disk.
#[derive(Debug)]
pub struct Copy {
    db: Db,
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Notify,
    /// The number of the latest change that is on disk; `None` once nothing more is written.
    done: watch::Sender<Option<u64>>,
}

#[derive(Debug, Default)]
struct Queue {
    open: Batch,
    closed: VecDeque<Arc<Batch>>,
    writing: Option<Arc<Batch>>,
    last: u64,
    ending: bool,
}

/// Says when a change, and all before it, is on disk.
#[derive(Clone, Debug)]
#[must_use = "an event is acknowledged after its ticket"]
pub struct Ticket {
    number: u64,
    done: watch::Receiver<Option<u64>>,
}

impl Ticket {
    pub async fn wait(mut self) -> Result<(), Error> {
        let done = self.done.wait_for(|done| done.is_none_or(|done| done >= self.number)).await;
        match done.map(|done| *done) {
            Ok(Some(_)) => Ok(()),
            Ok(None) | Err(_) => Err(Error::Closed),
        }
    }

    pub fn is_done(&self) -> bool {
        self.done.borrow().is_some_and(|done| done >= self.number)
    }
}

/// What changes in one step, whole or not at all.
#[derive(Debug)]
pub(super) enum Change {
    Row(Slot, Write),
    Tenant(Tenant),
}

impl Copy {
    /// Starts writing. The tables are there already.
    pub(super) fn start(db: Db) -> Copy {
        let (done, _) = watch::channel(Some(0));
        let shared = Arc::new(Shared { queue: Mutex::default(), wake: Notify::new(), done });
        let writer = tokio::spawn(write(db.clone(), Arc::clone(&shared)));
        Copy { db, shared, writer: Mutex::new(Some(writer)) }
    }

    /// Changes that go to disk in one transaction, after all that came before.
    pub(super) fn push(&self, changes: impl IntoIterator<Item = Change>) -> Ticket {
        let mut queue = self.shared.queue();
        queue.last += 1;
        queue.open.last = queue.last;
        for change in changes {
            match change {
                Change::Row(slot, write) => queue.open.row(slot, write),
                Change::Tenant(tenant) => queue.open.tenant(tenant),
            }
        }
        if queue.open.len() >= LONGEST {
            let batch = std::mem::take(&mut queue.open);
            queue.closed.push_back(Arc::new(batch));
        }
        let ticket = Ticket { number: queue.last, done: self.shared.done.subscribe() };
        drop(queue);
        self.shared.wake.notify_one();
        ticket
    }

    /// Waits until the queue has room. Whoever brings many changes asks before each.
    pub async fn room(&self) -> Result<(), Error> {
        let mut done = self.shared.done.subscribe();
        while self.shared.queue().closed.len() > MOST_WAITING {
            done.changed().await.map_err(|_| Error::Closed)?;
            if done.borrow().is_none() {
                return Err(Error::Closed);
            }
        }
        Ok(())
    }

    /// The body of a row, if the row in the slot is still that of the key.
    pub(super) async fn body(&self, slot: Slot, key: &Key) -> Result<Option<String>, Error> {
        match self.shared.queue().pending(slot) {
            Some(Write::Put(row, body)) => return Ok((row.key == *key).then(|| body.to_string())),
            Some(Write::Remove) => return Ok(None),
            Some(Write::Head(_)) | None => {}
        }
        let found = self.db.read(move |tx| tx.query_opt(schema::BODY, params![i64::from(slot.0)])).await?;
        let Some(found) = found else { return Ok(None) };
        let row: Option<Row> = serde_json::from_str(&found.get::<String>(0)?).ok();
        if row.is_none_or(|row| row.key != *key) {
            return Ok(None);
        }
        unpack(&found.get::<Vec<u8>>(1)?).map(Some)
    }

    /// Writes what is waiting and lets the file go.
    pub async fn close(&self) {
        self.shared.queue().ending = true;
        self.shared.wake.notify_one();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.await;
        }
        self.db.clone().close().await;
    }
}

/// Dropped without being closed, it still writes what is waiting, and then lets the file go.
impl Drop for Copy {
    fn drop(&mut self) {
        self.shared.queue().ending = true;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// What is about to be written of a row, the latest.
    fn pending(&self, slot: Slot) -> Option<Write> {
        let batches = [&self.open].into_iter().chain(self.closed.iter().rev().map(|batch| &**batch));
        let batches = batches.chain(self.writing.as_deref());
        let mut head = None;
        for batch in batches {
            match batch.get(slot) {
                // Its body is older: further back, or on disk.
                Some(Write::Head(row)) => head = head.or_else(|| Some(row.clone())),
                Some(Write::Put(row, body)) => {
                    return Some(Write::Put(head.unwrap_or_else(|| row.clone()), Arc::clone(body)));
                }
                Some(Write::Remove) => return Some(Write::Remove),
                None => {}
            }
        }
        head.map(Write::Head)
    }

    fn next(&mut self) -> Next {
        let open = || (self.open.len() > 0).then(|| Arc::new(std::mem::take(&mut self.open)));
        self.writing = self.closed.pop_front().or_else(open);
        match &self.writing {
            Some(batch) => Next::Write(Arc::clone(batch)),
            None => Next::Nothing { last: self.last, ending: self.ending },
        }
    }
}

enum Next {
    Write(Arc<Batch>),
    /// All changes up to this number are on disk.
    Nothing {
        last: u64,
        ending: bool,
    },
}

/// Writes batch after batch until the end is asked for and nothing waits.
async fn write(db: Db, shared: Arc<Shared>) {
    loop {
        let next = shared.queue().next();
        let batch = match next {
            Next::Write(batch) => batch,
            Next::Nothing { last, ending } => {
                // A change of nothing has a ticket too.
                shared.done.send_replace(Some(last));
                if ending {
                    break;
                }
                shared.wake.notified().await;
                tokio::time::sleep(LINGER).await;
                continue;
            }
        };
        let packed = {
            let batch = Arc::clone(&batch);
            tokio::task::spawn_blocking(move || batch.pack()).await
        };
        let Ok(packed) = packed else { break };
        let packed = Arc::new(packed);
        loop {
            Step::CopyBeforeWrite.hit();
            let rows = Arc::clone(&packed);
            let Err(error) = db.write(move |tx| rows.write(tx)).await else { break };
            tracing::error!(%error, "failed to write the copy of the explorer's rows");
            if matches!(error, db::Error::Closed) || shared.queue().ending {
                shared.done.send_replace(None);
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
        Step::CopyAfterCommit.hit();
        shared.queue().writing = None;
        shared.done.send_replace(Some(batch.last));
    }
    shared.done.send_replace(None);
}
