//! New records, all of a batch or none: what is looked at, reserved and written.

use std::collections::{BTreeSet, HashMap};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use db::{Tx, params};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::insert::{RecordRow, relate};
use super::rows::{NewVersion, insert_version};
use crate::changes::{ChangeKind, Event, Feed};
use crate::journal::{self, Intent, IntentKind, Operation};
use crate::model::{AttributeRef, TypeRef};
use crate::rules::texts;
use crate::rules::texts::Fault;
use crate::seal::{Part, Unlocked};
use crate::storage::Destination;
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
    /// `None`: that of the policy, else the default one, else the built-in store.
    pub backend: Option<StorageChoice>,
}

/// Which store keeps the values of a record.
#[derive(Clone, Debug)]
pub struct StorageChoice {
    /// The id or the name of the store's record; `None` as for a record without a choice.
    pub id: Option<String>,
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

/// What transactions need of a batch; they may run more than once.
pub(crate) struct Plan {
    pub(crate) batch: Batch,
    pub(crate) aliases: Vec<String>,
    pub(crate) ids: Vec<String>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) storage: Vec<bool>,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) now: Timestamp,
    pub(crate) digest: String,
    pub(crate) unlocked: Unlocked,
    pub(crate) feed: Feed,
}

/// How a batch goes on.
pub(crate) enum Reserved {
    /// It took place before.
    Answered(Vec<Created>),
    Begun,
}

/// What is kept for an operation until it is over.
const NAME: &str = "name";
pub(crate) const END: &str = "end";
const REQUEST: &str = "request";

impl Plan {
    /// The context that was given for a record.
    pub(crate) fn context(&self, index: usize) -> Option<&Json> {
        self.batch.records[index].backend.as_ref().and_then(|backend| backend.context.as_ref())
    }

    /// An entry for each record that is kept elsewhere.
    pub(crate) fn intents(&self, operation: &Operation) -> Vec<(usize, Intent)> {
        let outside = |(index, destination): (usize, &Destination)| {
            let backend = destination.external()?;
            let intent = operation.intent(IntentKind::Create, &self.ids[index], &backend.id);
            let context = self.context(index).cloned();
            Some((index, Intent { first: 1, last: 1, context, ..intent }))
        };
        self.destinations.iter().enumerate().filter_map(outside).collect()
    }

    /// Everything in one transaction, where no backend is concerned.
    pub(crate) fn carry_out(&self, tx: &mut Tx<'_>) -> Result<Vec<Created>, Error> {
        if let Some(answer) = self.remembered(tx)? {
            return Ok(answer);
        }
        self.check(tx)?;
        self.write(tx, &HashMap::new())
    }

    /// Keeps names, ends of relations and the request for this operation, and says what is to be done.
    pub(crate) fn reserve(
        &self,
        tx: &mut Tx<'_>,
        operation: &Operation,
        intents: &[(usize, Intent)],
    ) -> Result<Reserved, Error> {
        if let Some(answer) = self.remembered(tx)? {
            return Ok(Reserved::Answered(answer));
        }
        for end in self.check(tx)? {
            journal::reserve(tx, END, &end, &operation.id)?;
        }
        for name in self.batch.records.iter().filter_map(|record| record.name.as_deref()) {
            journal::reserve(tx, NAME, name, &operation.id)?;
        }
        if let Some(key) = &self.batch.idempotency_key {
            journal::reserve(tx, REQUEST, key, &operation.id)?;
        }
        for (_index, intent) in intents {
            journal::insert(tx, intent, &self.unlocked)?;
        }
        Ok(Reserved::Begun)
    }

    /// Makes all of it visible, if it is still ours to do so.
    pub(crate) fn commit(
        &self,
        tx: &mut Tx<'_>,
        operation: &Operation,
        contexts: &HashMap<usize, Option<Json>>,
    ) -> Result<Vec<Created>, Error> {
        if !journal::is_ours(tx, operation, contexts.len())? {
            return Err(journal::too_late());
        }
        journal::free(tx, operation)?;
        self.write(tx, contexts)
    }

    /// What is there must fit. Tells which other records are used or use: they have to stay.
    fn check(&self, tx: &mut Tx<'_>) -> Result<Vec<String>, Error> {
        let refused = |fault: Fault| Err(texts::create(&[fault]));
        if let Some(key) = &self.batch.idempotency_key
            && journal::reserved(tx, REQUEST, key)?
        {
            return refused(texts::key_in_use());
        }
        for name in self.batch.records.iter().filter_map(|record| record.name.as_deref()) {
            if !tx.query("SELECT 1 FROM hub_records WHERE name = $1", params![name])?.is_empty() {
                return refused(texts::name_taken(name));
            }
            if journal::reserved(tx, NAME, name)? {
                return refused(texts::name_reserved(name));
            }
        }
        let mut ends: Vec<String> = self.relations().into_iter().flatten().collect();
        ends.sort_unstable();
        ends.dedup();
        ends.retain(|end| !self.ids.contains(end));
        for end in &ends {
            if tx.query_opt("SELECT 1 FROM hub_records WHERE id = $1", params![end])?.is_none() {
                return refused(texts::bad_relations());
            }
            let going = "SELECT 1 FROM hub_journal WHERE subject = $1 AND kind = 'delete'";
            if tx.query_opt(going, params![end])?.is_some() {
                return refused(Fault::busy(std::slice::from_ref(end)));
            }
        }
        let backends: BTreeSet<&str> =
            self.destinations.iter().filter_map(Destination::external).map(|backend| backend.id.as_str()).collect();
        for id in backends {
            if tx.query_opt("SELECT 1 FROM hub_records WHERE id = $1", params![id])?.is_none() {
                return refused(texts::unknown_backends(&[id.to_owned()]));
            }
        }
        Ok(ends)
    }

    fn write(&self, tx: &mut Tx<'_>, contexts: &HashMap<usize, Option<Json>>) -> Result<Vec<Created>, Error> {
        for index in 0..self.ids.len() {
            self.insert(tx, index, contexts.get(&index).and_then(Option::as_ref))?;
        }
        for [from, to] in self.relations() {
            relate(tx, &from, &to)?;
        }
        let created = self.ids.iter().zip(&self.aliases);
        let created = created.map(|(id, alias)| Created { id: id.clone(), alias: alias.clone() });
        let created: Vec<Created> = created.collect();
        self.remember(tx, &created)?;
        let events = self.ids.iter().zip(&self.namespaces);
        let events = events.map(|(id, namespace)| Event::new(id, namespace, ChangeKind::Created, 1));
        self.feed.write(tx, self.now, &events.collect::<Vec<_>>())?;
        Ok(created)
    }

    fn insert(&self, tx: &mut Tx<'_>, index: usize, context: Option<&Json>) -> Result<(), Error> {
        let (record, id, namespace) = (&self.batch.records[index], &self.ids[index], &self.namespaces[index]);
        let destination = &self.destinations[index];
        let row = RecordRow {
            id,
            name: record.name.as_deref(),
            namespace,
            type_ref: &record.type_ref,
            backend: destination.id(),
            storage: self.storage[index],
            created_at: self.now,
        };
        if !row.insert(tx)? {
            let name = record.name.as_deref().unwrap_or_default();
            return Err(texts::create(&[texts::name_taken(name)]));
        }
        let value = record.value.as_ref().filter(|_| destination.external().is_none());
        let version = NewVersion {
            number: 1,
            created_by: record.created_by.as_deref(),
            created_at: self.now,
            attributes: &record.attributes,
            value: value.map(|value| self.unlocked.seal(id, 1, Part::Value, value)).transpose()?,
            context: context.map(|context| self.unlocked.seal(id, 1, Part::Context, context)).transpose()?,
            has_value: Some(record.value.is_some()),
        };
        insert_version(tx, id, &version)?;
        relate(tx, id, destination.id())
    }

    /// An alias wins over an id.
    fn relations(&self) -> Vec<[String; 2]> {
        let by_alias: HashMap<&str, &str> =
            self.aliases.iter().map(String::as_str).zip(self.ids.iter().map(String::as_str)).collect();
        let resolve = |end: &str| by_alias.get(end).map_or(end.to_owned(), |id| (*id).to_owned());
        self.batch.relations.iter().map(|Relation { from, to }| [resolve(from), resolve(to)]).collect()
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

pub(crate) fn digest_of(batch: &Batch) -> String {
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
