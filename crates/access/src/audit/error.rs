//! Why a log could not be opened or written. No variant carries a key, an entry or the text of a request.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use super::report::Finding;

/// Why the log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("failed to reach the head of the audit log in the database")]
    Database(#[from] db::Error),
    #[error("the audit log in {} is in use by another process", directory.display())]
    InUse { directory: PathBuf },
    #[error(
        "the audit log in {} is not what was written ({}): look at it with `stateward audit verify`; `stateward audit \
         accept` sets it aside as evidence and begins a new segment",
        directory.display(),
        evidence.first().map_or_else(|| reason.to_string(), ToString::to_string)
    )]
    Tampered { directory: PathBuf, reason: Cow<'static, str>, evidence: Vec<Finding> },
    #[error("the audit log ended before it could be opened")]
    Ended,
}

/// An entry that had to be on disk is not, or the database does not know it: the change must not be made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the audit log cannot be written: {reason}")]
pub struct AuditUnavailable {
    pub(super) reason: String,
}

/// Adds what was being done, and to what, to an IO error.
pub(super) trait Doing<T> {
    fn doing(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::Io { action, path: path.into(), source })
    }
}
