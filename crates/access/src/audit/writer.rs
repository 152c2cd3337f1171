//! The one task that writes: it gathers groups, puts them on disk, tells the database, and only then answers.
//!
//! The order is always line, `fdatasync`, head, answer; a head never goes before its line. When the disk refuses, the
//! group is taken back, commits fail and decisions are counted; when only the database refuses, the lines stay (a
//! head with a lost answer may already name them) and commits fail. Either way the task tries again by itself, every
//! second and with each commit, and a `gap` line tells how many decisions were lost.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use db::Db;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::entry::{Entry, Kind};
use super::error::{AuditUnavailable, Error};
use super::failpoints::Step;
use super::heads::{self, Advanced};
use super::line::{Head, MAX_LINE};
use super::log::Log;
use super::open::Instance;
use super::{Receipt, Reserve, Shared};

/// Entries written with one sync.
const GROUP: usize = 256;
/// How long decisions wait for others to share a sync with.
const GATHER: Duration = Duration::from_millis(50);
/// How far the head may stay behind lines that nobody waits for, and how often a broken log is tried again.
const TICK: Duration = Duration::from_secs(1);
const HEAD_DEADLINE: Duration = Duration::from_secs(5);

pub(super) type Answer = oneshot::Sender<Result<Receipt, AuditUnavailable>>;

pub(super) enum Message {
    Record(Box<Entry>),
    Commit(Box<Entry>, Answer),
    Close(oneshot::Sender<()>),
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    db: Db,
    instance: Instance,
    messages: mpsc::Receiver<Message>,
    log: Log,
    /// The newest head that the database has.
    recorded: Head,
    /// Set when the database refused a head: until then nothing that waits for one is even written.
    head_after: Option<Instant>,
}

/// One group on its way.
#[derive(Default)]
struct Group {
    entries: Vec<Entry>,
    /// For each entry, who waits for it.
    answers: Vec<Option<Answer>>,
    closing: Vec<oneshot::Sender<()>>,
}

impl Writer {
    /// Writes the first lines; only a log that can be written and whose head can be recorded is open.
    pub(super) async fn start(
        shared: Arc<Shared>,
        db: Db,
        instance: Instance,
        messages: mpsc::Receiver<Message>,
        log: Log,
        first: Vec<Entry>,
    ) -> Result<Writer, Error> {
        let path = log.directory.join(super::files::CURRENT);
        let mut writer = Writer { shared, db, instance, messages, log, recorded: Head::NONE, head_after: None };
        let written;
        (writer, written) = writer
            .blocking(move |writer| {
                writer.log.reserve(&first, 0, 0)?;
                writer.log.append(&first)
            })
            .await
            .ok_or(Error::Ended)?;
        written.map_err(|source| Error::Io { action: "write", path, source })?;
        if let Advanced::Overtaken = heads::advance(&writer.db, &writer.instance.id, writer.log.head()).await? {
            let (directory, reason) = (writer.log.directory.clone(), "the database knows a newer line");
            return Err(Error::Tampered { directory, reason, evidence: Vec::new() });
        }
        writer.recorded = writer.log.head();
        writer.shared.set_head(writer.recorded);
        Ok(writer)
    }

    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut next_tick = Instant::now() + TICK;
        loop {
            let (mut group, more) = self.gather(next_tick).await;
            let last = !more || !group.closing.is_empty();
            if last {
                group.push(Entry::internal(Kind::Stop), None);
            }
            let is_tick = Instant::now() >= next_tick;
            if is_tick {
                next_tick = Instant::now() + TICK;
            }
            let closing = std::mem::take(&mut group.closing);
            let Some(writer) = self.write(group, if is_tick || last { Urgency::Now } else { Urgency::Lazy }).await
            else {
                // The runtime is going down, or a bug ended the thread: nothing was acknowledged.
                shared.set_trouble(Some("the writer has ended".to_owned()));
                return;
            };
            self = writer;
            if last {
                shared.close();
                // The lock goes first: whoever waits for the end may open the log again at once.
                drop(self);
                for done in closing {
                    let _ = done.send(());
                }
                return;
            }
        }
    }

    /// Waits for something to do: until a commit comes, or for what else comes with the first decision, or the tick.
    /// The second value is false when nobody can send any more.
    async fn gather(&mut self, tick: Instant) -> (Group, bool) {
        let mut messages = Vec::new();
        let mut group = Group::default();
        let mut received = tokio::select! {
            received = self.messages.recv_many(&mut messages, GROUP) => received,
            () = sleep_until(tick) => return (group, true),
        };
        let deadline = Instant::now() + GATHER;
        loop {
            messages.drain(..).for_each(|message| group.take(message));
            let waited_for = group.answers.iter().any(Option::is_some) || !group.closing.is_empty();
            if received == 0 || waited_for || group.entries.len() >= GROUP {
                return (group, received > 0);
            }
            let room = GROUP - group.entries.len();
            match timeout_at(deadline, self.messages.recv_many(&mut messages, room)).await {
                Ok(count) => received = count,
                Err(_) => return (group, true),
            }
        }
    }

    /// Takes a group through all steps and answers. None if the blocking thread was lost.
    async fn write(self, group: Group, urgency: Urgency) -> Option<Writer> {
        let (mut writer, written) = self.blocking(move |writer| writer.put_on_disk(group)).await?;
        let Written { receipts, refused, trouble } = written;
        let waited_for = !receipts.is_empty();
        let behind = writer.recorded != writer.log.head();
        let mut problem = trouble;
        if behind && writer.is_waiting_for_database() {
            problem = problem.or_else(|| writer.shared.trouble());
        } else if behind && (waited_for || urgency == Urgency::Now || writer.head_after.is_some()) {
            Step::AfterSyncBeforeHead.hit();
            let refused = writer.record_head().await.err();
            writer.head_after = refused.as_ref().map(|_| Instant::now() + TICK);
            problem = problem.or(refused);
            Step::AfterHeadBeforeAck.hit();
        }
        let recorded = writer.recorded.n;
        writer.shared.set_trouble(problem.clone());
        let reason = problem.unwrap_or_default();
        for (n, answer, reserve) in receipts {
            let result = if n <= recorded {
                writer.shared.stats.commits.fetch_add(1, Relaxed);
                Ok(Receipt { n, _reserve: reserve })
            } else {
                Err(AuditUnavailable { reason: reason.clone() })
            };
            // Whoever asked may have gone; the line stays.
            let _ = answer.send(result);
        }
        for answer in refused {
            let _ = answer.send(Err(AuditUnavailable { reason: reason.clone() }));
        }
        Some(writer)
    }

    /// Everything of a group that blocks.
    fn put_on_disk(&mut self, group: Group) -> Written {
        let mut written = Written::default();
        let Group { mut entries, mut answers, .. } = group;
        let waiting = self.shared.outstanding.load(Relaxed);
        let intents = waiting + entries.iter().filter(|entry| entry.kind() == Kind::Intent).count();
        let lost = self.shared.lost.load(Relaxed);
        if entries.is_empty() && lost == 0 && self.shared.trouble().is_none() {
            self.log.chores(waiting);
            return written;
        }
        if self.is_waiting_for_database() {
            // Whoever could only be told no is told so at once, and the log does not grow with every repetition.
            written.trouble = self.shared.trouble();
            (entries, answers) =
                self.keep(entries, answers, &mut written, |entry, answer| answer.is_none() || entry.is_reserved());
        }
        // After trouble it takes more to be well again, so that it does not come and go with the length of a line.
        let spare = if self.shared.trouble().is_none() { MAX_LINE } else { 4 * MAX_LINE };
        if let Err(error) = self.log.reserve(&entries, spare, intents) {
            written.trouble = Some(describe("no space can be reserved", &error));
            // What was promised by an intent has its space; the rest is refused.
            (entries, answers) =
                self.keep(entries, answers, &mut written, |entry, _| entry.is_reserved() || entry.kind() == Kind::Stop);
        } else if lost > 0 {
            entries.insert(0, Entry::internal(Kind::Gap).with("lost", lost));
            answers.insert(0, None);
        }
        let before = self.log.head().n;
        let gap = entries.first().is_some_and(|entry| entry.kind() == Kind::Gap);
        // Also without entries: that is how a broken file is tried again.
        match self.log.append(&entries) {
            Ok(()) => {
                if gap {
                    self.shared.lost.fetch_sub(lost, Relaxed);
                }
                for (n, (entry, answer)) in (before + 1..).zip(entries.iter().zip(answers)) {
                    let Some(answer) = answer else { continue };
                    let reserve = (entry.kind() == Kind::Intent).then(|| Reserve::new(&self.shared));
                    written.receipts.push((n, answer, reserve));
                }
                self.log.chores(self.shared.outstanding.load(Relaxed));
            }
            Err(error) => {
                written.trouble = Some(describe("the file cannot be written", &error));
                for (entry, answer) in entries.iter().zip(answers) {
                    if entry.kind() != Kind::Gap {
                        self.refuse(answer, &mut written);
                    }
                }
            }
        }
        written
    }

    /// Refuses all but some entries.
    fn keep(
        &self,
        entries: Vec<Entry>,
        answers: Vec<Option<Answer>>,
        written: &mut Written,
        fits: impl Fn(&Entry, &Option<Answer>) -> bool,
    ) -> (Vec<Entry>, Vec<Option<Answer>>) {
        let mut kept = (Vec::new(), Vec::new());
        for (entry, answer) in entries.into_iter().zip(answers) {
            if fits(&entry, &answer) {
                kept.0.push(entry);
                kept.1.push(answer);
            } else {
                self.refuse(answer, written);
            }
        }
        kept
    }

    fn refuse(&self, answer: Option<Answer>, written: &mut Written) {
        if let Some(answer) = answer {
            written.refused.push(answer);
        } else {
            self.shared.lose_one();
        }
    }

    fn is_waiting_for_database(&self) -> bool {
        self.head_after.is_some_and(|after| Instant::now() < after)
    }

    async fn record_head(&mut self) -> Result<(), String> {
        let head = self.log.head();
        self.shared.stats.heads.fetch_add(1, Relaxed);
        match timeout(HEAD_DEADLINE, heads::advance(&self.db, &self.instance.id, head)).await {
            Ok(Ok(Advanced::Done)) => {
                self.recorded = head;
                self.shared.set_head(head);
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

    /// Runs something that blocks, with the writer lent to another thread. None if that thread was lost.
    async fn blocking<T, F>(mut self, work: F) -> Option<(Writer, T)>
    where
        T: Send + 'static,
        F: FnOnce(&mut Writer) -> T + Send + 'static,
    {
        tokio::task::spawn_blocking(move || {
            let result = work(&mut self);
            (self, result)
        })
        .await
        .inspect_err(|error| tracing::error!(%error, "the audit log's writer was lost"))
        .ok()
    }
}

/// Whether the head of lines that nobody waits for is recorded now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    Lazy,
    Now,
}

#[derive(Default)]
struct Written {
    /// On disk, to be answered when the head is recorded.
    receipts: Vec<(u64, Answer, Option<Reserve>)>,
    refused: Vec<Answer>,
    trouble: Option<String>,
}

impl Group {
    fn take(&mut self, message: Message) {
        match message {
            Message::Record(entry) => self.push(*entry, None),
            Message::Commit(entry, answer) => self.push(*entry, Some(answer)),
            Message::Close(done) => self.closing.push(done),
        }
    }

    fn push(&mut self, entry: Entry, answer: Option<Answer>) {
        self.entries.push(entry);
        self.answers.push(answer);
    }
}

fn describe(what: &str, error: &io::Error) -> String {
    format!("{what} ({})", error.kind())
}

impl Shared {
    /// The end in good order: nothing to complain about, but nothing can be recorded any more either.
    fn close(&self) {
        let mut current = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        current.get_or_insert_with(|| "the log is closed".to_owned());
    }

    fn set_trouble(&self, trouble: Option<String>) {
        let mut current = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*current, &trouble) {
            (None, Some(reason)) => tracing::error!(reason, "the audit log cannot be written: changes are refused"),
            (Some(_), None) => tracing::info!("the audit log can be written again"),
            _ => {}
        }
        *current = trouble;
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn lose_one(&self) {
        self.lost.fetch_add(1, Relaxed);
        self.stats.lost.fetch_add(1, Relaxed);
    }

    fn set_head(&self, head: Head) {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = head;
    }
}
