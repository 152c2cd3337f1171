//! Single versions of many records, without reading all that they have.

use std::collections::{HashMap, HashSet};

use db::{Tx, Value, params};

use super::CHUNK;
use super::read::VersionId;
use super::rows::{self, moment, number};
use crate::Error;
use crate::hub::Hub;
use crate::model::Version;

/// New records that name no backend go to one with this attribute.
pub const DEFAULT_ATTRIBUTE: &str = "cap.core.attribute.default";

impl Hub {
    /// These versions; those that are not there are left out.
    pub async fn versions_named(&self, wanted: &[VersionId]) -> Result<HashMap<VersionId, Version>, Error> {
        let wanted = wanted.to_vec();
        let read = move |tx: &mut Tx<'_>| {
            let mut versions = HashMap::new();
            for wanted in wanted.chunks(CHUNK / 2) {
                read_named(tx, wanted, &mut versions)?;
            }
            Ok(versions)
        };
        self.db().read(read).await
    }

    /// The records whose newest version says that they are the default backend.
    pub async fn marked_default(&self) -> Result<HashSet<String>, Error> {
        let read = |tx: &mut Tx<'_>| {
            let sql = "SELECT a.record FROM hub_attributes a JOIN hub_records r ON r.id = a.record AND r.latest = a.number \
                       WHERE a.path = $1";
            tx.query(sql, params![DEFAULT_ATTRIBUTE])?.iter().map(|row| Ok(row.get(0)?)).collect()
        };
        self.db().read(read).await
    }
}

fn read_named(tx: &mut Tx<'_>, wanted: &[VersionId], to: &mut HashMap<VersionId, Version>) -> Result<(), Error> {
    let mut bound: Vec<Value> = Vec::with_capacity(2 * wanted.len());
    let mut pairs = Vec::with_capacity(wanted.len());
    for id in wanted {
        bound.extend_from_slice(params![&id.record, i64::from(id.number)]);
        pairs.push(format!("(record = ${} AND number = ${})", bound.len() - 1, bound.len()));
    }
    let pairs = pairs.join(" OR ");
    let sql = format!("SELECT record, number, path, revision FROM hub_attributes WHERE {pairs} ORDER BY record, number, position");
    let mut attributes: HashMap<VersionId, Vec<_>> = HashMap::new();
    for row in tx.query(&sql, &bound)? {
        let id = VersionId { record: row.get(0)?, number: number(row.get(1)?)? };
        attributes.entry(id).or_default().push(rows::attribute(&row, 2)?);
    }
    let sql = format!("SELECT record, number, created_by, created_at FROM hub_versions WHERE {pairs}");
    for row in tx.query(&sql, &bound)? {
        let id = VersionId { record: row.get(0)?, number: number(row.get(1)?)? };
        let (created_by, created_at) = (row.get(2)?, moment(row.get(3)?)?);
        let version =
            Version { number: id.number, created_by, created_at, attributes: attributes.remove(&id).unwrap_or_default() };
        to.insert(id, version);
    }
    Ok(())
}
