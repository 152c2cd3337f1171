//! The Types that this hub knows.

use std::collections::BTreeSet;
use std::sync::Arc;

use db::{Row, Tx, params};

use super::rows::parsed;
use crate::hub::Hub;
use crate::model::{NodePath, TypeRef};
use crate::remembered::Remembered;
use crate::storage::comparable_schema;
use crate::types::{PathPattern, Schema, Type, attaches_to_storage};
use crate::{Error, Reason};

/// What a known Type says of values.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    Anything,
    Schema(Arc<Schema>),
}

/// How a Type's schema is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reading {
    AsWritten,
    /// As one of storage backends, whose records may be written otherwise than it says.
    OfStorage,
}

/// A revision never changes.
pub(crate) type Schemas = Remembered<(TypeRef, Reading), Known>;

const COLUMNS: &str = "SELECT path, revision, display_name, description, schema_text, refs FROM hub_types";

impl Hub {
    /// Takes Types, all or none. A revision never changes: the same again is fine, another one is refused.
    pub async fn apply_types(&self, types: Vec<Type>) -> Result<(), Error> {
        self.db().write(move |tx| types.iter().try_for_each(|applied| apply(tx, applied))).await
    }

    /// The Types whose path matches, and those that are attached to a node that does, by path and revision.
    pub async fn types(&self, pattern: &PathPattern) -> Result<Vec<Type>, Error> {
        let rows = self.db().read(|tx| tx.query(COLUMNS, &[])).await.map_err(|error: db::Error| error)?;
        let mut all = rows.iter().map(read).collect::<Result<Vec<Type>, Error>>()?;
        // Every revision's nodes attach the Type as a whole.
        let attached: BTreeSet<NodePath> =
            all.iter().filter(|known| is_attached(known, pattern)).map(path_of).collect();
        all.retain(|known| {
            attached.contains(&known.reference.path) || pattern.matches_node(known.reference.path.as_str())
        });
        let key = |known: &Type| {
            let TypeRef { path, revision } = &known.reference;
            (path.clone(), revision.numbers(), revision.pre_release().is_none(), revision.as_str().to_owned())
        };
        all.sort_by_key(key);
        Ok(all)
    }

    /// What values of this Type must look like; `None` if the Type is not known here.
    pub(crate) async fn schema(&self, reference: &TypeRef, reading: Reading) -> Result<Option<Known>, Error> {
        let key = (reference.clone(), reading);
        if let Some(known) = self.schemas().get(&key) {
            return Ok(Some(known));
        }
        let sql = "SELECT schema_text FROM hub_types WHERE path = $1 AND revision = $2";
        let row = self.db().look_up(sql, params![reference.path.as_str(), reference.revision.as_str()]).await?;
        let Some(row) = row else { return Ok(None) };
        let (known, bytes) = match row.get::<Option<String>>(0)? {
            None => (Known::Anything, 0),
            Some(text) => {
                let damaged = |fault: String| Error::damaged(format!("the Type {reference}"), fault);
                let written = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
                let read = match reading {
                    Reading::AsWritten => written,
                    Reading::OfStorage => comparable_schema(written),
                };
                let schema = Schema::compile(&read).map_err(|error| damaged(error.to_string()))?;
                let bytes = schema.bytes();
                (Known::Schema(Arc::new(schema)), bytes)
            }
        };
        self.schemas().put(key, known.clone(), bytes);
        Ok(Some(known))
    }

    /// Whether records of this Type are storage backends.
    pub async fn is_storage(&self, reference: &TypeRef) -> Result<bool, Error> {
        let path = reference.path.as_str().to_owned();
        let rows =
            self.db().read(move |tx| tx.query("SELECT refs FROM hub_types WHERE path = $1", params![&path])).await;
        let mut nodes = Vec::new();
        for row in rows.map_err(|error: db::Error| error)? {
            nodes.extend(self::nodes(&row.get::<String>(0)?)?);
        }
        Ok(attaches_to_storage(reference.path.as_str(), nodes.iter().map(NodePath::as_str)))
    }
}

/// The paths of records' Types that match: all that records have, or that is attached to a matching node.
pub(super) fn paths(tx: &mut Tx<'_>, pattern: &PathPattern) -> Result<Vec<String>, Error> {
    if let PathPattern::Exact(path) = pattern {
        return Ok(vec![path.clone()]);
    }
    let mut found = BTreeSet::new();
    for row in tx.query("SELECT path FROM hub_paths", &[])? {
        let path: String = row.get(0)?;
        if pattern.matches_node(&path) {
            found.insert(path);
        }
    }
    for row in tx.query("SELECT path, refs FROM hub_types", &[])? {
        if nodes(&row.get::<String>(1)?)?.iter().any(|node| pattern.matches_node(node.as_str())) {
            found.insert(row.get(0)?);
        }
    }
    Ok(found.into_iter().collect())
}

fn is_attached(known: &Type, pattern: &PathPattern) -> bool {
    known.additional_refs.iter().any(|node| pattern.matches_node(node.as_str()))
}

fn path_of(known: &Type) -> NodePath {
    known.reference.path.clone()
}

fn apply(tx: &mut Tx<'_>, applied: &Type) -> Result<(), Error> {
    let TypeRef { path, revision } = &applied.reference;
    for node in &applied.additional_refs {
        let known = tx.query("SELECT 1 FROM hub_types WHERE path = $1 LIMIT 1", params![node.as_str()])?;
        if !known.is_empty() {
            let text = format!("\"{node}\" cannot be used as parent node as it resolves to concrete Type");
            return Err(Error::invalid(text));
        }
    }
    let sql = format!("{COLUMNS} WHERE path = $1 AND revision = $2");
    if let Some(row) = tx.query_opt(&sql, params![path.as_str(), revision.as_str()])? {
        if read(&row)? == *applied {
            return Ok(());
        }
        let text =
            format!("the Type {} is there already, with other content; give it another revision", applied.reference);
        return Err(Error::refused(Reason::Conflict, text));
    }
    let refs: Vec<&str> = applied.additional_refs.iter().map(NodePath::as_str).collect();
    tx.execute(
        "INSERT INTO hub_types (path, revision, display_name, description, schema_text, refs) VALUES ($1, $2, $3, $4, $5, $6)",
        params![
            path.as_str(),
            revision.as_str(),
            applied.display_name.as_deref(),
            applied.description.as_deref(),
            applied.schema.as_ref().map(ToString::to_string),
            refs.join(" "),
        ],
    )?;
    Ok(())
}

fn read(row: &Row) -> Result<Type, Error> {
    let (path, revision, refs): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(5)?);
    let schema: Option<String> = row.get(4)?;
    let schema = schema.map(|text| serde_json::from_str(&text)).transpose();
    Ok(Type {
        reference: TypeRef { path: parsed(&path)?, revision: parsed(&revision)? },
        display_name: row.get(2)?,
        description: row.get(3)?,
        schema: schema.map_err(|_| Error::damaged(format!("the Type {path}"), "its schema cannot be read"))?,
        additional_refs: nodes(&refs)?,
    })
}

fn nodes(refs: &str) -> Result<Vec<NodePath>, Error> {
    refs.split_whitespace().map(parsed).collect()
}
