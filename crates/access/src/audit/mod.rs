//! The audit log: who asked for what, what was decided, what was done; numbered, chained, and hard to alter unseen.
//!
//! The door is [`Audit`]: [`Audit::record`] for decisions, [`Audit::intend`] before something is done, [`Audit::commit`] for
//! what must be on disk before an answer goes out; [`verify()`] and [`Tail`] read a log, also while it is written. The log is `audit.log` in a directory of its
//! own (0600), one JSON object per line, each with a code that depends on all lines before it under a key in a file
//! ([`Key`]). The newest number and code also go to the database ([`MIGRATIONS`]) and, from the server, to a Lease, so
//! that a cut-off end is found too. What this cannot find: lines forged by somebody who has the key *and* the
//! database, and, after a power cut, the loss of the last lines, which the database may have forgotten too.
//!
//! It must never hold a secret (see [`Entry`] for how), never acknowledge what is not on disk, and never repair what
//! a crash cannot have done.

mod chain;
mod entry;
mod error;
mod failpoints;
mod files;
mod follow;
mod heads;
mod key;
mod lease;
mod line;
mod log;
mod open;
mod place;
mod report;
mod tail;
mod verify;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use db::Db;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

pub use entry::{Entry, Kind, Outcome, Source, Value, What, Who};
pub use error::{AuditUnavailable, Error};
#[doc(hidden)]
pub use failpoints::Step;
pub use heads::{MIGRATIONS, forget_other_logs, has_heads, other_logs, read_head, should_be_in};
pub use key::Key;
pub use lease::{HEAD_ANNOTATION, LeaseError, lease_name, publish_head_to_lease, read_head_from_lease};
pub use line::{Head, Mac, NotHex};
pub use open::{missing_instance, read_instance};
pub use report::{Fault, Finding, Place, Report, Witness};
pub use tail::Tail;
pub use verify::verify;

use follow::Follower;
use heads::{Advanced, Record};
use log::Log;
use open::Tampering;
use writer::{Message, Wait, Writer};

/// Where the log is and how long it is kept.
#[derive(Clone, Debug)]
pub struct Config {
    pub directory: PathBuf,
    /// Made on the first start; keep it where the readers of the log cannot read it.
    pub key_file: PathBuf,
    pub limits: Limits,
    /// Entries that may wait for the writer before [`Audit::record`] waits too.
    pub queue: usize,
}

impl Config {
    pub fn new(directory: impl Into<PathBuf>, key_file: impl Into<PathBuf>) -> Config {
        Config { directory: directory.into(), key_file: key_file.into(), limits: Limits::default(), queue: 4096 }
    }
}

/// When a file is rotated and when rotated files expire.
#[derive(Clone, Debug)]
pub struct Limits {
    pub rotate_bytes: u64,
    pub rotate_after: Duration,
    /// None keeps files whatever their age.
    pub keep_for: Option<Duration>,
    /// None keeps any number of rotated files.
    pub keep_files: Option<usize>,
}

impl Default for Limits {
    fn default() -> Limits {
        let day = Duration::from_hours(24);
        Limits { rotate_bytes: 64 << 20, rotate_after: day, keep_for: Some(90 * day), keep_files: None }
    }
}

/// A handle to the log; clones write to the same one.
#[derive(Clone, Debug)]
pub struct Audit {
    messages: mpsc::Sender<Message>,
    /// Places in the queue.
    places: Arc<Semaphore>,
    shared: Arc<Shared>,
    instance: Arc<str>,
}

/// How safe an intent must be before the work begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Written: whatever becomes of this process, the line stays. It is synced together with the act that answers it, so
    /// that only a power cut while the work goes on can lose it, and then nobody has got an answer.
    Written,
    /// On disk: for work in systems that this one cannot look into afterwards, where a trace must survive a power cut too.
    Durable,
}

impl Audit {
    /// Opens the log, brings in order what a crash left, and starts the writer on the current runtime. A log that was
    /// tampered with is refused with [`Error::Tampered`]. [`MIGRATIONS`] must have run.
    pub async fn open(config: Config, db: Db) -> Result<Audit, Error> {
        Audit::open_with(config, db, Tampering::Refuse).await
    }

    /// Like [`Audit::open`], but sets a log that was tampered with aside, in a directory `evidence-<time>` beside it,
    /// and begins a new segment. So is one that has less than `remembered`, the head in the Lease, if there is one. For an
    /// operator who has looked at it, never by default.
    pub async fn open_after_tampering(config: Config, db: Db, remembered: Option<Head>) -> Result<Audit, Error> {
        Audit::open_with(config, db, Tampering::SetAside(remembered.unwrap_or(Head::NONE))).await
    }

    async fn open_with(config: Config, db: Db, tampering: Tampering) -> Result<Audit, Error> {
        let claimed = config.clone();
        let place = place::name(&config.directory)?;
        let expected = heads::log_at(&db, &place).await?;
        let missed = expected.clone();
        let instance = blocking(move || open::claim(&claimed, missed, tampering)).await?;
        let head = read_head(&db, &instance.id).await?.unwrap_or(Head::NONE);
        let shared = Arc::new(Shared::default());
        let stats = Arc::clone(&shared.stats);
        let queue = config.queue.max(1);
        let (instance, log) = blocking(move || {
            let path = config.directory.join(files::CURRENT);
            let (mut log, first) = open::recover(&config, &instance, &stats, head, tampering)?;
            // Only a log that can be written and whose head can be recorded is open.
            let written = log.reserve(first.iter(), 0, 0).and_then(|()| log.append(&first));
            written.map_err(|source| Error::Io { action: "write", path, source })?;
            Ok((instance, log))
        })
        .await?;
        let head = log.head();
        if let Advanced::Overtaken = heads::advance(&db, &instance.id, head, Record::OnDisk).await? {
            let (directory, reason) = (log.directory.clone(), "the database knows a newer line".into());
            return Err(Error::Tampered { directory, reason, evidence: Vec::new() });
        }
        if expected.as_ref() != Some(&instance.id) {
            heads::settle(&db, &place, &instance.id).await?;
        }
        shared.set_head(head);
        let path = log.directory.clone();
        *shared.log.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
        let (messages, receiver) = mpsc::channel();
        let (synced, following) = tokio::sync::mpsc::unbounded_channel();
        let (ended, followed) = mpsc::channel();
        let id = instance.id.clone();
        let name = "audit-writer".to_owned();
        let follower =
            Follower { shared: Arc::clone(&shared), db, instance: id.clone(), synced: following, _ended: ended };
        let writer = Writer {
            shared: Arc::clone(&shared),
            _instance: instance,
            messages: receiver,
            synced,
            told: head,
            followed,
        };
        let thread = std::thread::Builder::new().name(name).spawn(move || writer.run());
        thread.map_err(|source| Error::Io { action: "start a thread for the log in", path, source })?;
        tokio::spawn(follower.run());
        Ok(Audit { messages, places: Arc::new(Semaphore::new(queue)), shared, instance: id.into() })
    }

    /// Takes a decision for the log: on disk soon, known to the database soon after. Waits only while the queue is full,
    /// and then for two seconds: reads go on without a log. What is lost is counted, and a `gap` line will tell.
    pub async fn record(&self, entry: Entry) {
        let sent = timeout(RECORD_PATIENCE, self.send(writer::What::Entry(Box::new(entry), Wait::Nobody))).await;
        if !matches!(sent, Ok(Ok(()))) {
            self.shared.lose_one();
        }
    }

    /// Puts on record that something is about to be done, as safely as is asked for.
    ///
    /// The receipt keeps space for the line of the act that answers it ([`Entry::after`]), so that
    /// the act can be recorded on a disk that has become full: keep it until then. On a file system that cannot
    /// reserve space this is best effort.
    pub async fn intend(&self, entry: Entry, intent: Intent) -> Result<Receipt, AuditUnavailable> {
        match intent {
            Intent::Durable => self.answered(entry, Wait::Synced).await,
            Intent::Written => match self.shared.write_intent(&entry) {
                Some(receipt) => Ok(receipt),
                None => self.answered(entry, Wait::Written).await,
            },
        }
    }

    /// Returns when the entry and all before it are on disk and the database knows it; one sync serves all that wait.
    pub async fn commit(&self, entry: Entry) -> Result<Receipt, AuditUnavailable> {
        self.answered(entry, Wait::Synced).await
    }

    async fn answered(&self, entry: Entry, wait: fn(writer::Answer) -> Wait) -> Result<Receipt, AuditUnavailable> {
        let ended = || AuditUnavailable { reason: self.health().err().unwrap_or_else(|| "it has ended".to_owned()) };
        let (answer, result) = oneshot::channel();
        self.send(writer::What::Entry(Box::new(entry), wait(answer))).await.map_err(|()| ended())?;
        result.await.map_err(|_| ended())?
    }

    /// Waits for a place in the queue. An error means that the log has ended.
    async fn send(&self, what: writer::What) -> Result<(), ()> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(drop)?;
        self.messages.send(Message { what, _place: place }).map_err(drop)
    }

    /// Whether changes can be recorded, or in a few words why not.
    pub fn health(&self) -> Result<(), String> {
        self.shared.trouble().or_else(|| self.shared.head_trouble()).map_or(Ok(()), Err)
    }

    /// The newest head that the database has.
    pub fn head(&self) -> Head {
        self.shared.head()
    }

    /// The name of this log in the database and in the Lease.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Counters since the start, for metrics.
    pub fn stats(&self) -> &Stats {
        &self.shared.stats
    }

    /// Writes what is queued and a `stop` line. Entries that come later are refused.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.send(writer::What::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
    }
}

/// How long a decision waits for a place in the queue.
const RECORD_PATIENCE: Duration = Duration::from_secs(2);

/// Proof that an entry is on disk, or written as it was asked for; and for an intent the space of its answer.
#[derive(Debug)]
#[must_use = "the receipt of an intent keeps the space of its act"]
pub struct Receipt {
    pub n: u64,
    _reserve: Option<Reserve>,
}

/// Counts as an intent without an answer while it lives.
#[derive(Debug)]
struct Reserve(Arc<Shared>);

impl Reserve {
    fn new(shared: &Arc<Shared>) -> Reserve {
        shared.outstanding.fetch_add(1, Relaxed);
        Reserve(Arc::clone(shared))
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.0.outstanding.fetch_sub(1, Relaxed);
    }
}

/// Counters of the writer.
#[derive(Debug, Default)]
pub struct Stats {
    /// Lines written.
    pub lines: AtomicU64,
    /// Calls of `fdatasync`.
    pub syncs: AtomicU64,
    /// Writes of the head to the database.
    pub heads: AtomicU64,
    /// Commits that were acknowledged.
    pub commits: AtomicU64,
    /// Decisions that could not be written.
    pub lost: AtomicU64,
    pub rotations: AtomicU64,
}

/// What the handles and the writer both see.
#[derive(Debug)]
struct Shared {
    stats: Arc<Stats>,
    /// The file, while it is open: the writer's, and lent to those who intend something.
    log: Mutex<Option<Log>>,
    /// What is wrong with the file.
    trouble: Mutex<Option<String>>,
    /// What is wrong with the head in the database.
    head_trouble: Mutex<Option<String>>,
    head: Mutex<Head>,
    /// Intents whose act is not written yet.
    outstanding: AtomicUsize,
    /// Decisions that could not be written and are not yet told by a `gap` line.
    lost: AtomicU64,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            stats: Arc::default(),
            log: Mutex::default(),
            trouble: Mutex::default(),
            head_trouble: Mutex::default(),
            head: Mutex::new(Head::NONE),
            outstanding: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Ended))
}
