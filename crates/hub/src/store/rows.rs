//! Rows of the tables as what they mean.

use db::{Row, Tx, Value, params};
use jiff::Timestamp;

use super::{CHUNK, places};
use crate::model::{AttributeRef, Lock, Place, Record, TypeRef};
use crate::rules::deletion::Usage;
use crate::seal::{Part, Unlocked};
use crate::{Error, Json};

/// Selects what [`record`] reads.
pub(crate) const RECORDS: &str = "SELECT r.id, r.name, r.namespace, r.type_path, r.type_revision, r.backend, r.created_at, \
     r.latest, r.place, l.owner, l.since, l.expires, r.storage FROM hub_records r LEFT JOIN hub_locks l ON l.record = r.id";

pub(crate) fn record(row: &Row) -> Result<Record, Error> {
    let id: String = row.get(0)?;
    let (path, revision): (String, String) = (row.get(3)?, row.get(4)?);
    let lock = match row.get::<Option<String>>(9)? {
        None => None,
        Some(owner) => {
            let expires: Option<i64> = row.get(11)?;
            Some(Lock { owner, since: moment(row.get(10)?)?, expires: expires.map(moment).transpose()? })
        }
    };
    Ok(Record {
        name: row.get(1)?,
        namespace: row.get(2)?,
        type_ref: TypeRef { path: parsed(&path)?, revision: parsed(&revision)? },
        backend: row.get(5)?,
        storage: row.get::<i64>(12)? != 0,
        created_at: moment(row.get(6)?)?,
        latest: number(row.get(7)?)?,
        lock,
        place: Place::from_bytes(row.get(8)?),
        id,
    })
}

/// The records of these ids, in no order; ids that name none are left out.
pub(crate) fn records(tx: &mut Tx<'_>, ids: &[String]) -> Result<Vec<Record>, Error> {
    let mut found = Vec::with_capacity(ids.len());
    for ids in ids.chunks(CHUNK) {
        let sql = format!("{RECORDS} WHERE r.id IN ({})", places(1, ids.len()));
        for row in tx.query(&sql, &values(ids))? {
            found.push(record(&row)?);
        }
    }
    Ok(found)
}

/// What uses these records.
pub(crate) fn usages(tx: &mut Tx<'_>, ids: &[String]) -> Result<Vec<Usage>, Error> {
    let mut found = Vec::new();
    for ids in ids.chunks(CHUNK) {
        let sql = format!("SELECT target, source FROM hub_relations WHERE target IN ({})", places(1, ids.len()));
        for row in tx.query(&sql, &values(ids))? {
            found.push(Usage { used: row.get(0)?, by: row.get(1)? });
        }
    }
    Ok(found)
}

pub(crate) fn attributes(tx: &mut Tx<'_>, record: &str, version: u32) -> Result<Vec<AttributeRef>, Error> {
    let sql = "SELECT path, revision FROM hub_attributes WHERE record = $1 AND number = $2 ORDER BY position";
    tx.query(sql, params![record, i64::from(version)])?.iter().map(|row| attribute(row, 0)).collect()
}

pub(crate) fn attribute(row: &Row, first: usize) -> Result<AttributeRef, Error> {
    let (path, revision): (String, String) = (row.get(first)?, row.get(first + 1)?);
    Ok(AttributeRef { path: parsed(&path)?, revision: parsed(&revision)? })
}

/// Writes a version with its attributes.
pub(crate) fn insert_version(tx: &mut Tx<'_>, record: &str, version: &NewVersion<'_>) -> Result<(), Error> {
    let NewVersion { number, created_by, created_at, attributes, value, context, has_value } = version;
    tx.execute(
        "INSERT INTO hub_versions (record, number, created_by, created_at, value, context, has_value) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        params![
            record,
            i64::from(*number),
            *created_by,
            created_at.as_microsecond(),
            value.as_deref(),
            context.as_deref(),
            has_value.map(i64::from)
        ],
    )?;
    for (position, attribute) in (0_i64..).zip(*attributes) {
        tx.execute(
            "INSERT INTO hub_attributes (record, number, position, path, revision) VALUES ($1, $2, $3, $4, $5)",
            params![record, i64::from(*number), position, attribute.path.as_str(), attribute.revision.as_str()],
        )?;
    }
    Ok(())
}

/// A version to be; its documents are sealed.
pub(crate) struct NewVersion<'a> {
    pub(crate) number: u32,
    pub(crate) created_by: Option<&'a str>,
    pub(crate) created_at: Timestamp,
    pub(crate) attributes: &'a [AttributeRef],
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) context: Option<Vec<u8>>,
    /// Whether it was given a value, here or outside; `None` where that is not known.
    pub(crate) has_value: Option<bool>,
}

pub(crate) fn moment(microseconds: i64) -> Result<Timestamp, Error> {
    Timestamp::from_microsecond(microseconds).map_err(|_| Error::damaged("a record", "a time is out of range"))
}

pub(crate) fn number(number: i64) -> Result<u32, Error> {
    u32::try_from(number).map_err(|_| Error::damaged("a record", "a version is out of range"))
}

pub(crate) fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::damaged("a record", "a path or revision cannot be read"))
}

pub(crate) fn values(texts: &[String]) -> Vec<Value> {
    texts.iter().map(Value::from).collect()
}

/// The column `has_value`.
pub(crate) fn has_value(row: &Row, column: usize) -> Result<Option<bool>, Error> {
    Ok(row.get::<Option<i64>>(column)?.map(|has| has != 0))
}

/// Whether the versions of a record have values, the oldest first.
pub(crate) fn values_of(tx: &mut Tx<'_>, record: &str) -> Result<Vec<Option<bool>>, Error> {
    let sql = "SELECT has_value FROM hub_versions WHERE record = $1 ORDER BY number";
    tx.query(sql, params![record])?.iter().map(|row| has_value(row, 0)).collect()
}

/// The context of a record's newest version.
pub(crate) fn latest_context(tx: &mut Tx<'_>, record: &Record, unlocked: &Unlocked) -> Result<Option<Json>, Error> {
    let sql = "SELECT context FROM hub_versions WHERE record = $1 AND number = $2";
    let row = tx.query_opt(sql, params![&record.id, i64::from(record.latest)])?;
    let sealed: Option<Vec<u8>> = row.map(|row| row.get(0)).transpose()?.flatten();
    sealed.map(|sealed| unlocked.open(&record.id, record.latest, Part::Context, &sealed)).transpose()
}
