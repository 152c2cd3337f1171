//! SQLite and PostgreSQL: one row per head, one per chunk, each change one transaction.
//!
//! The revision of a head is the random id of its last change, so that a state that was removed and made again is never
//! taken for the old one.

use bytes::Bytes;
use db::{Db, Engine, Row, Tx, params};
use jiff::Timestamp;
use uuid::Uuid;

use super::{
    Answer, ChunkId, Expect, Found, Limits, Resource, Revision, STATES, Store, StoreError, Stray, Swapped, head_text,
    parse_head,
};
use crate::head::Head;
use crate::key::Key;

pub const MIGRATIONS: db::Migrations = db::Migrations {
    set: "states",
    steps: &["
CREATE TABLE state_heads (
    namespace TEXT NOT NULL, name TEXT NOT NULL, revision TEXT NOT NULL, head BYTEA NOT NULL,
    PRIMARY KEY (namespace, name)
);
CREATE TABLE state_chunks (
    upload TEXT NOT NULL, number BIGINT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    deadline BIGINT NOT NULL, bytes BYTEA NOT NULL,
    PRIMARY KEY (upload, number)
);
CREATE INDEX state_chunks_by_deadline ON state_chunks (deadline);
"],
};

/// The server's own database as a store.
#[derive(Clone, Debug)]
pub struct SqlStore {
    db: Db,
}

impl SqlStore {
    /// The database must have been migrated by [`MIGRATIONS`].
    pub fn new(db: Db) -> SqlStore {
        SqlStore { db }
    }
}

impl Store for SqlStore {
    fn name(&self) -> &'static str {
        match self.db.engine() {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
        }
    }

    fn resource(&self) -> Resource {
        STATES
    }

    fn limits(&self) -> Limits {
        // Every LOCK and UNLOCK writes the head anew: a bigger one would cost more than reading a chunk.
        Limits { inline: 32 << 10, inline_history: 32 << 10, inline_history_most: 1 << 20, chunk: 1 << 20, room: None }
    }

    fn read_head<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Found>> {
        Box::pin(async move {
            let sql = "SELECT revision, head FROM state_heads WHERE namespace = $1 AND name = $2";
            let found = self.db.look_up(sql, params![key.namespace(), key.name()]).await;
            let Some(row) = found.map_err(failed)? else { return Ok(None) };
            let head = parse_head(row.bytes(1).map_err(damaged)?)?;
            Ok(Some(Found { head, revision: Revision(column(&row, 0)?) }))
        })
    }

    fn write_head<'a>(&'a self, key: &'a Key, head: &'a Head, expected: &'a Expect) -> Answer<'a, Swapped> {
        Box::pin(async move {
            let (revision, text) = (head.operation().to_string(), head_text(head)?);
            let (namespace, name, written) = (key.namespace(), key.name(), Revision(revision.clone()));
            // What became of a swap whose answer was lost is seen by the operations that the head names.
            let swap = match expected {
                Expect::Nothing => self.db.swap(
                    "INSERT INTO state_heads (namespace, name, revision, head) VALUES ($1, $2, $3, $4) \
                     ON CONFLICT (namespace, name) DO NOTHING",
                    vec![namespace.into(), name.into(), revision.into(), text.into()],
                ),
                Expect::Revision(Revision(seen)) => self.db.swap(
                    "UPDATE state_heads SET revision = $3, head = $4 \
                     WHERE namespace = $1 AND name = $2 AND revision = $5",
                    vec![namespace.into(), name.into(), revision.into(), text.into(), seen.as_str().into()],
                ),
            };
            swapped(swap.await)?;
            Ok(Swapped::AsGiven(written))
        })
    }

    fn delete_head<'a>(&'a self, key: &'a Key, expected: &'a Revision) -> Answer<'a, ()> {
        let (key, expected) = (key.clone(), expected.clone());
        Box::pin(async move {
            let delete = move |tx: &mut Tx<'_>| {
                let sql = "DELETE FROM state_heads WHERE namespace = $1 AND name = $2 AND revision = $3";
                tx.execute(sql, params![key.namespace(), key.name(), expected.0.as_str()])
            };
            swapped(self.db.write(delete).await)
        })
    }

    fn list<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Key>> {
        let namespace = namespace.map(str::to_owned);
        Box::pin(async move {
            let rows = self.db.read(move |tx| match &namespace {
                Some(namespace) => {
                    let sql = "SELECT namespace, name FROM state_heads WHERE namespace = $1 ORDER BY name";
                    tx.query(sql, params![namespace])
                }
                None => tx.query("SELECT namespace, name FROM state_heads ORDER BY namespace, name", &[]),
            });
            rows.await.map_err(failed)?.iter().map(|row| key_of(row, 0)).collect()
        })
    }

    fn put_chunk<'a>(&'a self, chunk: &'a ChunkId, deadline: Timestamp, bytes: Bytes) -> Answer<'a, ()> {
        let chunk = chunk.clone();
        Box::pin(async move {
            let put = move |tx: &mut Tx<'_>| {
                let (upload, number) = (chunk.upload.to_string(), i64::from(chunk.number));
                let sql = "INSERT INTO state_chunks (upload, number, namespace, name, deadline, bytes) \
                           VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (upload, number) DO NOTHING";
                let (namespace, name) = (chunk.key.namespace(), chunk.key.name());
                let deadline = deadline.as_millisecond();
                tx.execute(sql, params![upload, number, namespace, name, deadline, bytes.as_ref()])
            };
            self.db.write(put).await.map(drop).map_err(failed)
        })
    }

    fn get_chunk<'a>(&'a self, chunk: &'a ChunkId) -> Answer<'a, Option<Bytes>> {
        let chunk = chunk.clone();
        Box::pin(async move {
            let row = self.db.read(move |tx| {
                let sql = "SELECT bytes FROM state_chunks WHERE upload = $1 AND number = $2 \
                           AND namespace = $3 AND name = $4";
                let (upload, number) = (chunk.upload.to_string(), i64::from(chunk.number));
                tx.query_opt(sql, params![upload, number, chunk.key.namespace(), chunk.key.name()])
            });
            let row = row.await.map_err(failed)?;
            row.map(|row| column::<Vec<u8>>(&row, 0).map(Bytes::from)).transpose()
        })
    }

    fn delete_chunks<'a>(&'a self, key: &'a Key, upload: Uuid) -> Answer<'a, ()> {
        let key = key.clone();
        Box::pin(async move {
            let delete = move |tx: &mut Tx<'_>| {
                let sql = "DELETE FROM state_chunks WHERE upload = $1 AND namespace = $2 AND name = $3";
                tx.execute(sql, params![upload.to_string(), key.namespace(), key.name()])
            };
            self.db.write(delete).await.map(drop).map_err(failed)
        })
    }

    fn uploads_before(&self, time: Timestamp) -> Answer<'_, Vec<Stray>> {
        Box::pin(async move {
            let rows = self.db.read(move |tx| {
                let sql = "SELECT namespace, name, upload, MAX(deadline) FROM state_chunks WHERE deadline < $1 \
                           GROUP BY namespace, name, upload ORDER BY namespace, name";
                tx.query(sql, params![time.as_millisecond()])
            });
            rows.await.map_err(failed)?.iter().map(stray).collect()
        })
    }
}

fn stray(row: &Row) -> Result<Stray, StoreError> {
    let damaged = |what: &str| StoreError::Damaged(format!("a chunk with a wrong {what}"));
    let upload = column::<String>(row, 2)?.parse().map_err(|_| damaged("upload id"))?;
    let deadline = Timestamp::from_millisecond(column(row, 3)?).map_err(|_| damaged("deadline"))?;
    Ok(Stray { key: key_of(row, 0)?, upload, deadline })
}

fn key_of(row: &Row, first: usize) -> Result<Key, StoreError> {
    let key = Key::new(column::<String>(row, first)?, column::<String>(row, first + 1)?);
    key.map_err(|error| StoreError::Damaged(error.to_string()))
}

fn column<T: db::FromValue>(row: &Row, index: usize) -> Result<T, StoreError> {
    row.get(index).map_err(damaged)
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` gives")]
fn damaged(error: db::Error) -> StoreError {
    StoreError::Damaged(error.to_string())
}

fn swapped(changed: Result<u64, db::Error>) -> Result<(), StoreError> {
    match changed.map_err(failed)? {
        0 => Err(StoreError::Conflict),
        _ => Ok(()),
    }
}

fn failed(error: db::Error) -> StoreError {
    match error {
        db::Error::UnknownOutcome { .. } => StoreError::Unknown(error.to_string()),
        other => StoreError::Unavailable(other.to_string()),
    }
}
