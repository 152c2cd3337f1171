//! Which records a list has, a page at a time.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use db::{Tx, Value, params};

use super::rows::{self, RECORDS};
use super::{places, types};
use crate::Error;
use crate::hub::Hub;
use crate::model::{NodePath, Place, Record, Revision};
use crate::types::PathPattern;

/// What a list is limited to; the default lets everything through.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// This record alone.
    pub id: Option<String>,
    pub type_ref: Option<TypeFilter>,
    pub attributes: Vec<AttributeFilter>,
    pub created_by: Option<String>,
    pub name: Option<String>,
    /// The id or the name of a store.
    pub backend: Option<String>,
    /// Which versions attributes and authors are looked for in.
    pub versions: Versions,
    /// `None`: all of them. An empty list lets nothing through.
    pub namespaces: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
pub struct TypeFilter {
    /// A path, or an expression that also finds Types by the nodes that they are attached to.
    pub path: PathPattern,
    pub revision: Option<Revision>,
}

#[derive(Clone, Debug)]
pub struct AttributeFilter {
    pub path: NodePath,
    pub revision: Option<Revision>,
    pub rule: Rule,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    #[default]
    Include,
    Exclude,
}

/// A record is listed if one version meets everything that is asked of versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    #[default]
    Any,
    Latest,
}

/// Where a page begins and how long it may be.
#[derive(Clone, Debug)]
pub struct Page {
    pub first: usize,
    pub after: Option<Cursor>,
}

/// The end of a page, as clients carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(Place);

impl Cursor {
    pub fn of(record: &Record) -> Cursor {
        Cursor(record.place.clone())
    }

    pub fn parse(text: &str) -> Result<Cursor, Error> {
        let bytes =
            BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| Error::invalid("after: it is no cursor of a list"))?;
        Ok(Cursor(Place::from_bytes(bytes)))
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&BASE64_URL_SAFE_NO_PAD.encode(self.0.as_bytes()))
    }
}

impl Hub {
    /// A page of the records that pass the filter, by path, newest revision, newest record.
    ///
    /// It is gathered from lanes, one for each namespace and Type that is asked for: in a lane, an index has the records in
    /// the order of lists, so that a page costs as much among many records as among few.
    pub async fn list(&self, filter: Filter, page: Page) -> Result<Vec<Record>, Error> {
        let list = move |tx: &mut Tx<'_>| {
            let Some(selection) = Selection::of(tx, &filter)? else { return Ok(Vec::new()) };
            let mut listed = Vec::new();
            for path in optional(selection.paths.as_deref()) {
                let mut found = Vec::new();
                for namespace in optional(selection.namespaces.as_deref()) {
                    let lane = selection.query.clone().lane(namespace, path, &page);
                    let sql = format!("{RECORDS}{}", lane.in_order(page.first));
                    for row in tx.query(&sql, &lane.bound)? {
                        found.push(rows::record(&row)?);
                    }
                }
                // All of one path stand before all of the next.
                found.sort_by(|left: &Record, right| left.place.cmp(&right.place));
                listed.append(&mut found);
                if listed.len() >= page.first {
                    break;
                }
            }
            listed.truncate(page.first);
            Ok(listed)
        };
        self.db().read(list).await
    }

    /// How many records pass the filter.
    pub async fn count(&self, filter: Filter) -> Result<u64, Error> {
        let count = move |tx: &mut Tx<'_>| {
            let Some(Selection { namespaces, paths, mut query }) = Selection::of(tx, &filter)? else { return Ok(0) };
            query.one_of("r.namespace", namespaces.as_deref());
            query.one_of("r.type_path", paths.as_deref());
            let sql = format!("SELECT COUNT(*) FROM hub_records r{}", query.condition());
            let row = tx.query(&sql, &query.bound)?.pop();
            row.map_or(Ok(0), |row| Ok(row.get::<i64>(0)?.unsigned_abs()))
        };
        self.db().read(count).await
    }

    /// Every namespace that has ever had a record.
    pub async fn namespaces(&self) -> Result<Vec<String>, Error> {
        let rows = self.db().read(|tx| tx.query("SELECT namespace FROM hub_namespaces ORDER BY namespace", &[])).await;
        let rows = rows.map_err(|error: db::Error| error)?;
        rows.iter().map(|row| Ok(row.get(0)?)).collect()
    }
}

/// Each of them, or nothing once, where there is no limit.
fn optional(texts: Option<&[String]>) -> Vec<Option<&str>> {
    texts.map_or(vec![None], |texts| texts.iter().map(|text| Some(text.as_str())).collect())
}

/// A filter, as far as it was looked up.
struct Selection {
    namespaces: Option<Vec<String>>,
    /// Of Types, in the order of bytes.
    paths: Option<Vec<String>>,
    /// Everything else.
    query: Query,
}

impl Selection {
    /// `None` if nothing can pass.
    fn of(tx: &mut Tx<'_>, filter: &Filter) -> Result<Option<Selection>, Error> {
        let Filter { id, type_ref, attributes, created_by, name, backend, versions, namespaces } = filter;
        let paths = type_ref.as_ref().map(|asked| types::paths(tx, &asked.path)).transpose()?;
        let mut query = Query::default();
        let revision = type_ref.as_ref().and_then(|asked| asked.revision.as_ref());
        query.equal("r.type_revision", revision.map(Revision::as_str));
        query.equal("r.id", id.as_deref());
        query.equal("r.name", name.as_deref());
        if let Some(backend) = backend {
            let sql = "SELECT id FROM hub_records WHERE id = $1 OR name = $1";
            let Some(row) = tx.query_opt(sql, params![backend])? else { return Ok(None) };
            query.equal("r.backend", Some(&row.get::<String>(0)?));
        }
        if created_by.is_some() || !attributes.is_empty() {
            query.version(attributes, created_by.as_deref(), *versions);
        }
        let mut namespaces = namespaces.clone();
        if let Some(namespaces) = &mut namespaces {
            namespaces.sort_unstable();
            namespaces.dedup();
        }
        let is_empty = |texts: &Option<Vec<String>>| texts.as_ref().is_some_and(Vec::is_empty);
        let nothing = is_empty(&namespaces) || is_empty(&paths);
        Ok((!nothing).then_some(Selection { namespaces, paths, query }))
    }
}

/// Conditions on `hub_records r`, and what is bound in them.
#[derive(Clone, Default)]
struct Query {
    conditions: Vec<String>,
    bound: Vec<Value>,
}

impl Query {
    /// What of a page is in one namespace and of one path. A path is a range of places.
    fn lane(mut self, namespace: Option<&str>, path: Option<&str>, page: &Page) -> Query {
        self.equal("r.namespace", namespace);
        let mut after = page.after.as_ref().map(|Cursor(place)| place.as_bytes().to_vec());
        if let Some(path) = path {
            let (begin, end) = Place::range(path);
            after = Some(after.map_or(begin.clone(), |after| after.max(begin)));
            let end = self.bind(end);
            self.conditions.push(format!("r.place < {end}"));
        }
        if let Some(after) = after {
            let after = self.bind(after);
            self.conditions.push(format!("r.place > {after}"));
        }
        self
    }

    fn in_order(&self, first: usize) -> String {
        format!("{} ORDER BY r.place LIMIT {first}", self.condition())
    }

    fn version(&mut self, attributes: &[AttributeFilter], created_by: Option<&str>, versions: Versions) {
        let mut version = "SELECT 1 FROM hub_versions v WHERE v.record = r.id".to_owned();
        if versions == Versions::Latest {
            version.push_str(" AND v.number = r.latest");
        }
        if let Some(author) = created_by {
            version.push_str(&format!(" AND v.created_by = {}", self.bind(author)));
        }
        for AttributeFilter { path, revision, rule } in attributes {
            let word = match rule {
                Rule::Include => "EXISTS",
                Rule::Exclude => "NOT EXISTS",
            };
            let path = self.bind(path.as_str());
            let revision =
                revision.as_ref().map(|revision| format!(" AND a.revision = {}", self.bind(revision.as_str())));
            version.push_str(&format!(
                " AND {word} (SELECT 1 FROM hub_attributes a \
                 WHERE a.record = v.record AND a.number = v.number AND a.path = {path}{})",
                revision.unwrap_or_default()
            ));
        }
        self.conditions.push(format!("EXISTS ({version})"));
    }

    fn equal(&mut self, column: &str, value: Option<&str>) {
        if let Some(value) = value {
            let place = self.bind(value);
            self.conditions.push(format!("{column} = {place}"));
        }
    }

    fn one_of(&mut self, column: &str, values: Option<&[String]>) {
        if let Some(values) = values {
            let list = places(self.bound.len() + 1, values.len());
            self.bound.extend(rows::values(values));
            self.conditions.push(format!("{column} IN ({list})"));
        }
    }

    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.bound.push(value.into());
        format!("${}", self.bound.len())
    }

    fn condition(&self) -> String {
        if self.conditions.is_empty() { String::new() } else { format!(" WHERE {}", self.conditions.join(" AND ")) }
    }
}
