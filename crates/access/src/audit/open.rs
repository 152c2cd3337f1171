//! Opening a log: instance, key, what a crash left, and the refusal of a log that was tampered with.
//!
//! A crash leaves three things: a half-written end that no head names (cut off, recorded as `torn`), a rotation
//! without its rename (finished), and a file that has its checkpoint (deleted). Everything else that does not fit is
//! tampering, which is never repaired: [`Tampering::Refuse`] reports it, [`Tampering::SetAside`] keeps the old files
//! as evidence in a directory of their own and begins a new segment whose first line, `restart`, says so.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest;
use jiff::Timestamp;
use uuid::Uuid;

use super::chain::Start;
use super::entry::{Entry, Kind, Value};
use super::error::{Doing, Error};
use super::failpoints::Step;
use super::files::{self, CURRENT, INSTANCE, Lines, NEXT, Piece};
use super::key::{self, Key};
use super::line::{Head, Line, checkpoint};
use super::log::Log;
use super::report::Finding;
use super::verify::{Scan, scan};
use super::{Config, Stats};
use crate::hex;

/// What to do with a log that was tampered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tampering {
    Refuse,
    /// Also when it has less than this head, which somebody else remembers.
    SetAside(Head),
}

/// The name of this log in the database, and the lock that keeps others off while it is held.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) id: String,
    /// Held until the writer has ended; never read.
    _lock: File,
    key: Arc<Key>,
    /// Set when something belongs to a log that should be there and is not.
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Lost {
    reason: &'static str,
    /// The name of the log that is not there, if it is another one, or has none there.
    log: Option<String>,
}

/// Takes the directory, in which the database expects a log, and finds or makes the instance's name and key.
pub(super) fn claim(config: &Config, expected: Option<String>, tampering: Tampering) -> Result<Instance, Error> {
    let directory = &config.directory;
    DirBuilder::new().recursive(true).mode(0o700).create(directory).doing("create", directory)?;
    let lines = has_lines(directory).doing("list", directory)?;
    let path = directory.join(INSTANCE);
    let inside = read_id(&path).doing("read an id from", &path)?;
    let beside_path = beside(directory);
    let beside = read_id(&beside_path).doing("read an id from", &beside_path)?;
    let loaded = Key::load(&config.key_file).doing("read", &config.key_file)?;
    // The name comes before its copy and the key, and the key before the first line: what is there without its forerunner
    // was separated from it later.
    let gone = |reason, log| Some(Lost { reason, log });
    let lost = match (&inside, &beside, &loaded) {
        (None, Some(beside), _) => gone(TAKEN_AWAY, Some(beside.clone())),
        (Some(inside), Some(beside), _) if inside != beside => gone(TAKEN_AWAY, Some(beside.clone())),
        (None, _, _) if lines => gone("audit.instance is missing", expected),
        _ if expected.is_some() && expected != inside => gone(MISSED, expected),
        (_, _, None) if lines => gone("the key is missing", None),
        _ => None,
    };
    if let (Some(Lost { reason, log }), Tampering::Refuse) = (&lost, tampering) {
        let reason = log.as_ref().map_or((*reason).into(), |log| format!("{reason}: {log}").into());
        return Err(Error::Tampered { directory: directory.clone(), reason, evidence: Vec::new() });
    }
    let id = match (&inside, &beside) {
        (Some(inside), _) => inside.clone(),
        // Under the name that the database knows, so that numbers go on.
        (None, Some(beside)) => beside.clone(),
        // Also where the database expects another one: that may go on elsewhere, and must not be written by two.
        (None, None) => Uuid::new_v4().to_string(),
    };
    if inside.is_none() {
        key::write_new(&path, format!("{id}\n").as_bytes()).doing("write", &path)?;
    }
    let lock = File::open(&path).doing("open", &path)?;
    lock.try_lock().map_err(|_| Error::InUse { directory: directory.clone() })?;
    if beside.as_ref() != Some(&id) {
        let _ = fs::remove_file(&beside_path);
        key::write_new(&beside_path, format!("{id}\n").as_bytes()).doing("write", &beside_path)?;
    }
    Step::CreateBeforeKey.hit();
    let key = match loaded {
        Some(key) => key,
        None => Key::create(&config.key_file).doing("create", &config.key_file)?,
    };
    Ok(Instance { id, _lock: lock, key: Arc::new(key), lost })
}

/// Brings the files in order and gives the log with the lines to begin with.
pub(super) fn recover(
    config: &Config,
    instance: &Instance,
    stats: &Arc<Stats>,
    head: Head,
    tampering: Tampering,
) -> Result<(Log, Vec<Entry>), Error> {
    let directory = &config.directory;
    let mut state = match &instance.lost {
        Some(lost) => State { reason: Some(lost.reason), ..State::default() },
        None => examine(directory, &instance.key, head).doing("read the log in", directory)?,
    };
    let remembered = match tampering {
        Tampering::Refuse => Head::NONE,
        Tampering::SetAside(remembered) => remembered,
    };
    if remembered.is_missing_from(state.end) {
        state.reason.get_or_insert("the Lease remembers lines that are not there");
    }
    let resume = |good, head, begin| {
        let (directory, key) = (directory.clone(), Arc::clone(&instance.key));
        Log::resume(directory, key, config.limits.clone(), Arc::clone(stats), good, head, begin)
    };
    let start = Entry::internal(Kind::Start).with("instance", Value::name(&instance.id));
    let start = start.with("key", Value::name(instance.key.id()));
    if state.reason.is_some() || !state.evidence.is_empty() {
        let reason = state.reason.unwrap_or("lines do not fit");
        tracing::error!(findings = state.evidence.len(), reason, "the audit log was tampered with");
        if tampering == Tampering::Refuse {
            let (directory, reason) = (directory.clone(), reason.into());
            return Err(Error::Tampered { directory, reason, evidence: state.evidence });
        }
        let aside = set_aside(directory).doing("set aside the log in", directory)?;
        // The number goes on, so that a head never falls; the chain begins anew.
        let n = head.n.max(state.end.n).max(remembered.n);
        let log = resume(0, Head { n, ..Head::NONE }, None).doing("begin a new log in", directory)?;
        let restart = Entry::internal(Kind::Restart).with("evidence", Value::name(&files::display_name(&aside)));
        let restart = restart.with("reason", reason).with("findings", state.evidence.len() as u64);
        let missing = instance.lost.as_ref().and_then(|lost| lost.log.as_ref());
        let restart = missing.into_iter().fold(restart, |restart, log| restart.with("missing", Value::name(log)));
        return Ok((log, vec![restart, start]));
    }
    let mut first = Vec::new();
    first.extend(record_torn(directory, &state).doing("read the end of", directory.join(CURRENT))?);
    let mut log = resume(state.good, state.end, state.begin).doing("resume", directory.join(CURRENT))?;
    if !first.is_empty() {
        Step::TornBeforeRecord.hit();
    }
    if state.ends_with_rotate {
        log.resume_rotation().doing("finish the rotation in", directory)?;
    }
    if let Some(through) = state.expired {
        log.resume_expiry(through).doing("finish the expiry in", directory)?;
    }
    match fs::remove_file(directory.join(NEXT)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).doing("remove", directory.join(NEXT));
        }
        _ => {}
    }
    first.push(start);
    Ok((log, first))
}

/// What the files say.
struct State {
    end: Head,
    good: u64,
    length: u64,
    begin: Option<(u64, Timestamp)>,
    ends_with_rotate: bool,
    expired: Option<u64>,
    evidence: Vec<Finding>,
    reason: Option<&'static str>,
}

impl Default for State {
    fn default() -> State {
        State {
            end: Head::NONE,
            good: 0,
            length: 0,
            begin: None,
            ends_with_rotate: false,
            expired: None,
            evidence: Vec::new(),
            reason: None,
        }
    }
}

fn examine(directory: &Path, key: &Key, head: Head) -> io::Result<State> {
    let mut state = State::default();
    let mut start = Start::Unknown;
    if let Some(newest) = files::rotated(directory)?.last() {
        let bytes = files::last_line(&newest.path)?;
        match Line::parse(&bytes).filter(|line| line.n == newest.last) {
            Some(line) => start = Start::After(line.head()),
            None => state.reason = Some("the newest rotated file does not end as its name says"),
        }
    }
    let path = directory.join(CURRENT);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => File::open("/dev/null")?,
        opened => opened?,
    };
    let Scan { report, good, length } = scan(file, key, start, head)?;
    (state.end, state.good, state.length) = (report.last.unwrap_or(Head::NONE), good, length);
    state.evidence = report.evidence().cloned().collect();
    if report.lines > 0 {
        let last = current_lines(&path, good, &mut state)?;
        state.ends_with_rotate = last == Some(Kind::Rotate);
    }
    Ok(state)
}

/// Reads what a start must know from lines that were proved right: when the file began, the last checkpoint.
fn current_lines(path: &Path, good: u64, state: &mut State) -> io::Result<Option<Kind>> {
    let mut lines = Lines::new(File::open(path)?.take(good));
    let mut last = None;
    while let Some(piece) = lines.next()? {
        let Piece::Whole(text) = piece else { continue };
        let Some(line) = Line::parse(text) else { continue };
        state.begin.get_or_insert((line.n, line.time));
        if line.kind == Kind::Expired {
            state.expired = checkpoint(&line.more()).map(|head| head.n).or(state.expired);
        }
        last = Some(line.kind);
    }
    Ok(last)
}

/// Length and hash of what is about to be cut off.
fn record_torn(directory: &Path, state: &State) -> io::Result<Option<Entry>> {
    if state.length == state.good {
        return Ok(None);
    }
    let file = File::open(directory.join(CURRENT))?;
    let mut context = digest::Context::new(&digest::SHA256);
    let (mut at, mut buffer) = (state.good, vec![0; 64 * 1024]);
    loop {
        match file.read_at(&mut buffer, at)? {
            0 => break,
            read => {
                context.update(&buffer[..read]);
                at += read as u64;
            }
        }
    }
    let hash = hex(context.finish().as_ref());
    tracing::warn!(bytes = at - state.good, "the end of the audit log was half written and is cut off");
    let torn = Entry::internal(Kind::Torn).with("bytes", at - state.good);
    Ok(Some(torn.with("sha256", Value::name(&hash))))
}

fn has_lines(directory: &Path) -> io::Result<bool> {
    let current = fs::metadata(directory.join(CURRENT)).is_ok_and(|metadata| metadata.len() > 0);
    Ok(current || !files::rotated(directory)?.is_empty())
}

/// Moves every file of the log into a new directory beside it. Cut short by a crash, it is asked for again.
fn set_aside(directory: &Path) -> io::Result<PathBuf> {
    let aside = directory.join(format!("evidence-{}", Timestamp::now().as_millisecond()));
    DirBuilder::new().mode(0o700).create(&aside)?;
    let rotated = files::rotated(directory)?.into_iter().map(|file| file.path);
    for path in rotated.chain([directory.join(CURRENT)]) {
        match fs::rename(&path, aside.join(files::display_name(&path))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    key::sync_directory(&aside)?;
    key::sync_directory(directory)?;
    Ok(aside)
}

/// The name under which the log in `directory` has its head in the database; none if there is no log.
pub fn read_instance(directory: &Path) -> io::Result<Option<String>> {
    read_id(&directory.join(INSTANCE))
}

/// The name of the log that was in `directory` and is not there any more, as its copy beside the directory has it.
pub fn missing_instance(directory: &Path) -> io::Result<Option<String>> {
    let (inside, beside) = (read_instance(directory)?, read_id(&beside(directory))?);
    Ok(beside.filter(|beside| inside.as_ref() != Some(beside)))
}

const TAKEN_AWAY: &str = "audit.instance beside it names a log that is not in the data directory";

const MISSED: &str = "the database remembers a log of this place that is not in the data directory";

/// Where the copy of the name is: it stays when the directory is taken away.
fn beside(directory: &Path) -> PathBuf {
    directory.with_added_extension("instance")
}

fn read_id(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(id) => Ok(Some(Uuid::parse_str(id.trim()).map_err(io::Error::other)?.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
