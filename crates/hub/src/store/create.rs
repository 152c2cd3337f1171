//! New records, all of a batch or none.

use std::collections::{BTreeSet, HashMap};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use db::{Tx, params};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::rows::{NewVersion, insert_version};
use super::types;
use crate::hub::Hub;
use crate::model::{AttributeRef, BUILT_IN, Place, TypeRef};
use crate::rules::texts::Fault;
use crate::rules::{aliases, names, texts};
use crate::seal::{Part, Unlocked};
use crate::{Error, Json};

/// Records that are created together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub records: Vec<NewRecord>,
    pub relations: Vec<Relation>,
    /// A request that comes again with the same key is answered as the first time, for a day.
    pub idempotency_key: Option<String>,
}

/// A record to be.
#[derive(Clone, Debug)]
pub struct NewRecord {
    pub alias: Option<String>,
    pub name: Option<String>,
    /// `None`: that of the settings.
    pub namespace: Option<String>,
    pub created_by: Option<String>,
    pub type_ref: TypeRef,
    pub attributes: Vec<AttributeRef>,
    pub value: Option<Json>,
    /// `None`: the built-in store.
    pub backend: Option<StorageChoice>,
}

/// Which store keeps the values of a record.
#[derive(Clone, Debug)]
pub struct StorageChoice {
    /// The id or the name of the store's record.
    pub id: String,
    pub context: Option<Json>,
}

/// One record uses another; each is an alias of the same batch or an id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Relation {
    pub from: String,
    pub to: String,
}

/// What became of a new record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    pub id: String,
    pub alias: String,
}

impl NewRecord {
    pub fn new(type_ref: TypeRef) -> NewRecord {
        let (alias, name, namespace, created_by, value, backend) = (None, None, None, None, None, None);
        NewRecord { alias, name, namespace, created_by, type_ref, attributes: Vec::new(), value, backend }
    }
}

/// For how long an answer is remembered.
const REMEMBERED: i64 = 24 * 60 * 60 * 1_000_000;

/// What a transaction needs of a batch; it may run more than once.
struct Plan {
    batch: Batch,
    aliases: Vec<String>,
    ids: Vec<String>,
    namespaces: Vec<String>,
    storage: Vec<bool>,
    now: Timestamp,
    digest: String,
    unlocked: Unlocked,
}

impl Hub {
    /// Creates records; the answer is in the order of the batch.
    pub async fn create(&self, batch: Batch) -> Result<Vec<Created>, Error> {
        let plan = self.plan(batch).await?;
        self.db().write(move |tx| plan.carry_out(tx)).await
    }

    async fn plan(&self, mut batch: Batch) -> Result<Plan, Error> {
        let given: Vec<Option<String>> = batch.records.iter().map(|record| record.alias.clone()).collect();
        let aliases = aliases::complete(&given)?;
        let mut namespaces = Vec::with_capacity(batch.records.len());
        for record in &mut batch.records {
            record.value = record.value.take().filter(|value| !value.is_null());
            if let Some(backend) = &mut record.backend {
                backend.context = backend.context.take().filter(|context| !context.is_null());
            }
            if let Some(name) = &record.name {
                names::check_name(name)?;
            }
            if let Some(author) = &record.created_by {
                names::check_label("createdBy", author)?;
            }
            let namespace = record.namespace.clone().unwrap_or_else(|| self.settings().namespace.clone());
            names::check_namespace(&namespace)?;
            namespaces.push(namespace);
        }
        if let Some(key) = &batch.idempotency_key {
            names::check_label("idempotencyKey", key)?;
        }
        let mut is_storage: HashMap<&TypeRef, bool> = HashMap::new();
        for record in &batch.records {
            if !is_storage.contains_key(&record.type_ref) {
                is_storage.insert(&record.type_ref, self.is_storage(&record.type_ref).await?);
            }
        }
        let storage = batch.records.iter().map(|record| is_storage[&record.type_ref]).collect();
        let mut faults = Vec::new();
        let mut checks = Checks::new(self);
        for (record, alias) in batch.records.iter().zip(&aliases) {
            faults.extend(checks.misfit(&record.type_ref, alias, record.value.as_ref()).await?);
        }
        if !faults.is_empty() {
            return Err(texts::create(&faults));
        }
        let ids = batch.records.iter().map(|_| Uuid::now_v7().to_string()).collect();
        let digest = digest_of(&batch);
        let unlocked = self.sealing().unlock().await?;
        Ok(Plan { batch, aliases, ids, namespaces, storage, now: Timestamp::now(), digest, unlocked })
    }
}

impl Plan {
    fn carry_out(&self, tx: &mut Tx<'_>) -> Result<Vec<Created>, Error> {
        if let Some(answer) = self.remembered(tx)? {
            return Ok(answer);
        }
        self.check_backends(tx)?;
        for index in 0..self.ids.len() {
            self.insert(tx, index)?;
        }
        self.relate(tx)?;
        let created = self.ids.iter().zip(&self.aliases);
        let created = created.map(|(id, alias)| Created { id: id.clone(), alias: alias.clone() });
        let created: Vec<Created> = created.collect();
        self.remember(tx, &created)?;
        Ok(created)
    }

    fn check_backends(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        let (mut unknown, mut external) = (BTreeSet::new(), Vec::new());
        let mut looked_up: HashMap<&str, Option<String>> = HashMap::new();
        for backend in self.batch.records.iter().filter_map(|record| record.backend.as_ref()) {
            if !looked_up.contains_key(backend.id.as_str()) {
                let sql = "SELECT id FROM hub_records WHERE id = $1 OR name = $1";
                let found = tx.query_opt(sql, params![&backend.id])?.map(|row| row.get(0)).transpose()?;
                looked_up.insert(&backend.id, found);
            }
            match looked_up.get(backend.id.as_str()).and_then(Option::as_deref) {
                None => _ = unknown.insert(backend.id.clone()),
                Some(id) if id != BUILT_IN => {
                    external.push(texts::no_external_backend(&backend.id));
                }
                Some(_) if backend.context.is_some() => return Err(texts::no_context(BUILT_IN)),
                Some(_) => {}
            }
        }
        if !unknown.is_empty() {
            let unknown: Vec<String> = unknown.into_iter().collect();
            return Err(texts::create(&[texts::unknown_backends(&unknown)]));
        }
        if external.is_empty() { Ok(()) } else { Err(texts::create(&external)) }
    }

    fn insert(&self, tx: &mut Tx<'_>, index: usize) -> Result<(), Error> {
        let (record, id, namespace) = (&self.batch.records[index], &self.ids[index], &self.namespaces[index]);
        let row = RecordRow {
            id,
            name: record.name.as_deref(),
            namespace,
            type_ref: &record.type_ref,
            storage: self.storage[index],
            created_at: self.now,
        };
        if !row.insert(tx)? {
            let name = record.name.as_deref().unwrap_or_default();
            return Err(texts::create(&[texts::name_taken(name)]));
        }
        let value = record.value.as_ref().map(|value| self.unlocked.seal(id, 1, Part::Value, value)).transpose()?;
        let version = NewVersion {
            number: 1,
            created_by: record.created_by.as_deref(),
            created_at: self.now,
            attributes: &record.attributes,
            value,
            context: None,
        };
        insert_version(tx, id, &version)?;
        relate(tx, id, BUILT_IN)
    }

    /// An alias wins over an id.
    fn relate(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        let by_alias: HashMap<&str, &str> =
            self.aliases.iter().map(String::as_str).zip(self.ids.iter().map(String::as_str)).collect();
        for Relation { from, to } in &self.batch.relations {
            let resolve = |end: &str| by_alias.get(end).map_or(end.to_owned(), |id| (*id).to_owned());
            let ends = [resolve(from), resolve(to)];
            for end in &ends {
                if tx.query_opt("SELECT 1 FROM hub_records WHERE id = $1", params![end])?.is_none() {
                    return Err(texts::create(&[texts::bad_relations()]));
                }
            }
            relate(tx, &ends[0], &ends[1])?;
        }
        Ok(())
    }

    fn remembered(&self, tx: &mut Tx<'_>) -> Result<Option<Vec<Created>>, Error> {
        let Some(key) = &self.batch.idempotency_key else { return Ok(None) };
        let sql = "SELECT answer FROM hub_requests WHERE request = $1 AND made_at > $2";
        let since = self.now.as_microsecond().saturating_sub(REMEMBERED);
        let Some(row) = tx.query_opt(sql, params![key, since])? else { return Ok(None) };
        let answer = self.unlocked.open(key, 0, Part::Answer, &row.get::<Vec<u8>>(0)?)?;
        let answer: Remembered = serde_json::from_str(answer.text())
            .map_err(|_| Error::damaged("the answer to a request", "it cannot be read"))?;
        if answer.digest == self.digest {
            Ok(Some(answer.created))
        } else {
            Err(texts::create(&[texts::key_used_otherwise()]))
        }
    }

    fn remember(&self, tx: &mut Tx<'_>, created: &[Created]) -> Result<(), Error> {
        let Some(key) = &self.batch.idempotency_key else { return Ok(()) };
        let (now, since) = (self.now.as_microsecond(), self.now.as_microsecond().saturating_sub(REMEMBERED));
        tx.execute("DELETE FROM hub_requests WHERE made_at <= $1", params![since])?;
        let answer = Remembered { digest: self.digest.clone(), created: created.to_vec() };
        let answer = serde_json::to_string(&answer).ok().and_then(|text| Json::parse(&text).ok());
        let answer = answer.ok_or_else(|| Error::damaged("the answer to a request", "it cannot be written"))?;
        let sealed = self.unlocked.seal(key, 0, Part::Answer, &answer)?;
        tx.execute(
            "INSERT INTO hub_requests (request, answer, made_at) VALUES ($1, $2, $3)",
            params![key, sealed, now],
        )?;
        Ok(())
    }
}

/// Kept sealed: the digest is one of values, too.
#[derive(Serialize, Deserialize)]
struct Remembered {
    digest: String,
    created: Vec<Created>,
}

fn digest_of(batch: &Batch) -> String {
    let mut text = String::new();
    for record in &batch.records {
        let value = record.value.as_ref().map(Json::text);
        let backend = record.backend.as_ref().map(|backend| (&backend.id, backend.context.as_ref().map(Json::text)));
        let attributes: Vec<_> =
            record.attributes.iter().map(|attribute| (attribute.path.as_str(), attribute.revision.as_str())).collect();
        let NewRecord { alias, name, namespace, created_by, type_ref, .. } = record;
        let type_ref = type_ref.to_string();
        text.push_str(&format!("{:?}", (alias, name, namespace, created_by, type_ref, attributes, value, backend)));
    }
    text.push_str(&format!("{:?}", batch.relations));
    BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()))
}

/// A row of `hub_records`.
struct RecordRow<'a> {
    id: &'a str,
    name: Option<&'a str>,
    namespace: &'a str,
    type_ref: &'a TypeRef,
    storage: bool,
    created_at: Timestamp,
}

impl RecordRow<'_> {
    /// Tells whether it was not there before, by its id or its name.
    fn insert(&self, tx: &mut Tx<'_>) -> Result<bool, Error> {
        let RecordRow { id, name, namespace, type_ref, storage, created_at } = self;
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
                BUILT_IN,
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

fn relate(tx: &mut Tx<'_>, source: &str, target: &str) -> Result<(), Error> {
    let sql = "INSERT INTO hub_relations (source, target) VALUES ($1, $2) ON CONFLICT DO NOTHING";
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
    };
    insert_version(tx, BUILT_IN, &version)
}

const BUILT_IN_TYPE: &str = "cap.core.type.hub.storage.builtin";
const REVISION: &str = "0.1.0";

/// Checks the values of one request; what a Type says is looked up once.
pub(super) struct Checks<'a> {
    hub: &'a Hub,
    known: HashMap<TypeRef, Option<types::Known>>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(hub: &'a Hub) -> Checks<'a> {
        Checks { hub, known: HashMap::new() }
    }

    /// What is wrong with a value by its Type; nothing if the Type is not known and need not be.
    pub(super) async fn misfit(
        &mut self,
        type_ref: &TypeRef,
        alias: &str,
        value: Option<&Json>,
    ) -> Result<Option<Fault>, Error> {
        if !self.known.contains_key(type_ref) {
            self.known.insert(type_ref.clone(), self.hub.schema(type_ref).await?);
        }
        let Some(Some(known)) = self.known.get(type_ref) else {
            let required = self.hub.settings().require_types;
            return Ok(required.then(|| texts::unknown_type(&type_ref.to_string())));
        };
        let (types::Known::Schema(schema), Some(value)) = (known, value) else { return Ok(None) };
        let faults = schema.faults("value", &value.value());
        Ok((!faults.is_empty()).then(|| texts::misfit(alias, &faults)))
    }
}
