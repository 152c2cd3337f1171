//! The head of each log in the database: number and code of its newest line, so that a cut-off end is found.
//!
//! Each instance has its own row, because several processes with a log each may share one database. A head only ever
//! rises; a row that is ahead of its log is proof that lines are gone, or that somebody else writes under this name. Beside
//! the heads stands in which place each log lives, for a log that is gone with its name.

use std::path::Path;

use db::{Db, Migrations, params};

use super::error::Error;
use super::line::Head;
use super::place;

/// The table of heads; give it to [`Db::migrate`] before [`super::Audit::open`].
pub const MIGRATIONS: Migrations = Migrations {
    set: "audit",
    steps: &[
        "CREATE TABLE audit_heads (instance TEXT PRIMARY KEY, n BIGINT NOT NULL, mac TEXT NOT NULL, at BIGINT NOT NULL)",
        "CREATE TABLE audit_places (place TEXT PRIMARY KEY, instance TEXT NOT NULL)",
    ],
};

/// Whether the database has the table of heads at all; one that is new, or another's, has not.
pub async fn has_heads(db: &Db) -> Result<bool, db::Error> {
    db.has_table("audit_heads").await
}

/// The logs that the database remembers beside this one. With a database of its own a server has one log, so that any
/// other is one that was taken away whole.
pub async fn other_logs(db: &Db, instance: Option<&str>) -> Result<Vec<String>, db::Error> {
    let instance = instance.unwrap_or_default().to_owned();
    let sql = "SELECT instance FROM audit_heads WHERE instance <> $1 ORDER BY instance";
    db.read(move |tx| tx.query(sql, params![instance.as_str()])?.iter().map(|row| row.get(0)).collect()).await
}

/// Forgets the logs that [`other_logs`] finds: for an operator who has looked at it.
pub async fn forget_other_logs(db: &Db, instance: &str) -> Result<(), db::Error> {
    let instance = instance.to_owned();
    let sql = "DELETE FROM audit_heads WHERE instance <> $1";
    db.write(move |tx| tx.execute(sql, params![instance.as_str()]).map(|_| ())).await
}

/// The log that should be in this directory, there or not, as far as the database knows.
pub async fn should_be_in(db: &Db, directory: &Path) -> Result<Option<String>, Error> {
    // An older version may have left the database.
    if !db.has_table("audit_places").await? {
        return Ok(None);
    }
    Ok(log_at(db, &place::name(directory)?).await?)
}

/// The log that should be in the place of this name.
pub(super) async fn log_at(db: &Db, place: &str) -> Result<Option<String>, db::Error> {
    let row = db.look_up("SELECT instance FROM audit_places WHERE place = $1", params![place]).await?;
    row.map(|row| row.get(0)).transpose()
}

/// Remembers that the log lives in this place now, and in no other.
pub(super) async fn settle(db: &Db, place: &str, instance: &str) -> Result<(), db::Error> {
    let (place, instance) = (place.to_owned(), instance.to_owned());
    db.write(move |tx| {
        let params = params![place.as_str(), instance.as_str()];
        tx.execute("DELETE FROM audit_places WHERE place = $1 OR instance = $2", params)?;
        tx.execute("INSERT INTO audit_places (place, instance) VALUES ($1, $2)", params).map(|_| ())
    })
    .await
}

/// The head of one instance, as the database remembers it.
pub async fn read_head(db: &Db, instance: &str) -> Result<Option<Head>, db::Error> {
    let row = db.look_up("SELECT n, mac FROM audit_heads WHERE instance = $1", params![instance]).await?;
    let Some(row) = row else { return Ok(None) };
    let (n, mac): (i64, String) = (row.get(0)?, row.get(1)?);
    // A row that cannot be read is no head that any line fits, so that the check fails rather than passes.
    Ok(Some(Head { n: n.cast_unsigned(), mac: mac.parse().unwrap_or(super::line::Mac::ZERO) }))
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advanced {
    Done,
    /// The row names a newer line, or another one with this number.
    Overtaken,
}

/// How safe a head must be before it counts as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The database has it, and the end of this process does not undo it.
    Noted,
    OnDisk,
}

pub(super) async fn advance(db: &Db, instance: &str, head: Head, record: Record) -> Result<Advanced, db::Error> {
    let at = jiff::Timestamp::now().as_millisecond();
    let sql = "INSERT INTO audit_heads (instance, n, mac, at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (instance) DO UPDATE SET n = excluded.n, mac = excluded.mac, at = excluded.at \
               WHERE excluded.n > audit_heads.n";
    let params = params![instance, head.n.cast_signed(), head.mac.to_string(), at].to_vec();
    let changed = match record {
        Record::Noted => db.note(sql, params).await,
        Record::OnDisk => db.swap(sql, params).await,
    };
    match changed {
        Ok(0) => {}
        Ok(_) => return Ok(Advanced::Done),
        // The answer was lost: what is there tells.
        Err(db::Error::UnknownOutcome { operation }) => match read_head(db, instance).await? {
            Some(known) if known.n >= head.n => {}
            _ => return Err(db::Error::UnknownOutcome { operation }),
        },
        Err(error) => return Err(error),
    }
    // The answer to an earlier attempt may have been lost.
    let known = read_head(db, instance).await?;
    Ok(if known == Some(head) { Advanced::Done } else { Advanced::Overtaken })
}
