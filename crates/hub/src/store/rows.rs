//! Rows of the tables as what they mean.

use db::{Row, Tx, Value, params};
use jiff::Timestamp;

use super::{CHUNK, places};
use crate::Error;
use crate::model::{AttributeRef, Lock, Place, Record, TypeRef};
use crate::rules::deletion::Usage;

/// Selects what [`record`] reads.
pub(super) const RECORDS: &str = "SELECT r.id, r.name, r.namespace, r.type_path, r.type_revision, r.backend, r.created_at, \
     r.latest, r.place, l.owner, l.since, l.expires FROM hub_records r LEFT JOIN hub_locks l ON l.record = r.id";

pub(super) fn record(row: &Row) -> Result<Record, Error> {
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
        created_at: moment(row.get(6)?)?,
        latest: number(row.get(7)?)?,
        lock,
        place: Place::from_bytes(row.get(8)?),
        id,
    })
}

/// The records of these ids, in no order; ids that name none are left out.
pub(super) fn records(tx: &mut Tx<'_>, ids: &[String]) -> Result<Vec<Record>, Error> {
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
pub(super) fn usages(tx: &mut Tx<'_>, ids: &[String]) -> Result<Vec<Usage>, Error> {
    let mut found = Vec::new();
    for ids in ids.chunks(CHUNK) {
        let sql = format!("SELECT target, source FROM hub_relations WHERE target IN ({})", places(1, ids.len()));
        for row in tx.query(&sql, &values(ids))? {
            found.push(Usage { used: row.get(0)?, by: row.get(1)? });
        }
    }
    Ok(found)
}

pub(super) fn attributes(tx: &mut Tx<'_>, record: &str, version: u32) -> Result<Vec<AttributeRef>, Error> {
    let sql = "SELECT path, revision FROM hub_attributes WHERE record = $1 AND number = $2 ORDER BY position";
    tx.query(sql, params![record, i64::from(version)])?.iter().map(|row| attribute(row, 0)).collect()
}

pub(super) fn attribute(row: &Row, first: usize) -> Result<AttributeRef, Error> {
    let (path, revision): (String, String) = (row.get(first)?, row.get(first + 1)?);
    Ok(AttributeRef { path: parsed(&path)?, revision: parsed(&revision)? })
}

/// Writes a version with its attributes.
pub(super) fn insert_version(tx: &mut Tx<'_>, record: &str, version: &NewVersion<'_>) -> Result<(), Error> {
    let NewVersion { number, created_by, created_at, attributes, value, context } = version;
    tx.execute(
        "INSERT INTO hub_versions (record, number, created_by, created_at, value, context) VALUES ($1, $2, $3, $4, $5, $6)",
        params![
            record,
            i64::from(*number),
            *created_by,
            created_at.as_microsecond(),
            value.as_deref(),
            context.as_deref()
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
pub(super) struct NewVersion<'a> {
    pub(super) number: u32,
    pub(super) created_by: Option<&'a str>,
    pub(super) created_at: Timestamp,
    pub(super) attributes: &'a [AttributeRef],
    pub(super) value: Option<Vec<u8>>,
    pub(super) context: Option<Vec<u8>>,
}

pub(super) fn moment(microseconds: i64) -> Result<Timestamp, Error> {
    Timestamp::from_microsecond(microseconds).map_err(|_| Error::damaged("a record", "a time is out of range"))
}

pub(super) fn number(number: i64) -> Result<u32, Error> {
    u32::try_from(number).map_err(|_| Error::damaged("a record", "a version is out of range"))
}

pub(super) fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::damaged("a record", "a path or revision cannot be read"))
}

pub(super) fn values(texts: &[String]) -> Vec<Value> {
    texts.iter().map(Value::from).collect()
}
