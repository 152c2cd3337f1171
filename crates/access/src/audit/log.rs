//! The file being written: appending groups, taking back what failed, reserving space, rotating, expiring.
//!
//! [`Log`] has one user at a time, mostly the writer, and all of it blocks. Lines are written first ([`Log::write`]),
//! where the end of the process does not lose them, and synced later ([`Log::sync`]), where a power cut does not either.
//! What it promises: a line that was kept is in the file or will be again; `head` only ever names a line that is synced.
//! It knows neither callers nor the database.
//!
//! **After a failed `fdatasync`** the kernel may have dropped the pages and marked them clean, so nothing written since
//! the last good sync is trusted: the file is cut back to that point and opened anew, and what is to be kept is written
//! again from memory. What lies before that point was synced by an earlier call and is not touched.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::entry::{Entry, Kind, Value};
use super::failpoints::Step;
use super::files::{self, CURRENT, NEXT, Rotated};
use super::key::{Key, sync_directory};
use super::line::{self, Head, Line, MAX_LINE};
use super::{Limits, Stats};

pub(super) struct Log {
    pub(super) directory: PathBuf,
    pub(super) key: Arc<Key>,
    pub(super) limits: Limits,
    pub(super) stats: Arc<Stats>,
    file: File,
    /// The end of the last line that is synced.
    good: u64,
    head: Head,
    /// Lines that are written and not synced yet.
    pending: Vec<u8>,
    /// How much of them stays when the sync fails.
    kept: Kept,
    /// The newest line, synced or not.
    newest: Head,
    /// The number and time of the current file's first line.
    begin: Option<(u64, Timestamp)>,
    older: Vec<Rotated>,
    space: Space,
    state: State,
    /// Rotation or expiry failed; not before then is it tried again.
    chores_after: Option<Instant>,
    /// When files are looked at for expiry again; none is at once.
    expiry_after: Option<Instant>,
}

/// A place among the pending lines.
#[derive(Clone, Copy)]
struct Kept {
    bytes: usize,
    head: Head,
}

/// What is known of the blocks behind the end of the file.
enum Space {
    /// The file owns its blocks up to this offset.
    Until(u64),
    /// This file system cannot reserve: an act may then fail on a full disk although its intent was accepted.
    Unsupported,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    /// The file may hold something after `good`, or may have to be created.
    Broken,
}

/// Asked for at once, so that not every group needs a call.
const AHEAD: u64 = 256 * 1024;
/// Space for lines that the log itself must be able to write: rotate, stop, gap, expired.
const OWN_LINES: u64 = 4 * MAX_LINE as u64;
/// Files also expire while nothing is written; looking for them reads one line.
const EXPIRY_EVERY: Duration = Duration::from_mins(1);
const CHORES_RETRY: Duration = Duration::from_secs(30);

impl Log {
    /// Takes over the current file, whose whole lines end at `good`, and cuts off the rest.
    pub(super) fn resume(
        directory: PathBuf,
        key: Arc<Key>,
        limits: Limits,
        stats: Arc<Stats>,
        good: u64,
        head: Head,
        begin: Option<(u64, Timestamp)>,
    ) -> io::Result<Log> {
        let file = open(&directory.join(CURRENT))?;
        let older = files::rotated(&directory)?;
        let (space, state) = (Space::Until(good), State::Broken);
        let mut log = Log {
            directory,
            key,
            limits,
            stats,
            file,
            good,
            head,
            pending: Vec::new(),
            kept: Kept { bytes: 0, head },
            newest: head,
            begin,
            older,
            space,
            state,
            chores_after: None,
            expiry_after: None,
        };
        // Lines that a killed process left may be in the page cache only: `repair` syncs before they count.
        log.repair()?;
        Ok(log)
    }

    /// The newest line that is on disk.
    pub(super) fn head(&self) -> Head {
        self.head
    }

    /// The newest line that is written, on disk or not.
    pub(super) fn newest(&self) -> Head {
        self.newest
    }

    pub(super) fn is_synced(&self) -> bool {
        self.pending.is_empty()
    }

    fn end(&self) -> u64 {
        self.good + self.pending.len() as u64
    }

    /// Makes sure that these entries, `spare` bytes and the answers to `intents` intents will find space on the disk.
    pub(super) fn reserve<'a>(
        &mut self,
        entries: impl ExactSizeIterator<Item = &'a Entry>,
        spare: usize,
        intents: usize,
    ) -> io::Result<()> {
        let Space::Until(owned) = self.space else { return Ok(()) };
        let rest = self.end() + (spare + intents * MAX_LINE) as u64 + OWN_LINES;
        if rest + (entries.len() * MAX_LINE) as u64 <= owned {
            return Ok(());
        }
        // The longest possible lines do not fit, so that it is worth to measure these.
        let mut end = rest;
        for entry in entries {
            end += (entry.body(u64::MAX)?.len() + line::SUFFIX) as u64;
        }
        if end <= owned {
            return Ok(());
        }
        self.allocate(end + AHEAD).or_else(|_| self.allocate(end))
    }

    fn allocate(&mut self, end: u64) -> io::Result<()> {
        self.space = match fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.end(), end - self.end()) {
            Ok(()) => Space::Until(end),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                tracing::warn!("the file system of the audit log cannot reserve space");
                Space::Unsupported
            }
            Err(error) => return Err(error.into()),
        };
        Ok(())
    }

    /// Writes these entries as one group, `kept` first and `taken` after them: a sync that fails takes `taken` back and
    /// keeps `kept`. On an error of this call none of them is in the file.
    pub(super) fn write(&mut self, kept: &[Entry], taken: &[Entry]) -> io::Result<()> {
        if self.state == State::Broken {
            self.repair()?;
        }
        let mut buffer = Vec::with_capacity((kept.len() + taken.len()) * 512);
        let mut newest = self.newest;
        let mut seal = |entries: &[Entry], newest: &mut Head| {
            for entry in entries {
                let body = entry.body(newest.n + 1)?;
                *newest = Head { n: newest.n + 1, mac: line::seal(&self.key, newest.mac, &body, &mut buffer) };
            }
            io::Result::Ok(buffer.len())
        };
        let bytes = self.pending.len() + seal(kept, &mut newest)?;
        let keep = Kept { bytes, head: newest };
        seal(taken, &mut newest)?;
        if let Err(error) = self.put(&buffer) {
            self.state = State::Broken;
            // At once, so that no half line stays where a reader sees it. If this fails too, the next write repeats it.
            let _ = self.repair();
            return Err(error);
        }
        if let (None, Some(entry)) = (self.begin, kept.iter().chain(taken).next()) {
            self.begin = Some((self.newest.n + 1, entry.time()));
        }
        self.pending.extend_from_slice(&buffer);
        (self.kept, self.newest) = (keep, newest);
        self.stats.lines.fetch_add((kept.len() + taken.len()) as u64, Relaxed);
        Ok(())
    }

    fn put(&self, buffer: &[u8]) -> io::Result<()> {
        #[cfg(feature = "testing")]
        {
            self.file.write_all_at(&buffer[..buffer.len() / 2], self.end())?;
            Step::MidWrite.check()?;
        }
        self.file.write_all_at(buffer, self.end())
    }

    /// Puts all that is written on disk. On an error, what the last [`Log::write`] did not keep is not in the file.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let synced = Step::AfterWriteBeforeSync.check().and_then(|()| {
            self.stats.syncs.fetch_add(1, Relaxed);
            self.file.sync_data()
        });
        if let Err(error) = synced {
            self.state = State::Broken;
            let Kept { bytes, head } = self.kept;
            self.pending.truncate(bytes);
            self.newest = head;
            if self.end() == 0 {
                self.begin = None;
            }
            // At once, as above.
            let _ = self.repair();
            return Err(error);
        }
        self.all_synced();
        Ok(())
    }

    fn all_synced(&mut self) {
        self.good = self.end();
        self.pending.clear();
        self.head = self.newest;
        self.kept = Kept { bytes: 0, head: self.newest };
    }

    /// Writes and syncs. On an error none of these entries is in the file.
    pub(super) fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        self.write(&[], entries)?;
        self.sync()
    }

    /// Cuts the file back to its last synced line, opens it anew and writes what was to be kept; see the head of this
    /// module.
    fn repair(&mut self) -> io::Result<()> {
        let file = open(&self.directory.join(CURRENT))?;
        if file.metadata()?.len() < self.good {
            return Err(io::Error::other("audit.log is shorter than what was written to it"));
        }
        file.set_len(self.good)?;
        file.write_all_at(&self.pending, self.good)?;
        file.sync_all()?;
        sync_directory(&self.directory)?;
        self.file = file;
        self.all_synced();
        if let Space::Until(owned) = &mut self.space {
            // Cutting also gave back the blocks behind the end.
            *owned = self.good;
        }
        self.state = State::Good;
        Ok(())
    }

    /// Rotates and expires if it is time. A failure is reported and tried again later: the log goes on as it is.
    pub(super) fn chores(&mut self, intents: usize) {
        if self.state == State::Broken || self.chores_after.is_some_and(|after| Instant::now() < after) {
            return;
        }
        self.chores_after = None;
        let done = if self.is_full() { self.rotate(intents) } else { Ok(()) };
        if let Err(error) = done.and_then(|()| self.expire_if_due(intents)) {
            tracing::warn!(%error, "failed to rotate or expire the audit log; it is tried again in half a minute");
            self.chores_after = Some(Instant::now() + CHORES_RETRY);
        }
    }

    fn expire_if_due(&mut self, intents: usize) -> io::Result<()> {
        if self.expiry_after.is_none_or(|after| Instant::now() >= after) {
            self.expire(intents)?;
            let pause = self.limits.keep_for.map_or(EXPIRY_EVERY, |keep| EXPIRY_EVERY.min(keep / 4));
            self.expiry_after = Some(Instant::now() + pause);
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let Some((_, since)) = self.begin else { return false };
        self.end() >= self.limits.rotate_bytes || elapsed(since) >= self.limits.rotate_after
    }

    fn rotate(&mut self, intents: usize) -> io::Result<()> {
        // First the new file with the space that intents were promised: without it the old one stays in use.
        let next = open(&self.directory.join(NEXT))?;
        next.set_len(0)?;
        let reserved = (intents * MAX_LINE) as u64 + OWN_LINES;
        if let Space::Until(_) = self.space {
            fallocate(&next, FallocateFlags::KEEP_SIZE, 0, reserved)?;
        }
        self.append(&[Entry::internal(Kind::Rotate)])?;
        Step::RotateBeforeRename.check()?;
        self.finish_rotation(next, reserved)
    }

    /// The current file ends with its `rotate` line: gives it its name for good and goes on in `next`.
    fn finish_rotation(&mut self, next: File, reserved: u64) -> io::Result<()> {
        let Some((first, _)) = self.begin else { return Ok(()) };
        let rotated = Rotated::at(&self.directory, first, self.head.n);
        // Gives the blocks behind the end back.
        self.file.set_len(self.good)?;
        fs::rename(self.directory.join(CURRENT), &rotated.path)?;
        self.older.push(rotated);
        self.expiry_after = None;
        (self.file, self.good, self.begin) = (next, 0, None);
        if let Space::Until(owned) = &mut self.space {
            *owned = reserved;
        }
        // Until the new file has its name, the next append would have to create it.
        self.state = State::Broken;
        Step::RotateAfterRename.check()?;
        fs::rename(self.directory.join(NEXT), self.directory.join(CURRENT))?;
        sync_directory(&self.directory)?;
        self.state = State::Good;
        self.stats.rotations.fetch_add(1, Relaxed);
        Ok(())
    }

    /// After a crash: the current file ends with a `rotate` line and was not renamed.
    pub(super) fn resume_rotation(&mut self) -> io::Result<()> {
        let next = open(&self.directory.join(NEXT))?;
        next.set_len(0)?;
        self.finish_rotation(next, 0)
    }

    /// Deletes the oldest files beyond what is to be kept, each after a checkpoint for it is on disk.
    fn expire(&mut self, intents: usize) -> io::Result<()> {
        while let Some(oldest) = self.older.first().cloned() {
            let bytes = files::last_line(&oldest.path)?;
            let line = Line::parse(&bytes).filter(|line| line.n == oldest.last);
            let line = line.ok_or_else(|| io::Error::other("the oldest file does not end as its name says"))?;
            let too_many = self.limits.keep_files.is_some_and(|keep| self.older.len() > keep);
            let too_old = self.limits.keep_for.is_some_and(|keep| elapsed(line.time) > keep);
            if !too_many && !too_old {
                break;
            }
            // A checkpoint vouches for the line, so it must be the one that the next file goes on from.
            if !self.is_followed(&line)? {
                return Err(io::Error::other("the oldest file does not fit the one after it: it is kept as evidence"));
            }
            let expired = Entry::internal(Kind::Expired).with("through", line.n);
            let expired = [expired.with("mac", Value::Name(line.mac.to_string()))];
            self.reserve(expired.iter(), 0, intents)?;
            self.append(&expired)?;
            Step::ExpireBeforeDelete.check()?;
            self.delete_oldest()?;
        }
        Ok(())
    }

    /// After a crash: `through` has its checkpoint, its file may still be there.
    pub(super) fn resume_expiry(&mut self, through: u64) -> io::Result<()> {
        while self.older.first().is_some_and(|oldest| oldest.last <= through) {
            self.delete_oldest()?;
        }
        Ok(())
    }

    fn delete_oldest(&mut self) -> io::Result<()> {
        if let Some(oldest) = self.older.first() {
            match fs::remove_file(&oldest.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            self.older.remove(0);
        }
        sync_directory(&self.directory)
    }

    fn is_followed(&self, last: &Line<'_>) -> io::Result<bool> {
        if self.head.n == last.n {
            return Ok(self.head.mac == last.mac);
        }
        let next = self.older.get(1).map_or_else(|| self.directory.join(CURRENT), |next| next.path.clone());
        let mut lines = files::Lines::new(File::open(next)?);
        let first = lines.next()?;
        let Some(files::Piece::Whole(first)) = first else { return Ok(false) };
        Ok(Line::parse(first).is_some_and(|first| first.n == last.n + 1 && first.follows(&self.key, last.mac)))
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Log").field("newest", &self.newest).finish_non_exhaustive()
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Zero when the clock was set back.
fn elapsed(since: Timestamp) -> Duration {
    Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default()
}
