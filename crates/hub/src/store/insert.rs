//! Rows of new records, and the one that is always there.

use db::{Tx, params};
use jiff::Timestamp;

use super::rows::{NewVersion, insert_version};
use crate::model::{AttributeRef, BUILT_IN, Place, TypeRef};
use crate::seal::{Part, Unlocked};
use crate::{Error, Json};

/// A row of `hub_records`.
pub(super) struct RecordRow<'a> {
    pub(super) id: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) namespace: &'a str,
    pub(super) type_ref: &'a TypeRef,
    pub(super) backend: &'a str,
    pub(super) storage: bool,
    pub(super) created_at: Timestamp,
}

impl RecordRow<'_> {
    /// Tells whether it was not there before, by its id or its name.
    pub(super) fn insert(&self, tx: &mut Tx<'_>) -> Result<bool, Error> {
        let RecordRow { id, name, namespace, type_ref, backend, storage, created_at } = self;
        let place = Place::new(type_ref, *created_at, id);
        let inserted = tx.execute(
            "INSERT INTO hub_records \
             (id, name, namespace, type_path, type_revision, backend, storage, created_at, latest, place) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9) ON CONFLICT DO NOTHING",
            params![
                *id,
                *name,
                *namespace,
                type_ref.path.as_str(),
                type_ref.revision.as_str(),
                *backend,
                i64::from(*storage),
                created_at.as_microsecond(),
                place.as_bytes(),
            ],
        )?;
        if inserted == 0 {
            return Ok(false);
        }
        tx.execute("INSERT INTO hub_namespaces (namespace) VALUES ($1) ON CONFLICT DO NOTHING", params![*namespace])?;
        let path = type_ref.path.as_str();
        tx.execute("INSERT INTO hub_paths (path) VALUES ($1) ON CONFLICT DO NOTHING", params![path])?;
        Ok(true)
    }
}

pub(crate) fn relate(tx: &mut Tx<'_>, source: &str, target: &str) -> Result<(), Error> {
    // A record's place never changes.
    let sql = "INSERT INTO hub_relations (source, target, source_place) \
               SELECT id, CAST($2 AS TEXT), place FROM hub_records WHERE id = $1 ON CONFLICT DO NOTHING";
    tx.execute(sql, params![source, target])?;
    Ok(())
}

/// Makes the record of the built-in store where it is missing. It keeps nothing outside and uses nothing.
pub(crate) fn ensure_built_in(
    tx: &mut Tx<'_>,
    namespace: &str,
    now: Timestamp,
    unlocked: &Unlocked,
) -> Result<(), Error> {
    let parsed = |fault| Error::damaged("the built-in record", format!("{fault}"));
    let type_ref =
        TypeRef { path: BUILT_IN_TYPE.parse().map_err(parsed)?, revision: REVISION.parse().map_err(parsed)? };
    let row = RecordRow {
        id: BUILT_IN,
        name: Some("builtin"),
        namespace,
        type_ref: &type_ref,
        backend: BUILT_IN,
        storage: true,
        created_at: now,
    };
    if !row.insert(tx)? {
        return Ok(());
    }
    let value = Json::parse(r#"{"acceptValue":true,"contextSchema":null}"#)
        .map_err(|fault| Error::damaged("the built-in record", fault.to_string()))?;
    let attribute = AttributeRef {
        path: "cap.core.attribute.hub.storage.backend".parse().map_err(parsed)?,
        revision: REVISION.parse().map_err(parsed)?,
    };
    let version = NewVersion {
        number: 1,
        created_by: Some("core"),
        created_at: now,
        attributes: &[attribute],
        value: Some(unlocked.seal(BUILT_IN, 1, Part::Value, &value)?),
        context: None,
        has_value: Some(true),
    };
    insert_version(tx, BUILT_IN, &version)
}

const BUILT_IN_TYPE: &str = "cap.core.type.hub.storage.builtin";
const REVISION: &str = "0.1.0";
