//! Encryption at rest: no value and no context is in the database in the clear.
//!
//! The hub has data keys of its own in the table `hub_keys`, wrapped by a named key; the newest seals. Every document is
//! sealed under a key derived from one of them for that document alone, and bound to its record, version and part: what is
//! moved or exchanged in the database does not open. Rotation wraps the few data keys anew and touches nothing else.

use std::collections::HashMap;
use std::fmt;

use db::{Db, Row, Tx, params};
use jiff::Timestamp;
use keys::{DataKey, Keyring, Position, Wrapped};
use uuid::Uuid;

use crate::{Error, Json};

/// Which document of a record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Value,
    Context,
    /// The context of an entry in the journal.
    Intent,
    /// The remembered answer to a request.
    Answer,
}

/// The named key behind the hub's data keys.
#[derive(Clone, Debug)]
pub(crate) struct Sealing {
    db: Db,
    keyring: Keyring,
    name: String,
}

/// Every data key, ready for use: what a transaction needs, which can ask nobody.
#[derive(Clone)]
pub(crate) struct Unlocked {
    newest: Uuid,
    keys: HashMap<Uuid, DataKey>,
}

/// What a sealed document begins with: this format, the id of its data key, and what its own key is derived with.
const FORMAT: u8 = 1;
const ID: usize = 16;

impl Sealing {
    pub(crate) fn new(db: Db, keyring: Keyring, name: String) -> Sealing {
        Sealing { db, keyring, name }
    }

    /// Makes the first data key where there is none. Two processes may both make one: either is as good.
    pub(crate) async fn ensure(&self) -> Result<(), Error> {
        if !self.rows().await?.is_empty() {
            return Ok(());
        }
        let id = Uuid::now_v7();
        let (_key, wrapped) = self.keyring.generate(&self.name, &place_of_key(id)).await?;
        let text = serde_json::to_string(&wrapped).map_err(|error| Error::damaged("a key", error.to_string()))?;
        let at = Timestamp::now().as_millisecond();
        let insert = move |tx: &mut Tx<'_>| {
            tx.execute(
                "INSERT INTO hub_keys (id, wrapped, made_at) VALUES ($1, $2, $3)",
                params![id.to_string(), &text, at],
            )
        };
        self.db.write::<_, db::Error, _>(insert).await?;
        Ok(())
    }

    /// The data keys as they are now.
    pub(crate) async fn unlock(&self) -> Result<Unlocked, Error> {
        let mut keys = HashMap::new();
        let mut newest = None;
        for (id, wrapped) in self.rows().await? {
            keys.insert(id, self.keyring.unwrap(&wrapped, &place_of_key(id)).await?);
            newest = Some(id);
        }
        let newest = newest.ok_or_else(|| Error::damaged("the keys", "there is none"))?;
        Ok(Unlocked { newest, keys })
    }

    /// Wraps the data keys by the newest version of the named key, which may be another than before. Tells how many.
    pub(crate) async fn rewrap(&self) -> Result<usize, Error> {
        let mut count = 0;
        for (id, wrapped) in self.rows().await? {
            let Some(anew) = self.keyring.rewrap(&self.name, &wrapped, &place_of_key(id)).await? else { continue };
            let text = |wrapped: &Wrapped| {
                serde_json::to_string(wrapped).map_err(|error| Error::damaged("a key", error.to_string()))
            };
            let (anew, before, id) = (text(&anew)?, text(&wrapped)?, id.to_string());
            let swap = move |tx: &mut Tx<'_>| {
                let sql = "UPDATE hub_keys SET wrapped = $1 WHERE id = $2 AND wrapped = $3";
                tx.execute(sql, params![&anew, &id, &before])
            };
            count += usize::from(self.db.write::<_, db::Error, _>(swap).await? > 0);
        }
        Ok(count)
    }

    /// The oldest first.
    async fn rows(&self) -> Result<Vec<(Uuid, Wrapped)>, Error> {
        let rows = self.db.read(|tx| tx.query("SELECT id, wrapped FROM hub_keys ORDER BY made_at, id", &[]));
        let read = |row: &Row| {
            let (id, wrapped): (String, String) = (row.get(0)?, row.get(1)?);
            let damaged = || Error::damaged("a key", "it cannot be read");
            let id = Uuid::try_parse(&id).map_err(|_| damaged())?;
            Ok((id, serde_json::from_str(&wrapped).map_err(|_| damaged())?))
        };
        rows.await.map_err(|error: db::Error| error)?.iter().map(read).collect()
    }
}

impl Unlocked {
    pub(crate) fn seal(&self, record: &str, version: u32, part: Part, document: &Json) -> Result<Vec<u8>, Error> {
        let key = self.keys.get(&self.newest).ok_or_else(|| Error::damaged("the keys", "there is none"))?;
        let own = Uuid::new_v4();
        let plain = document.text().as_bytes().to_vec();
        let sealed = key.stream(own.as_bytes()).seal(0, Position::Last, &place(record, version, part), plain)?;
        let mut bytes = Vec::with_capacity(1 + 2 * ID + sealed.len());
        bytes.push(FORMAT);
        bytes.extend(self.newest.as_bytes());
        bytes.extend(own.as_bytes());
        bytes.extend(sealed);
        Ok(bytes)
    }

    pub(crate) fn open(&self, record: &str, version: u32, part: Part, bytes: &[u8]) -> Result<Json, Error> {
        let damaged = |fault: &str| Error::damaged(format!("record {record}"), fault);
        let id = |range: std::ops::Range<usize>| bytes.get(range).and_then(|bytes| Uuid::from_slice(bytes).ok());
        let (Some(&FORMAT), Some(key), Some(own)) = (bytes.first(), id(1..1 + ID), id(1 + ID..1 + 2 * ID)) else {
            return Err(damaged("a document has an unknown form"));
        };
        let key = self.keys.get(&key).ok_or_else(|| damaged("its key is not there"))?;
        let sealed = bytes[1 + 2 * ID..].to_vec();
        let plain = key.stream(own.as_bytes()).open(0, Position::Last, &place(record, version, part), sealed)?;
        let text = String::from_utf8(plain).map_err(|_| damaged("a document is not text"))?;
        Json::parse(&text).map_err(|_| damaged("a document is not JSON"))
    }
}

/// Where a document is, unambiguously: each part with its length.
fn place(record: &str, version: u32, part: Part) -> Vec<u8> {
    let part: &[u8] = match part {
        Part::Value => b"value of a record",
        Part::Context => b"context of a record",
        Part::Intent => b"context of an intent",
        Part::Answer => b"answer to a request",
    };
    let mut place = Vec::new();
    for piece in [part, record.as_bytes(), &version.to_be_bytes()] {
        place.extend((piece.len() as u64).to_be_bytes());
        place.extend(piece);
    }
    place
}

fn place_of_key(id: Uuid) -> Vec<u8> {
    [b"data key of the hub ", id.as_bytes().as_slice()].concat()
}

impl fmt::Debug for Unlocked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Unlocked").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}
