//! The data directory: one process at a time, nobody else's eyes.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cli::failure::{Exit, Failure};

/// A data directory that this process holds; released with the process, however it ends.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory (0700) if need be and takes its lock.
    pub(crate) fn open(path: &Path) -> Result<DataDir> {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
        created.with_context(|| format!("failed to create the data directory {}", path.display()))?;
        let lock_file = path.join("lock");
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&lock_file);
        let mut lock = options.with_context(|| format!("failed to open {}", lock_file.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                let message = format!("the data directory {} is in use by process {}", path.display(), holder.trim());
                return Err(Failure::new(Exit::Conflict, message, "stop it, or choose another with --data-dir").into());
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("failed to lock {}", lock_file.display()));
            }
        }
        lock.set_len(0)?;
        lock.rewind()?;
        writeln!(lock, "{}", std::process::id())?;
        Ok(DataDir { path: path.to_owned(), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a directory that only we may enter, unless it is there.
pub(crate) fn private(path: &Path) -> Result<()> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.with_context(|| format!("failed to create the directory {}", path.display()))
}

/// Writes a file that only we may read: whole or not at all, and on disk when this returns.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> Result<()> {
    let failed = || format!("failed to write {}", path.display());
    let temporary = path.with_extension("new");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).with_context(failed)?;
    file.write_all(contents).and_then(|()| file.sync_all()).with_context(failed)?;
    fs::rename(&temporary, path).with_context(failed)?;
    let parent = path.parent().unwrap_or(Path::new("."));
    File::open(parent).and_then(|directory| directory.sync_all()).with_context(failed)
}
