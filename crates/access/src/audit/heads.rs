//! The head of each log in the database: number and code of its newest line, so that a cut-off end is found.
//!
//! Each instance has its own row, because several processes with a log each may share one database. A head only ever
//! rises; a row that is ahead of its log is proof that lines are gone, or that somebody else writes under this name.

use db::{Db, Migrations, Tx, params};

use super::line::Head;

/// The table of heads; give it to [`Db::migrate`] before [`super::Audit::open`].
pub const MIGRATIONS: Migrations = Migrations {
    set: "audit",
    steps: &[
        "CREATE TABLE audit_heads (instance TEXT PRIMARY KEY, n BIGINT NOT NULL, mac TEXT NOT NULL, at BIGINT NOT NULL)",
    ],
};

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

/// The head of one instance, as the database remembers it.
pub async fn read_head(db: &Db, instance: &str) -> Result<Option<Head>, db::Error> {
    let instance = instance.to_owned();
    db.read(move |tx| select(tx, &instance)).await
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advanced {
    Done,
    /// The row names a newer line, or another one with this number.
    Overtaken,
}

pub(super) async fn advance(db: &Db, instance: &str, head: Head) -> Result<Advanced, db::Error> {
    let instance = instance.to_owned();
    db.write(move |tx| {
        match select(tx, &instance)? {
            // The answer to an earlier attempt was lost.
            Some(known) if known == head => return Ok(Advanced::Done),
            Some(known) if known.n >= head.n => return Ok(Advanced::Overtaken),
            _ => {}
        }
        let at = jiff::Timestamp::now().as_millisecond();
        tx.execute(
            "INSERT INTO audit_heads (instance, n, mac, at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (instance) DO UPDATE SET n = excluded.n, mac = excluded.mac, at = excluded.at \
             WHERE excluded.n > audit_heads.n",
            params![instance.as_str(), head.n.cast_signed(), head.mac.to_string(), at],
        )?;
        Ok(Advanced::Done)
    })
    .await
}

fn select(tx: &mut Tx<'_>, instance: &str) -> Result<Option<Head>, db::Error> {
    let row = tx.query_opt("SELECT n, mac FROM audit_heads WHERE instance = $1", params![instance])?;
    let Some(row) = row else { return Ok(None) };
    let (n, mac): (i64, String) = (row.get(0)?, row.get(1)?);
    // A row that cannot be read is no head that any line fits, so that the check fails rather than passes.
    Ok(Some(Head { n: n.cast_unsigned(), mac: mac.parse().unwrap_or(super::line::Mac::ZERO) }))
}
