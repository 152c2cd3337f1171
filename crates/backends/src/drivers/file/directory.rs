//! The directory: files that are whole or not there, and one change of a record at a time.
//!
//! A change holds a lock of the kernel on a file in `.locks`, which goes with the process however it ends. Lock files stay:
//! whoever removed one would let two others hold it. Their number is bounded; records share them.

use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::record::Record;
use crate::{Code, Error, Failure};

const LOCKS: &str = ".locks";
const LOCK_FILES: u64 = 64;
/// How soon a lock that somebody holds is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(2);
const LONGEST_ID: usize = 128;

#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

/// A record that nobody else changes.
#[derive(Debug)]
pub(super) struct Held<'a> {
    directory: &'a Directory,
    id: &'a str,
    _lock: fs::File,
}

impl Directory {
    pub(super) fn open(path: PathBuf) -> Result<Directory, Error> {
        let at = path.clone();
        let failed = move |source| Error::Directory { path: at.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(&failed)?;
        let mode = fs::metadata(&path).map_err(&failed)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let fault = format!(
                "{} is open to others (mode {mode:o}): `chmod 700` it, or name one that is not there yet",
                path.display()
            );
            return Err(Error::Setting { name: "directory", fault });
        }
        DirBuilder::new().recursive(true).mode(0o700).create(path.join(LOCKS)).map_err(&failed)?;
        let directory = Directory { path };
        directory.sweep().map_err(&failed)?;
        Ok(directory)
    }

    /// Removes what a process left that ended while it wrote; a file that somebody writes now is locked, and stays.
    fn sweep(&self) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix('.')).and_then(|name| name.strip_suffix(".new"));
            let Some(id) = id.filter(|id| check_id(id).is_ok()) else { continue };
            let held = self.hold(id, Instant::now());
            if held.is_ok() {
                remove(&self.unfinished(id))?;
            }
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), Failure> {
        let failed = |error| Failure::new(Code::Unavailable, format!("the directory cannot be read: {error}"));
        fs::read_dir(&self.path).map(drop).map_err(failed)
    }

    pub(super) fn read(&self, id: &str) -> Result<Option<Record>, Failure> {
        check_id(id)?;
        let text = match fs::read_to_string(self.path.join(id)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(broken(id, "read", &error)),
        };
        let damaged = |line| {
            let text = format!("the file of TypeInstance \"{id}\" is damaged in line {line}: somebody else wrote it");
            Failure::new(Code::Internal, text)
        };
        Record::parse(&text).map(Some).map_err(damaged)
    }

    /// Waits for the record until the deadline; then nothing took place.
    pub(super) fn hold<'a>(&'a self, id: &'a str, deadline: Instant) -> Result<Held<'a>, Failure> {
        check_id(id)?;
        let path = self.path.join(LOCKS).join(lock_of(id).to_string());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(path).map_err(|error| broken(id, "lock", &error))?;
        let mut waited = false;
        loop {
            let held = lock.try_lock();
            let is_late = Instant::now() >= deadline;
            match held {
                Err(TryLockError::Error(error)) => return Err(broken(id, "lock", &error)),
                // Whoever waited too long for it may have been told already that nothing takes place.
                Ok(()) if !(waited && is_late) => return Ok(Held { directory: self, id, _lock: lock }),
                _ if is_late => {
                    let text = format!("the file of TypeInstance \"{id}\" is being changed by somebody else");
                    return Err(Failure::new(Code::DeadlineExceeded, text));
                }
                _ => std::thread::sleep(ASK_AGAIN),
            }
            waited = true;
        }
    }

    fn unfinished(&self, id: &str) -> PathBuf {
        self.path.join(format!(".{id}.new"))
    }

    fn sync(&self) -> std::io::Result<()> {
        fs::File::open(&self.path)?.sync_all()
    }
}

impl Held<'_> {
    pub(super) fn id(&self) -> &str {
        self.id
    }

    pub(super) fn read(&self) -> Result<Option<Record>, Failure> {
        self.directory.read(self.id)
    }

    /// The whole file anew, on disk when this returns.
    pub(super) fn write(&self, record: &Record) -> Result<(), Failure> {
        let unfinished = self.directory.unfinished(self.id);
        let written = || {
            remove(&unfinished)?;
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
            file.write_all(record.render().as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, self.directory.path.join(self.id))?;
            self.directory.sync()
        };
        written().map_err(|error| broken(self.id, "write", &error))
    }

    pub(super) fn remove(&self) -> Result<(), Failure> {
        let removed = || {
            remove(&self.directory.unfinished(self.id))?;
            remove(&self.directory.path.join(self.id))?;
            self.directory.sync()
        };
        removed().map_err(|error| broken(self.id, "remove", &error))
    }
}

/// FNV-1a: the same in every build, since processes of different builds may share a directory.
fn lock_of(id: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    id.bytes().fold(0xcbf2_9ce4_8422_2325, mix) % LOCK_FILES
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// An id becomes the name of a file: nothing in it may lead elsewhere, or to our own files, which begin with a dot.
fn check_id(id: &str) -> Result<(), Failure> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if id.is_empty() || id.len() > LONGEST_ID || id.starts_with('.') || !id.chars().all(plain) {
        let text = "type_instance_id: letters, digits, `-`, `_` and `.` only, no `.` at the beginning, at most 128";
        return Err(Failure::new(Code::InvalidArgument, text));
    }
    Ok(())
}

fn broken(id: &str, verb: &str, error: &std::io::Error) -> Failure {
    Failure::new(Code::Internal, format!("failed to {verb} the file of TypeInstance \"{id}\": {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_leads_out_of_the_directory_or_to_our_own_files() {
        for id in ["a", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "A_b.c", &"x".repeat(128)] {
            assert!(check_id(id).is_ok(), "{id}");
        }
        for id in ["", ".", "..", ".locks", ".a.new", "../a", "a/b", "/a", "a\\b", "a\0", "a b", "ä", &"x".repeat(129)]
        {
            assert_eq!(check_id(id).unwrap_err().code, Code::InvalidArgument, "{id}");
        }
    }
}
