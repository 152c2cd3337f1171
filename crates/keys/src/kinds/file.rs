//! A key in a file. It is looked at before every use and read again when it changed: a rotation needs no restart.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;

use super::Answer;
use super::local::{Source, Wanted};
use crate::error::Error;
use crate::key_file::{self, KeyFileError, Sharing};
use crate::versions::Versions;

/// File times are coarse: a file that changed this recently may change again without looking different.
const SETTLED: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(super) struct KeyFile {
    path: PathBuf,
    sharing: Sharing,
    read: Arc<Mutex<Option<Read>>>,
}

/// What was read, and what the file looked like then.
#[derive(Debug)]
struct Read {
    stamp: Stamp,
    versions: Arc<Versions>,
}

/// By what a change shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// Also changes with the mode.
    changed: (i64, i64),
}

impl KeyFile {
    pub(super) fn new(path: PathBuf, sharing: Sharing) -> KeyFile {
        KeyFile { path, sharing, read: Arc::default() }
    }

    /// Blocks for as long as a small file takes.
    fn current(&self) -> Result<Arc<Versions>, KeyFileError> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(Read { stamp, versions }), Ok(metadata)) = (&*read, std::fs::metadata(&self.path))
            && *stamp == Stamp::of(&metadata)
        {
            return Ok(versions.clone());
        }
        *read = None;
        let (versions, metadata) = key_file::load(&self.path, self.sharing)?;
        let versions = Arc::new(versions);
        if is_settled(&metadata) {
            *read = Some(Read { stamp: Stamp::of(&metadata), versions: versions.clone() });
        }
        Ok(versions)
    }
}

impl Source for KeyFile {
    fn versions<'a>(&'a self, name: &'a str, _wanted: Wanted<'a>) -> Answer<'a, Arc<Versions>> {
        async move {
            let file = self.clone();
            match tokio::task::spawn_blocking(move || file.current()).await {
                Ok(Ok(versions)) => Ok(versions),
                Ok(Err(error)) => Err(failure(name, &self.path, &error)),
                Err(_) => Err(Error::unavailable(name, "this process is stopping")),
            }
        }
        .boxed()
    }
}

fn failure(name: &str, path: &Path, error: &KeyFileError) -> Error {
    match error {
        KeyFileError::Io { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
            Error::refused(name, format!("{} is not readable for the user of this process", path.display()))
        }
        // Gone, or being replaced just now.
        KeyFileError::Io { .. } => Error::unavailable(name, error.to_string()),
        KeyFileError::Bad { .. } | KeyFileError::Busy { .. } => Error::refused(name, error.to_string()),
    }
}

fn is_settled(metadata: &Metadata) -> bool {
    let modified = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    modified.is_some_and(|age| age > SETTLED)
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
