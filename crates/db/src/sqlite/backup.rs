//! Copying a database that is in use.
//!
//! All pages are copied in one step: a snapshot is held for as long, and writers are not stopped. The copy is one file
//! without a log. It gets its name last, by a link, which fails where a file has that name already.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError, hard_link, remove_file};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::StepResult;

use super::connection::{open_reader, patiently};
use crate::{Backup, Error, SqliteConfig, Step};

pub(super) fn run(config: &SqliteConfig, to: &Path) -> Result<Backup, Error> {
    let failed = |reason: String| Error::Backup { to: to.to_owned(), reason };
    let exists = || failed("there is a file of that name already".to_owned());
    if to.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let partial = Partial::claim(to).map_err(|error| match error {
        TryLockError::WouldBlock => failed("another back-up to that name is under way".to_owned()),
        TryLockError::Error(error) => failed(error.to_string()),
    })?;
    copy(config, &partial.path).map_err(failed)?;
    let finish = || {
        partial.file.sync_all()?;
        Step::BackupBeforeRename.check()?;
        hard_link(&partial.path, to)?;
        sync_directory(to)?;
        partial.file.metadata()
    };
    match finish() {
        Ok(metadata) => Ok(Backup { path: to.to_owned(), bytes: metadata.len() }),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists()),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The file that is being written. What a killed back-up left there is written over by the next.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    fn claim(to: &Path) -> Result<Partial, TryLockError> {
        let mut name = OsString::from(to);
        name.push(".partial");
        let path = PathBuf::from(name);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(TryLockError::Error)?;
        file.try_lock()?;
        file.set_len(0).map_err(TryLockError::Error)?;
        Ok(Partial { path, file })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Still locked: nobody else can have begun with it.
        let _ = remove_file(&self.path);
    }
}

fn copy(config: &SqliteConfig, to: &Path) -> Result<(), String> {
    let from = open_reader(config).map_err(|error| error.to_string())?;
    let mut copy = Connection::open(to).map_err(|error| error.to_string())?;
    let copied = patiently(config.deadline, || {
        let backup = rusqlite::backup::Backup::new(&from, &mut copy)?;
        match backup.step(-1)? {
            StepResult::Done => Ok(()),
            _ => Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)),
        }
    });
    copied.map_err(|error| format!("copying failed: {error}"))?;
    let check = || {
        // The pages say that there is a log; the copy shall be one file.
        copy.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))?;
        copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0))
    };
    match check() {
        Ok(answer) if answer == "ok" => {}
        Ok(answer) => return Err(format!("the copy is damaged: {answer}")),
        Err(error) => return Err(format!("checking the copy failed: {error}")),
    }
    copy.close().map_err(|(_, error)| error.to_string())
}

fn sync_directory(of: &Path) -> std::io::Result<()> {
    let directory = of.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
