//! The one thread that writes: it takes what waits, writes it, syncs it where somebody waits for that, and answers.
//!
//! An intent is answered when its line is written: the end of the process does not lose it any more. An act, and whatever
//! else is committed, is answered when its line is synced, and so is everything before it, and the database knows it (see
//! [`super::follow`]); one sync serves all that wait. What nobody waits for is synced soon after. While the thread has
//! nothing to do, whoever intends something writes that line without it ([`Shared::write_intent`]): to wake a thread and to
//! be woken by it takes longer than to write.
//!
//! When the disk refuses, what was committed is taken back and refused and decisions are counted; an intent that was
//! answered stays. The thread tries again by itself, every second and with each entry, and until a sync has succeeded
//! intents are answered no sooner than acts. A `gap` line tells how many decisions were lost.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::entry::{Entry, Kind};
use super::error::AuditUnavailable;
use super::failpoints::Step;
use super::follow::{HEAD_DEADLINE, Synced};
use super::line::{Head, MAX_LINE};
use super::log::Log;
use super::open::Instance;
use super::{Receipt, Reserve, Shared};

/// Entries written with one sync.
const GROUP: usize = 256;
/// How long lines that nobody waits for wait for others to share a sync with.
const GATHER: Duration = Duration::from_millis(50);
/// How often files are looked at, and a broken log is tried again.
const TICK: Duration = Duration::from_secs(1);

pub(super) type Answer = oneshot::Sender<Result<Receipt, AuditUnavailable>>;

/// Something for the log, with its place in the queue.
pub(super) struct Message {
    pub(super) what: What,
    pub(super) _place: OwnedSemaphorePermit,
}

pub(super) enum What {
    Entry(Box<Entry>, Wait),
    Close(oneshot::Sender<()>),
}

/// Who waits for a line, and for what.
pub(super) enum Wait {
    Nobody,
    /// Until it is written.
    Written(Answer),
    /// Until it is on disk.
    Synced(Answer),
}

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    /// Keeps others off the log; never read.
    pub(super) _instance: Instance,
    pub(super) messages: Receiver<Message>,
    /// What the database may be told.
    pub(super) synced: UnboundedSender<Synced>,
    /// The newest head that went there.
    pub(super) told: Head,
    /// Ends with the follower.
    pub(super) followed: Receiver<()>,
}

/// One group on its way.
#[derive(Default)]
struct Group {
    lines: Vec<(Entry, Wait)>,
    closing: Vec<oneshot::Sender<()>>,
}

/// Whether lines that nobody waits for are synced now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    Lazy,
    Now,
}

impl Writer {
    pub(super) fn run(mut self) {
        let mut tick = Instant::now() + TICK;
        let mut sync_due = None;
        loop {
            let until = sync_due.map_or(tick, |due: Instant| due.min(tick));
            let (mut group, more) = self.gather(until);
            let last = !more || !group.closing.is_empty();
            if last {
                group.lines.push((Entry::internal(Kind::Stop), Wait::Nobody));
            }
            let closing = std::mem::take(&mut group.closing);
            let urgency = if last || Instant::now() >= until { Urgency::Now } else { Urgency::Lazy };
            if Instant::now() >= tick {
                tick = Instant::now() + TICK;
            }
            let shared = Arc::clone(&self.shared);
            let mut open = shared.open_log();
            // It is taken out below, and by nobody else.
            let Some(log) = open.as_mut() else { return };
            let trouble = self.put(log, group, urgency);
            self.shared.set_trouble(trouble);
            sync_due = (!log.is_synced()).then(|| sync_due.unwrap_or_else(|| Instant::now() + GATHER));
            if last {
                let head = log.head();
                *open = None;
                drop(open);
                self.end(head, closing);
                return;
            }
        }
    }

    /// Waits for something to do until a time, and takes what else is there. False when nobody can send any more.
    fn gather(&self, until: Instant) -> (Group, bool) {
        let mut group = Group::default();
        match self.messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(first) => group.take(first),
            Err(RecvTimeoutError::Timeout) => return (group, true),
            Err(RecvTimeoutError::Disconnected) => return (group, false),
        }
        while group.lines.len() < GROUP
            && let Ok(message) = self.messages.try_recv()
        {
            group.take(message);
        }
        (group, true)
    }

    /// Takes a group through all steps and answers. Tells what is wrong with the file, if something is.
    fn put(&mut self, log: &mut Log, group: Group, urgency: Urgency) -> Option<String> {
        let trouble = self.shared.trouble();
        let lost = self.shared.lost.load(Relaxed);
        if group.lines.is_empty() && lost == 0 && trouble.is_none() && log.is_synced() {
            log.chores(self.shared.outstanding.load(Relaxed));
            self.tell(log.head(), Vec::new());
            return None;
        }
        let mut lines = group.lines;
        if let Some(reason) = self.shared.head_trouble() {
            // The log does not grow ahead of the database with every repetition.
            let fits = |entry: &Entry, wait: &Wait| matches!(wait, Wait::Nobody) || entry.is_reserved();
            lines = self.keep(lines, &reason, fits);
        }
        // After trouble it takes more to be well again, so that it does not come and go with the length of a line.
        let spare = if trouble.is_none() { MAX_LINE } else { 4 * MAX_LINE };
        let is_intent = |(entry, _): &&(Entry, Wait)| entry.kind() == Kind::Intent;
        let intents = self.shared.outstanding.load(Relaxed) + lines.iter().filter(is_intent).count();
        let mut problem = None;
        if let Err(error) = log.reserve(lines.iter().map(|(entry, _)| entry), spare, intents) {
            let reason = self.failed("no space can be reserved", &error);
            // What was promised by an intent has its space; the rest is refused.
            lines = self.keep(lines, &reason, |entry, _| entry.is_reserved() || entry.kind() == Kind::Stop);
            problem = Some(reason);
        } else if lost > 0 {
            lines.insert(0, (Entry::internal(Kind::Gap).with("lost", lost), Wait::Nobody));
        }
        let urgency = if trouble.is_some() { Urgency::Now } else { urgency };
        match self.put_lines(log, lines, lost, urgency) {
            Ok(()) => problem,
            Err(reason) => Some(reason),
        }
    }

    /// Writes, answers those who wait for no more, syncs if somebody waits for that, and answers the rest.
    fn put_lines(
        &mut self,
        log: &mut Log,
        lines: Vec<(Entry, Wait)>,
        lost: u64,
        urgency: Urgency,
    ) -> Result<(), String> {
        let suspicious = self.shared.trouble().is_some();
        let gap = lines.first().is_some_and(|(entry, _)| entry.kind() == Kind::Gap);
        let synced = |wait: &Wait| match wait {
            Wait::Nobody => false,
            // Nothing is promised on a file that failed before it has proved well.
            Wait::Written(_) => suspicious,
            Wait::Synced(_) => true,
        };
        let (late, early): (Vec<_>, Vec<_>) = lines.into_iter().partition(|(_, wait)| synced(wait));
        let (kept, early): (Vec<Entry>, Vec<Wait>) = early.into_iter().unzip();
        let (taken, late): (Vec<Entry>, Vec<Wait>) = late.into_iter().unzip();
        let first = log.newest().n + 1;
        // Also without entries: that is how a broken file is tried again.
        if let Err(error) = log.write(&kept, &taken) {
            let reason = self.failed("the file cannot be written", &error);
            for (entry, wait) in kept.iter().zip(early).chain(taken.iter().zip(late)) {
                if entry.kind() != Kind::Gap {
                    self.refuse(wait, &reason);
                }
            }
            return Err(reason);
        }
        if gap {
            self.shared.lost.fetch_sub(lost, Relaxed);
        }
        for (answer, receipt) in self.receipts(first, &kept, early) {
            // Whoever asked may have gone; the line stays.
            let _ = answer.send(Ok(receipt));
        }
        if late.is_empty() && urgency == Urgency::Lazy {
            return Ok(());
        }
        if let Err(error) = log.sync() {
            let reason = self.failed("the file cannot be written", &error);
            for wait in late {
                self.refuse(wait, &reason);
            }
            return Err(reason);
        }
        Step::AfterSyncBeforeAck.hit();
        self.shared.stats.commits.fetch_add(late.len() as u64, Relaxed);
        let waiting = self.receipts(first + kept.len() as u64, &taken, late);
        self.tell(log.head(), waiting.collect());
        log.chores(self.shared.outstanding.load(Relaxed));
        self.tell(log.head(), Vec::new());
        Ok(())
    }

    /// Everybody can know what is wrong before anybody is refused for it.
    fn failed(&self, what: &str, error: &io::Error) -> String {
        let reason = format!("{what} ({})", error.kind());
        self.shared.set_trouble(Some(reason.clone()));
        reason
    }

    /// What those who wait for these lines are to be told.
    fn receipts(&self, first: u64, entries: &[Entry], waits: Vec<Wait>) -> impl Iterator<Item = (Answer, Receipt)> {
        (first..).zip(entries.iter().zip(waits)).filter_map(|(n, (entry, wait))| {
            let (Wait::Written(answer) | Wait::Synced(answer)) = wait else { return None };
            let reserve = (entry.kind() == Kind::Intent).then(|| Reserve::new(&self.shared));
            Some((answer, Receipt { n, _reserve: reserve }))
        })
    }

    /// Refuses all but some lines.
    fn keep(
        &self,
        lines: Vec<(Entry, Wait)>,
        reason: &str,
        fits: impl Fn(&Entry, &Wait) -> bool,
    ) -> Vec<(Entry, Wait)> {
        let (kept, refused): (Vec<_>, Vec<_>) = lines.into_iter().partition(|(entry, wait)| fits(entry, wait));
        for (_, wait) in refused {
            self.refuse(wait, reason);
        }
        kept
    }

    fn refuse(&self, wait: Wait, reason: &str) {
        match wait {
            Wait::Nobody => self.shared.lose_one(),
            Wait::Written(answer) | Wait::Synced(answer) => {
                let _ = answer.send(Err(AuditUnavailable { reason: reason.to_owned() }));
            }
        }
    }

    /// Lets the database know what is on disk, and then those who wait for that.
    fn tell(&mut self, head: Head, waiting: Vec<(Answer, Receipt)>) {
        if std::mem::replace(&mut self.told, head) != head || !waiting.is_empty() {
            // Fails only when the runtime has ended, and with it everybody who waits.
            let _ = self.synced.send(Synced { head, waiting, last: false });
        }
    }

    /// The end in good order: the last head is recorded, then the lock goes, then whoever waits is told, so that they may
    /// open the log again at once.
    fn end(self, head: Head, closing: Vec<oneshot::Sender<()>>) {
        self.shared.close();
        let _ = self.synced.send(Synced { head, waiting: Vec::new(), last: true });
        let _ = self.followed.recv_timeout(HEAD_DEADLINE + TICK);
        drop(self);
        for done in closing {
            let _ = done.send(());
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A bug ended the thread: nothing that is not on disk was acknowledged, and nothing more will be.
        if std::thread::panicking() {
            self.shared.set_trouble(Some("the writer has ended".to_owned()));
            *self.shared.open_log() = None;
        }
    }
}

impl Group {
    fn take(&mut self, message: Message) {
        match message.what {
            What::Entry(entry, wait) => self.lines.push((*entry, wait)),
            What::Close(done) => self.closing.push(done),
        }
    }
}

impl Shared {
    fn open_log(&self) -> MutexGuard<'_, Option<Log>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the line of an intent, unless the writer is at it or has something to say about it: then it is the writer's
    /// business, as is everything that went wrong.
    pub(super) fn write_intent(self: &Arc<Shared>, entry: &Entry) -> Option<Receipt> {
        let mut open = self.log.try_lock().ok()?;
        let log = open.as_mut()?;
        if self.trouble().or_else(|| self.head_trouble()).is_some() || self.lost.load(Relaxed) > 0 {
            return None;
        }
        let entry = std::slice::from_ref(entry);
        log.reserve(entry.iter(), MAX_LINE, self.outstanding.load(Relaxed) + 1).ok()?;
        log.write(entry, &[]).ok()?;
        Some(Receipt { n: log.newest().n, _reserve: Some(Reserve::new(self)) })
    }

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

    /// What is wrong with the file, if something is.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn lose_one(&self) {
        self.lost.fetch_add(1, Relaxed);
        self.stats.lost.fetch_add(1, Relaxed);
    }
}
