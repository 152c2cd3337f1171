//! The floor under everything that is kept: SQLite itself, by its bare binding and with the settings that `db` uses.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use db::{Db, Migrations, params};
use rusqlite::Connection;

const FILLER: &str = "CREATE TABLE bench_filler (bytes BYTEA NOT NULL)";
const FILL: &str = "INSERT INTO bench_filler (bytes) VALUES ($1)";
/// Together twice the thousand pages after which SQLite folds its log into the file.
const FILL_ROWS: usize = 64;
const FILL_BYTES: usize = 128 * 1024;

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

/// Lets the write-ahead log reach its full size, so that from now on it is written over and no longer grown. A sync of
/// a file that grows also writes the file system's journal: measured on ext4, the same commits are 1.7 to 1.9 times
/// faster on a settled log. Without this, whichever side writes more pages settles first and seems to be the faster.
pub(crate) fn settle(connection: &Connection) -> Result<()> {
    connection.execute_batch(FILLER)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for _row in 0..FILL_ROWS {
        connection.execute(FILL, [vec![0_u8; FILL_BYTES]])?;
    }
    connection.execute_batch("COMMIT")?;
    Ok(())
}

/// The same through `db`.
pub(crate) async fn settle_through(db: &Db) -> Result<()> {
    db.migrate(&[Migrations { set: "bench_filler", steps: &[FILLER] }]).await?;
    let fill = |tx: &mut db::Tx<'_>| {
        (0..FILL_ROWS).try_for_each(|_| tx.execute(FILL, params![vec![0_u8; FILL_BYTES]]).map(drop))
    };
    Ok(db.write(fill).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_bytes(database: &Path) -> u64 {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        std::fs::metadata(log).unwrap().len()
    }

    /// Both sides of a comparison must be in the same state, or the ratio tells of that and not of the code.
    #[tokio::test]
    async fn settled_logs_of_both_sides_are_written_over_and_do_not_grow() {
        let directory = tempfile::tempdir().unwrap();
        let (ours, theirs) = (directory.path().join("ours.db"), directory.path().join("theirs.db"));
        let db = Db::open(db::Config::sqlite(&ours)).await.unwrap();
        settle_through(&db).await.unwrap();
        let bare = open(&theirs).unwrap();
        settle(&bare).unwrap();
        let before = (log_bytes(&ours), log_bytes(&theirs));
        assert!(before.0.min(before.1) > 4 << 20, "{before:?}");
        for number in 0..20_i64 {
            db.write(move |tx| tx.execute(FILL, params![number.to_be_bytes().to_vec()])).await.unwrap();
            bare.execute(FILL, [number.to_be_bytes()]).unwrap();
        }
        assert_eq!((log_bytes(&ours), log_bytes(&theirs)), before);
        db.close().await;
    }
}
