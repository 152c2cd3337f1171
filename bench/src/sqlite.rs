//! The floor under everything that is kept: SQLite itself, by its bare binding and with the settings that `db` uses.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rusqlite::Connection;

/// Opens a file as `db` does: write-ahead log, every commit synced, foreign keys on.
pub(crate) fn open(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path).with_context(|| format!("failed to open {}", path.display()))?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    ensure!(mode == "wal", "{} is on a file system that cannot keep a write-ahead log", path.display());
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON")?;
    Ok(connection)
}

/// One row in a transaction of its own: what every durable write costs at least.
pub(crate) fn commit_one(connection: &Connection, sql: &str, row: (i64, &str)) -> Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.prepare_cached(sql)?.execute(row)?;
    connection.execute_batch("COMMIT")?;
    Ok(())
}
