//! The feed of changes: what happened to records, in the order in which it became visible, for all processes on a database.
//!
//! A change is written in the transaction that it tells of. On SQLite there is one writer, so that numbers are given in the
//! order of commits. On PostgreSQL the number is that of the transaction, and readers stop before the oldest one that is
//! still open: none appears behind a cursor that was handed out, and no writer waits for another.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use db::{Engine, Tx, params};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::hub::Hub;
use crate::model::Record;
use crate::store::rows::{moment, number};
use crate::{Error, Reason};

/// The tables that this module owns, as a part of a step of [`crate::MIGRATIONS`].
pub(crate) const TABLES: &str = "
CREATE TABLE hub_changes (
    sequence BIGINT NOT NULL, item BIGINT NOT NULL, record TEXT NOT NULL, namespace TEXT NOT NULL, kind TEXT NOT NULL,
    version BIGINT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (sequence, item)
);
CREATE INDEX hub_changes_by_age ON hub_changes (at);
CREATE TABLE hub_feed (one BIGINT PRIMARY KEY, forgotten BIGINT NOT NULL);
INSERT INTO hub_feed (one, forgotten) VALUES (1, -1);
";

/// A later step: how far into its transaction the last change was that is kept no more.
pub(crate) const FORGOTTEN_ITEM: &str = "ALTER TABLE hub_feed ADD COLUMN item BIGINT NOT NULL DEFAULT -1;";

/// What happened to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEvent {
    pub cursor: ChangeCursor,
    pub record: String,
    pub namespace: String,
    pub kind: ChangeKind,
    /// The newest version at that time.
    pub version: u32,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    Created,
    Updated,
    Deleted,
    Locked,
    Unlocked,
}

/// A place in the feed, as clients carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeCursor {
    sequence: i64,
    item: i64,
}

/// A change to be told.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    record: String,
    namespace: String,
    kind: ChangeKind,
    version: u32,
}

/// How numbers are given on this database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feed(pub(crate) Engine);

impl ChangeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeKind::Created => "created",
            ChangeKind::Updated => "updated",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Locked => "locked",
            ChangeKind::Unlocked => "unlocked",
        }
    }

    fn parse(text: &str) -> Result<ChangeKind, Error> {
        let all =
            [ChangeKind::Created, ChangeKind::Updated, ChangeKind::Deleted, ChangeKind::Locked, ChangeKind::Unlocked];
        let found = all.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| Error::damaged("the feed of changes", "a kind is unknown"))
    }
}

impl Event {
    pub(crate) fn new(record: &str, namespace: &str, kind: ChangeKind, version: u32) -> Event {
        Event { record: record.to_owned(), namespace: namespace.to_owned(), kind, version }
    }

    pub(crate) fn of(record: &Record, kind: ChangeKind) -> Event {
        Event::new(&record.id, &record.namespace, kind, record.latest)
    }
}

impl Feed {
    /// Writes what a transaction changed. Once in each transaction.
    pub(crate) fn write(self, tx: &mut Tx<'_>, now: Timestamp, events: &[Event]) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        let sequence = match self.0 {
            Engine::Sqlite => "SELECT COALESCE(MAX(sequence), 0) + 1 FROM hub_changes",
            Engine::Postgres => "SELECT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT)",
        };
        let row = tx.query_opt(sequence, &[])?;
        let row = row.ok_or_else(|| Error::damaged("the feed of changes", "it has no number"))?;
        let sequence: i64 = row.get(0)?;
        for (item, event) in (0_i64..).zip(events) {
            let Event { record, namespace, kind, version } = event;
            tx.execute(
                "INSERT INTO hub_changes (sequence, item, record, namespace, kind, version, at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                params![sequence, item, record, namespace, kind.as_str(), i64::from(*version), now.as_microsecond()],
            )?;
        }
        Ok(())
    }

    /// Makes the feed fit the database: one that was restored elsewhere counts its transactions from anew.
    pub(crate) fn mend(self, tx: &mut Tx<'_>) -> Result<(), Error> {
        if self.0 == Engine::Postgres {
            let next = "(SELECT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT))";
            tx.execute(&format!("DELETE FROM hub_changes WHERE sequence > {next}"), &[])?;
            tx.execute(&format!("UPDATE hub_feed SET forgotten = -1, item = -1 WHERE forgotten > {next}"), &[])?;
        }
        Ok(())
    }

    /// The first number that may still get company.
    fn open(self) -> &'static str {
        match self.0 {
            Engine::Sqlite => "(SELECT COALESCE(MAX(sequence), 0) + 1 FROM hub_changes)",
            Engine::Postgres => "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT)",
        }
    }
}

impl Hub {
    /// Changes after a place in the feed, oldest first; without one, from the oldest that is kept. One that the feed does
    /// not go back to is refused: list anew, from [`Hub::changes_end`].
    pub async fn changes_after(&self, after: Option<ChangeCursor>, limit: usize) -> Result<Vec<ChangeEvent>, Error> {
        let (sequence, item) = after.map_or((-1, -1), |cursor| (cursor.sequence, cursor.item));
        let sql = format!(
            "SELECT sequence, item, record, namespace, kind, version, at FROM hub_changes \
             WHERE (sequence > $1 OR sequence = $1 AND item > $2) AND sequence < {} ORDER BY sequence, item LIMIT {limit}",
            self.feed().open()
        );
        let read = move |tx: &mut Tx<'_>| {
            let forgotten = tx.query_opt("SELECT forgotten, item FROM hub_feed WHERE one = 1", &[])?;
            let forgotten =
                forgotten.map(|row| Ok::<_, Error>((row.get::<i64>(0)?, row.get::<i64>(1)?))).transpose()?;
            if after.is_some() && forgotten.is_some_and(|forgotten| (sequence, item) < forgotten) {
                return Err(Error::refused(Reason::Reset, BEHIND));
            }
            let rows = tx.query(&sql, params![sequence, item])?;
            let event = |row: &db::Row| {
                let (sequence, item): (i64, i64) = (row.get(0)?, row.get(1)?);
                Ok(ChangeEvent {
                    cursor: ChangeCursor { sequence, item },
                    record: row.get(2)?,
                    namespace: row.get(3)?,
                    kind: ChangeKind::parse(&row.get::<String>(4)?)?,
                    version: number(row.get(5)?)?,
                    at: moment(row.get(6)?)?,
                })
            };
            rows.iter().map(event).collect::<Result<Vec<_>, Error>>()
        };
        self.db().read(read).await
    }

    /// The end of the feed: what is changed from now on comes after it.
    pub async fn changes_end(&self) -> Result<ChangeCursor, Error> {
        let sql = format!("SELECT {} FROM (SELECT 1 AS one) AS once", self.feed().open());
        let read = move |tx: &mut Tx<'_>| {
            let row = tx.query_opt(&sql, &[])?;
            let row = row.ok_or_else(|| Error::damaged("the feed of changes", "it has no number"))?;
            Ok(ChangeCursor { sequence: row.get::<i64>(0)? - 1, item: i64::MAX })
        };
        self.db().read(read).await
    }

    /// Tells when this process has changed something. Changes by others are found by asking for them now and again, such as
    /// every [`crate::Times::poll`].
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.notifier().subscribe()
    }

    /// Forgets changes that are too old, or too many. The newest one stays, because the next number counts on from it.
    pub(crate) async fn forget_changes(&self) -> Result<(), Error> {
        let age = i64::try_from(self.settings().times.changes.as_micros()).unwrap_or(i64::MAX);
        let oldest = self.now().as_microsecond().saturating_sub(age);
        let any = "SELECT 1 FROM hub_changes WHERE at < $1 LIMIT 1";
        if self.db().look_up(any, params![oldest]).await?.is_some() {
            let old = "SELECT MAX(sequence) FROM hub_changes WHERE at < $1 \
                       AND sequence < (SELECT MAX(sequence) FROM hub_changes)";
            self.db().write(move |tx| forget(tx, old, params![oldest])).await?;
        }
        let most = self.settings().changes;
        if self.count_changes().await? > most {
            // More than needed, so that it is not done all the time.
            let kept = most - most / 10;
            let many = format!(
                "SELECT sequence FROM (SELECT sequence FROM hub_changes ORDER BY sequence DESC, item DESC LIMIT 1 OFFSET {kept}) \
                 AS surplus WHERE sequence < (SELECT MAX(sequence) FROM hub_changes)"
            );
            self.db().write(move |tx| forget(tx, &many, &[])).await?;
            self.counted().start_again();
        }
        Ok(())
    }

    /// How many changes there are, about. Only those that came since the last time are looked at.
    async fn count_changes(&self) -> Result<u64, Error> {
        let (up_to, known) = self.counted().get();
        let sql = "SELECT COUNT(*), MAX(sequence) FROM hub_changes WHERE sequence > $1";
        let Some(row) = self.db().look_up(sql, params![up_to]).await? else { return Ok(known) };
        let (new, last) = (u64::try_from(row.get::<i64>(0)?).unwrap_or_default(), row.get::<Option<i64>>(1)?);
        let count = known.saturating_add(new);
        self.counted().put(last.unwrap_or(up_to), count);
        Ok(count)
    }
}

/// What a reader is told that comes too late.
const BEHIND: &str = "after: the feed does not go back that far (the settings hub.changes_age and hub.changes_records); \
                      list the TypeInstances again and go on from now";

/// Removes what is up to the number that a statement gives, and remembers how far that is.
fn forget(tx: &mut Tx<'_>, up_to: &str, bound: &[db::Value]) -> Result<(), Error> {
    let last = tx.query_opt(up_to, bound)?;
    let Some(last) = last.map(|row| row.get::<Option<i64>>(0)).transpose()?.flatten() else { return Ok(()) };
    let sql = "UPDATE hub_feed SET forgotten = $1, \
               item = COALESCE((SELECT MAX(item) FROM hub_changes WHERE sequence = $1), -1) WHERE one = 1 AND forgotten < $1";
    tx.execute(sql, params![last])?;
    tx.execute("DELETE FROM hub_changes WHERE sequence <= $1", params![last])?;
    Ok(())
}

/// How many changes were counted, up to which number.
#[derive(Debug)]
pub(crate) struct Counted(Mutex<(i64, u64)>);

impl Default for Counted {
    fn default() -> Counted {
        Counted(Mutex::new((-1, 0)))
    }
}

impl Counted {
    fn get(&self) -> (i64, u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, up_to: i64, count: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (up_to, count);
    }

    /// Others forget changes, too: what was counted is counted anew when it matters.
    fn start_again(&self) {
        self.put(-1, 0);
    }
}

impl fmt::Display for ChangeCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.sequence, self.item)
    }
}

impl FromStr for ChangeCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<ChangeCursor, Error> {
        let numbers: Option<Vec<i64>> = text.split('.').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[sequence, item]) => Ok(ChangeCursor { sequence, item }),
            _ => Err(Error::invalid("after: it is no cursor of changes")),
        }
    }
}
