//! A row per client in SQLite. One connection writes, because SQLite lets only one: it waits in line for less than
//! connections do that find the file locked and sleep.

use std::path::Path;
use std::sync::PoisonError;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use rusqlite::{Connection, params};
use tokio::sync::Mutex;

use crate::sqlite;

pub(crate) struct Table {
    /// One that is fair: with an ordinary mutex whoever has it takes it again, and the others wait for seconds.
    writer: Mutex<Connection>,
    readers: Vec<std::sync::Mutex<Connection>>,
}

const READ: &str = "SELECT revision, payload FROM floor WHERE client = ?1";

impl Table {
    pub(super) fn new(path: &Path, clients: usize, payload: &Bytes) -> Result<Table> {
        let writer = sqlite::open(path)?;
        writer.execute_batch(
            "CREATE TABLE floor (client INTEGER PRIMARY KEY, revision INTEGER NOT NULL, payload BLOB NOT NULL)",
        )?;
        for client in 0..clients {
            let insert = "INSERT INTO floor (client, revision, payload) VALUES (?1, 0, ?2)";
            writer.execute(insert, params![client.cast_signed(), payload.as_ref()])?;
        }
        sqlite::settle(&writer)?;
        let readers = (0..clients).map(|_| sqlite::open(path).map(std::sync::Mutex::new)).collect::<Result<_>>()?;
        Ok(Table { writer: Mutex::new(writer), readers })
    }

    pub(super) fn read(&self, client: usize) -> Result<()> {
        tokio::task::block_in_place(|| {
            let reader = self.readers.get(client).context("a client without a connection")?;
            let reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            std::hint::black_box(select(&reader, client)?);
            Ok(())
        })
    }

    pub(super) async fn rewrite(&self, client: usize, payload: &Bytes) -> Result<()> {
        let writer = self.writer.lock().await;
        tokio::task::block_in_place(|| {
            writer.execute_batch("BEGIN IMMEDIATE")?;
            let (revision, _) = std::hint::black_box(select(&writer, client)?);
            let update = "UPDATE floor SET revision = revision + 1, payload = ?3 WHERE client = ?1 AND revision = ?2";
            let row = params![client.cast_signed(), revision, payload.as_ref()];
            ensure!(writer.prepare_cached(update)?.execute(row)? == 1, "the row has another revision");
            writer.execute_batch("COMMIT")?;
            Ok(())
        })
    }
}

fn select(connection: &Connection, client: usize) -> Result<(i64, Vec<u8>)> {
    let mut statement = connection.prepare_cached(READ)?;
    Ok(statement.query_row([client.cast_signed()], |row| Ok((row.get(0)?, row.get(1)?)))?)
}
