//! Opening the file, and telling SQLite's errors apart.

use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::ffi::ErrorCode;
use rusqlite::{Connection, OpenFlags};

use crate::tx::{Failure, Fault};
use crate::{Engine, Error, SqliteConfig, Violation};

/// SQLite's own waiting for a lock; the rest of the deadline is spent in repetitions.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// Statements kept ready on each connection: more than this program has.
const STATEMENTS: usize = 256;

/// Opens the file for writing; creates it for its owner only.
pub(super) fn open(config: &SqliteConfig) -> Result<Connection, Error> {
    create(&config.path)?;
    let connection = connect(&config.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mode = patiently(config.deadline, || {
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0))
    });
    let mode = mode.map_err(|error| opening(&config.path, &error))?;
    if mode != "wal" {
        return Err(failed(&format!(
            "{} is on a file system that cannot keep a write-ahead log",
            config.path.display()
        )));
    }
    let pragmas = format!("PRAGMA synchronous = {}; PRAGMA foreign_keys = ON;", synchronous(config));
    connection.execute_batch(&pragmas).map_err(|error| opening(&config.path, &error))?;
    Ok(connection)
}

/// Opens the file for reading. It must exist.
pub(super) fn open_reader(config: &SqliteConfig) -> Result<Connection, Error> {
    // Read-write, because a reader may have to take part in recovery; `query_only` refuses all else.
    let connection = connect(&config.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.execute_batch("PRAGMA query_only = ON").map_err(|error| opening(&config.path, &error))?;
    Ok(connection)
}

/// As many readers as the settings say.
pub(super) fn open_readers(config: &SqliteConfig) -> Result<Vec<Connection>, Error> {
    (0..config.readers.max(1)).map(|_| open_reader(config)).collect()
}

/// Repeats what another process has in its way, until `within` has passed.
pub(super) fn patiently<T>(within: Duration, mut act: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let give_up = Instant::now() + within;
    loop {
        match act() {
            Err(error) if is_busy(&error) && Instant::now() < give_up => sleep(Duration::from_millis(5)),
            other => return other,
        }
    }
}

/// What a failed statement means. SQLite's messages speak of names and syntax, never of bound values.
pub(super) fn fault(error: &rusqlite::Error) -> Fault {
    let message = match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Fault { error: Error::Conflict { attempts: 1 }, failure: Failure::Conflict }
        }
        Some(ErrorCode::ConstraintViolation) => Fault::last(violated(error, &message)),
        Some(ErrorCode::DiskFull) => Fault::last(Error::Full),
        Some(ErrorCode::ReadOnly) => Fault::last(Error::ReadOnly),
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::CannotOpen) => {
            Fault::last(Error::Unavailable { reason: message })
        }
        _ => Fault::last(Error::Sql { reason: message }),
    }
}

pub(super) fn failed(reason: &str) -> Error {
    Error::Open { engine: Engine::Sqlite, reason: reason.to_owned() }
}

fn violated(error: &rusqlite::Error, message: &str) -> Error {
    use rusqlite::ffi;
    let violation = match error.sqlite_error().map(|error| error.extended_code) {
        Some(ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY) => Violation::Unique,
        Some(ffi::SQLITE_CONSTRAINT_FOREIGNKEY) => Violation::ForeignKey,
        Some(ffi::SQLITE_CONSTRAINT_NOTNULL) => Violation::NotNull,
        Some(ffi::SQLITE_CONSTRAINT_CHECK) => Violation::Check,
        _ => Violation::Other,
    };
    // "UNIQUE constraint failed: table.column"
    let name = message.split_once(": ").map_or(message, |(_, name)| name);
    Error::Constraint { violation, name: name.to_owned() }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    // One thread at a time uses a connection, hence no mutex; names that look like URIs are file names.
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let connection = connection.map_err(|error| opening(path, &error))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| opening(path, &error))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

fn create(path: &Path) -> Result<(), Error> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        created.map_err(|error| failed(&format!("cannot create the directory {}: {error}", directory.display())))?;
    }
    // SQLite gives its log and index files the mode of the main file.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(&format!("cannot create {}: {error}", path.display()))),
    }
}

fn opening(path: &Path, error: &rusqlite::Error) -> Error {
    if is_busy(error) {
        return Error::Unavailable { reason: format!("{} is in use by another process", path.display()) };
    }
    failed(&format!("{}: {error}", path.display()))
}

#[cfg(not(feature = "testing"))]
fn synchronous(_config: &SqliteConfig) -> &'static str {
    "FULL"
}

#[cfg(feature = "testing")]
fn synchronous(config: &SqliteConfig) -> &'static str {
    match config.synchronous {
        crate::Synchronous::Full => "FULL",
        crate::Synchronous::Off => "OFF",
    }
}
