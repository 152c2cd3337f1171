//! New versions of records: what is looked at, reserved and written.

use std::collections::{HashMap, HashSet};

use db::{Tx, params};
use jiff::Timestamp;

use super::rows::{self, NewVersion, insert_version};
use crate::changes::{ChangeKind, Event, Feed};
use crate::journal::{self, Intent, IntentKind, Operation};
use crate::model::{AttributeRef, Record};
use crate::rules::locks::{Standing, standing};
use crate::rules::texts::{self, Fault};
use crate::seal::{Part, Unlocked};
use crate::storage::Destination;
use crate::{Error, Json, Reason};

/// What a new version changes; what is absent stays as it was.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub id: String,
    /// Who changes it, where it is locked.
    pub owner: Option<String>,
    pub created_by: Option<String>,
    /// An empty list clears them.
    pub attributes: Option<Vec<AttributeRef>>,
    pub value: Option<Json>,
    pub context: Option<Json>,
    /// Refuses the change if another version is the newest.
    pub expected: Option<u32>,
}

/// What transactions need of changes; they may run more than once.
pub(crate) struct Updating {
    pub(crate) changes: Vec<Change>,
    /// Of records, as often as they are named.
    pub(crate) ids: Vec<String>,
    /// By record.
    pub(crate) destinations: HashMap<String, Destination>,
    /// Records that are storage backends from now on.
    pub(crate) becoming: HashSet<String>,
    pub(crate) unlocked: Unlocked,
    pub(crate) now: Timestamp,
    pub(crate) feed: Feed,
}

/// A record whose new versions are reserved.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) record: Record,
    /// Of its newest version.
    pub(crate) context: Option<Json>,
    pub(crate) has_value: Option<bool>,
    pub(crate) intent: Intent,
}

impl Updating {
    /// Everything in one transaction, where no backend is concerned.
    pub(crate) fn carry_out(&self, tx: &mut Tx<'_>) -> Result<Vec<Record>, Error> {
        let records = self.check(tx)?;
        self.write(tx, records, &HashMap::new())
    }

    /// Says what is to be done. Records that are kept here have an entry, too: all versions appear at once.
    pub(crate) fn reserve(&self, tx: &mut Tx<'_>, operation: &Operation) -> Result<Vec<Begun>, Error> {
        let mut records = self.check(tx)?;
        let mut begun = Vec::with_capacity(records.len());
        for id in &self.ids {
            let Some(record) = records.remove(id) else { continue };
            let named: Vec<&Change> = self.changes.iter().filter(|change| change.id == *id).collect();
            let count = u32::try_from(named.len()).unwrap_or(u32::MAX);
            let last = record.latest.checked_add(count).ok_or_else(too_many)?;
            let context = rows::latest_context(tx, &record, &self.unlocked)?;
            let told = named.iter().rev().find_map(|change| change.context.clone()).or_else(|| context.clone());
            let intent = operation.intent(IntentKind::Update, id, &record.backend);
            let holder = named.iter().find_map(|change| change.owner.clone());
            let intent = Intent { first: record.latest + 1, last, holder, context: told, ..intent };
            journal::insert(tx, &intent, &self.unlocked)?;
            let has_value = rows::values_of(tx, id)?.pop().flatten();
            begun.push(Begun { record, context, has_value, intent });
        }
        Ok(begun)
    }

    /// Makes all of it visible, if it is still ours to do so. `contexts` are those of changes of records kept elsewhere.
    pub(crate) fn commit(
        &self,
        tx: &mut Tx<'_>,
        operation: &Operation,
        entries: usize,
        contexts: &HashMap<usize, Option<Json>>,
    ) -> Result<Vec<Record>, Error> {
        if !journal::is_ours(tx, operation, entries)? {
            return Err(journal::too_late());
        }
        journal::free(tx, operation)?;
        let records = rows::records(tx, &self.ids)?;
        let records = records.into_iter().map(|record| (record.id.clone(), record)).collect();
        self.write(tx, records, contexts)
    }

    /// The records, if all are there and may be changed.
    fn check(&self, tx: &mut Tx<'_>) -> Result<HashMap<String, Record>, Error> {
        let refused = |fault: Fault| Err(texts::update(&[fault]));
        let records: HashMap<String, Record> =
            rows::records(tx, &self.ids)?.into_iter().map(|record| (record.id.clone(), record)).collect();
        let missing: Vec<String> = self.ids.iter().filter(|id| !records.contains_key(*id)).cloned().collect();
        if !missing.is_empty() {
            return refused(Fault::not_found(&missing));
        }
        let foreign = |change: &&Change| {
            let lock = records.get(&change.id).and_then(|record| record.lock.as_ref());
            standing(lock, change.owner.as_deref(), self.now) == Standing::Stranger
        };
        let locked: Vec<String> = self.changes.iter().filter(foreign).map(|change| change.id.clone()).collect();
        if !locked.is_empty() {
            return refused(Fault::locked(&locked));
        }
        let mut busy = journal::busy(tx, &self.ids)?;
        // One that was moved in the meantime is looked up again by the next attempt.
        let moved = |record: &&Record| {
            self.destinations.get(&record.id).map_or(crate::model::BUILT_IN, Destination::id) != record.backend
        };
        busy.extend(records.values().filter(moved).map(|record| record.id.clone()));
        if !busy.is_empty() {
            return refused(Fault::busy(&busy));
        }
        let mut latest: HashMap<&str, u32> = HashMap::new();
        for change in &self.changes {
            let Some(record) = records.get(&change.id) else { continue };
            let latest = latest.entry(&change.id).or_insert(record.latest);
            if let Some(expected) = change.expected.filter(|expected| expected != latest) {
                return refused(Fault::outdated(&record.id, expected, *latest));
            }
            *latest = latest.saturating_add(1);
        }
        Ok(records)
    }

    fn write(
        &self,
        tx: &mut Tx<'_>,
        mut records: HashMap<String, Record>,
        contexts: &HashMap<usize, Option<Json>>,
    ) -> Result<Vec<Record>, Error> {
        let mut updated = Vec::with_capacity(self.changes.len());
        for (index, change) in self.changes.iter().enumerate() {
            let Some(record) = records.get_mut(&change.id) else { continue };
            self.add_version(tx, change, record, contexts.get(&index))?;
            updated.push(record.clone());
        }
        let events: Vec<Event> = updated.iter().map(|record| Event::of(record, ChangeKind::Updated)).collect();
        self.feed.write(tx, self.now, &events)?;
        Ok(updated)
    }

    /// `outside`: the context that a backend keeps its value by.
    fn add_version(
        &self,
        tx: &mut Tx<'_>,
        change: &Change,
        record: &mut Record,
        outside: Option<&Option<Json>>,
    ) -> Result<(), Error> {
        let (id, before) = (&record.id, record.latest);
        let next = before.checked_add(1).ok_or_else(too_many)?;
        let sql = "SELECT value, context, has_value FROM hub_versions WHERE record = $1 AND number = $2";
        let row = tx.query_opt(sql, params![id, i64::from(before)])?;
        let row = row.ok_or_else(|| Error::damaged(format!("record {id}"), "its newest version is missing"))?;
        let seal = |document: Option<&Json>, part: Part| {
            document.map(|document| self.unlocked.seal(id, next, part, document)).transpose()
        };
        // What is copied is sealed anew: it is bound to its version.
        let copied = |given: &Option<Json>, column: usize, part: Part| {
            let kept: Option<Vec<u8>> = row.get(column)?;
            let kept = || kept.map(|sealed| self.unlocked.open(id, before, part, &sealed)).transpose();
            let document = if given.is_some() { given.clone() } else { kept()? };
            seal(document.as_ref(), part)
        };
        let (value, context) = match outside {
            Some(context) => (None, seal(context.as_ref(), Part::Context)?),
            None => (copied(&change.value, 0, Part::Value)?, copied(&change.context, 1, Part::Context)?),
        };
        let attributes = match &change.attributes {
            Some(attributes) => attributes.clone(),
            None => rows::attributes(tx, id, before)?,
        };
        let version = NewVersion {
            number: next,
            created_by: change.created_by.as_deref(),
            created_at: self.now,
            attributes: &attributes,
            value,
            context,
            has_value: if change.value.is_some() { Some(true) } else { rows::has_value(&row, 2)? },
        };
        insert_version(tx, id, &version)?;
        record.storage |= self.becoming.contains(id);
        let sql = "UPDATE hub_records SET latest = $1, storage = $2 WHERE id = $3";
        tx.execute(sql, params![i64::from(next), i64::from(record.storage), id])?;
        record.latest = next;
        Ok(())
    }
}

fn too_many() -> Error {
    Error::refused(Reason::Invalid, "there are too many versions of this record")
}
