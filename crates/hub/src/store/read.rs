//! What is known of records: versions, documents, relations.

use std::collections::HashMap;

use db::{Tx, params};

use super::rows::{self, moment, number};
use super::{CHUNK, places};
use crate::hub::Hub;
use crate::model::{Record, Version};
use crate::seal::Part;
use crate::{Error, Json};

impl Hub {
    /// The records of these ids, in no order; ids that name none are left out.
    pub async fn records(&self, ids: &[String]) -> Result<Vec<Record>, Error> {
        let ids = ids.to_vec();
        self.db().read(move |tx| rows::records(tx, &ids)).await
    }

    /// The record of an id or a name.
    pub async fn find(&self, id_or_name: &str) -> Result<Option<Record>, Error> {
        let wanted = id_or_name.to_owned();
        let find = move |tx: &mut Tx<'_>| {
            let sql = format!("{} WHERE r.id = $1 OR r.name = $1", rows::RECORDS);
            tx.query_opt(&sql, params![&wanted])?.as_ref().map(rows::record).transpose()
        };
        self.db().read(find).await
    }

    /// Every version of a record, the oldest first.
    pub async fn versions(&self, record: &str) -> Result<Vec<Version>, Error> {
        let mut versions = self.versions_of(&[record.to_owned()]).await?;
        Ok(versions.remove(record).unwrap_or_default())
    }

    /// Every version of these records, by their ids, the oldest first.
    pub async fn versions_of(&self, ids: &[String]) -> Result<HashMap<String, Vec<Version>>, Error> {
        let ids = ids.to_vec();
        let read = move |tx: &mut Tx<'_>| {
            let mut versions: HashMap<String, Vec<Version>> = HashMap::new();
            for ids in ids.chunks(CHUNK) {
                read_versions(tx, ids, &mut versions)?;
            }
            Ok(versions)
        };
        self.db().read(read).await
    }

    /// The value of a version; `None` if it has none.
    pub async fn value(&self, record: &str, version: u32) -> Result<Option<Json>, Error> {
        let id = VersionId { record: record.to_owned(), number: version };
        self.values(std::slice::from_ref(&id)).await?.remove(&id).transpose()
    }

    /// The context of a version; `None` if it has none.
    pub async fn context(&self, record: &str, version: u32) -> Result<Option<Json>, Error> {
        let id = VersionId { record: record.to_owned(), number: version };
        self.contexts(std::slice::from_ref(&id)).await?.remove(&id).transpose()
    }

    /// The contexts of these versions, as [`Hub::values`] gives values.
    pub async fn contexts(&self, wanted: &[VersionId]) -> Result<HashMap<VersionId, Result<Json, Error>>, Error> {
        let wanted = wanted.to_vec();
        let read = move |tx: &mut Tx<'_>| {
            let mut sealed = Vec::with_capacity(wanted.len());
            for wanted in wanted.chunks(CHUNK / 2) {
                read_contexts(tx, wanted, &mut sealed)?;
            }
            Ok::<_, Error>(sealed)
        };
        let sealed = self.db().read(read).await?;
        if sealed.is_empty() {
            return Ok(HashMap::new());
        }
        let unlocked = self.sealing().unlock().await?;
        let open = |(id, sealed): (VersionId, Vec<u8>)| {
            let opened = unlocked.open(&id.record, id.number, Part::Context, &sealed);
            (id, opened)
        };
        Ok(sealed.into_iter().map(open).collect())
    }

    /// What each of these records uses, by their ids.
    pub async fn uses(&self, ids: &[String]) -> Result<HashMap<String, Vec<Record>>, Error> {
        self.related(ids, Direction::Uses, None).await
    }

    /// What uses each of these records, by their ids.
    pub async fn used_by(&self, ids: &[String]) -> Result<HashMap<String, Vec<Record>>, Error> {
        self.related(ids, Direction::UsedBy, None).await
    }

    /// What each of these records is related to, by their ids, in the order of lists; of each the first so many.
    pub(crate) async fn related(
        &self,
        ids: &[String],
        direction: Direction,
        first: Option<usize>,
    ) -> Result<HashMap<String, Vec<Record>>, Error> {
        let ids = ids.to_vec();
        let read = move |tx: &mut Tx<'_>| {
            let (from, to) = direction.ends();
            let mut edges: Vec<(String, String)> = Vec::new();
            for ids in ids.chunks(if first.is_some() { LIMITED } else { CHUNK }) {
                let sql = match first {
                    None => {
                        let list = places(1, ids.len());
                        format!("SELECT {from}, {to} FROM hub_relations WHERE {from} IN ({list})")
                    }
                    Some(first) => direction.first(first, ids.len()),
                };
                for row in tx.query(&sql, &rows::values(ids))? {
                    edges.push((row.get(0)?, row.get(1)?));
                }
            }
            let mut ends: Vec<String> = edges.iter().map(|(_from, to)| to.clone()).collect();
            ends.sort_unstable();
            ends.dedup();
            let ends: HashMap<String, Record> =
                rows::records(tx, &ends)?.into_iter().map(|record| (record.id.clone(), record)).collect();
            let mut related: HashMap<String, Vec<Record>> = HashMap::new();
            for (from, to) in edges {
                related.entry(from).or_default().extend(ends.get(&to).cloned());
            }
            for records in related.values_mut() {
                records.sort_by(|left, right| left.place.cmp(&right.place));
            }
            Ok(related)
        };
        self.db().read(read).await
    }
}

/// Names a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VersionId {
    pub record: String,
    pub number: u32,
}

fn read_versions(tx: &mut Tx<'_>, ids: &[String], to: &mut HashMap<String, Vec<Version>>) -> Result<(), Error> {
    let (list, bound) = (places(1, ids.len()), rows::values(ids));
    let sql = format!(
        "SELECT record, number, path, revision FROM hub_attributes WHERE record IN ({list}) ORDER BY record, number, position"
    );
    let mut attributes: HashMap<(String, i64), Vec<_>> = HashMap::new();
    for row in tx.query(&sql, &bound)? {
        attributes.entry((row.get(0)?, row.get(1)?)).or_default().push(rows::attribute(&row, 2)?);
    }
    let sql = format!(
        "SELECT record, number, created_by, created_at FROM hub_versions WHERE record IN ({list}) ORDER BY record, number"
    );
    for row in tx.query(&sql, &bound)? {
        let (record, counted): (String, i64) = (row.get(0)?, row.get(1)?);
        let attributes = attributes.remove(&(record.clone(), counted)).unwrap_or_default();
        let (created_by, created_at) = (row.get(2)?, moment(row.get(3)?)?);
        let version = Version { number: number(counted)?, created_by, created_at, attributes };
        to.entry(record).or_default().push(version);
    }
    Ok(())
}

fn read_contexts(tx: &mut Tx<'_>, wanted: &[VersionId], to: &mut Vec<(VersionId, Vec<u8>)>) -> Result<(), Error> {
    let mut bound = Vec::with_capacity(2 * wanted.len());
    let mut pairs = Vec::with_capacity(wanted.len());
    for id in wanted {
        bound.extend_from_slice(params![&id.record, i64::from(id.number)]);
        pairs.push(format!("(record = ${} AND number = ${})", bound.len() - 1, bound.len()));
    }
    let sql = format!(
        "SELECT record, number, context FROM hub_versions WHERE context IS NOT NULL AND ({})",
        pairs.join(" OR ")
    );
    for row in tx.query(&sql, &bound)? {
        to.push((VersionId { record: row.get(0)?, number: number(row.get(1)?)? }, row.get(2)?));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Uses,
    UsedBy,
}

/// Records per statement of which each has a limit of its own.
const LIMITED: usize = 50;

impl Direction {
    fn ends(self) -> (&'static str, &'static str) {
        match self {
            Direction::Uses => ("source", "target"),
            Direction::UsedBy => ("target", "source"),
        }
    }

    /// Selects the first so many relations of each of `count` records. Each has a limit of its own, which an index ends:
    /// what is beyond it costs nothing.
    fn first(self, first: usize, count: usize) -> String {
        let (from, to) = self.ends();
        let first = i64::try_from(first).unwrap_or(i64::MAX);
        let (of, place) = match self {
            // What one record uses is little, whatever the total.
            Direction::Uses => ("hub_relations JOIN hub_records ON id = target", "place"),
            Direction::UsedBy => ("hub_relations", "source_place"),
        };
        let one = |number: usize| {
            format!(
                "SELECT {from}, {to} FROM (SELECT {from}, {to} FROM {of} WHERE {from} = ${number} \
                 ORDER BY {place} LIMIT {first}) AS limited"
            )
        };
        (1..=count).map(one).collect::<Vec<_>>().join(" UNION ALL ")
    }
}

#[cfg(test)]
mod tests {
    use db::{Config, Db};
    use testbed::process::scratch;

    use super::*;
    use crate::MIGRATIONS;

    #[tokio::test]
    async fn the_first_users_are_found_in_their_order_without_sorting_the_others() {
        let db = Db::open(Config::sqlite(scratch("plan").unwrap().join("hub.db"))).await.unwrap();
        db.migrate(&[MIGRATIONS]).await.unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {}", Direction::UsedBy.first(3, 2));
        let rows =
            db.read(move |tx| tx.query(&sql, params!["a", "b"])).await.map_err(|error: db::Error| error).unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(3).unwrap()).collect();
        assert_eq!(
            plan.iter().filter(|step| step.contains("hub_relations_in_order (target=?)")).count(),
            2,
            "{plan:?}"
        );
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
    }

    #[tokio::test]
    async fn relations_of_before_have_their_order() {
        let db = Db::open(Config::sqlite(scratch("upgrade").unwrap().join("hub.db"))).await.unwrap();
        let before = db::Migrations { steps: &MIGRATIONS.steps[..4], ..MIGRATIONS };
        db.migrate(&[before]).await.unwrap();
        let fill = |tx: &mut Tx<'_>| {
            for (number, id) in ["used", "late", "early"].into_iter().enumerate() {
                let place = [if id == "early" { 1_u8 } else { 2 + u8::try_from(number).unwrap_or(9) }];
                let sql = "INSERT INTO hub_records (id, namespace, type_path, type_revision, backend, storage, created_at, latest, \
                           place) VALUES ($1, 'n', 'a', '0.1.0', 'b', 0, 0, 1, $2)";
                tx.execute(sql, params![id, place.as_slice()])?;
                let sql = "INSERT INTO hub_relations (source, target) VALUES ($1, 'used')";
                tx.execute(sql, params![id])?;
            }
            Ok::<_, db::Error>(())
        };
        db.write(fill).await.unwrap();
        db.migrate(&[MIGRATIONS]).await.unwrap();
        let sql = Direction::UsedBy.first(2, 1);
        let rows = db.read(move |tx| tx.query(&sql, params!["used"])).await.map_err(|error: db::Error| error).unwrap();
        let users: Vec<String> = rows.iter().map(|row| row.get(1).unwrap()).collect();
        assert_eq!(users, ["early", "used"]);
    }
}
