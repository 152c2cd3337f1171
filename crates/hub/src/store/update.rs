//! New versions of records.

use std::collections::HashMap;

use db::{Tx, params};
use jiff::Timestamp;

use super::create::Checks;
use super::rows::{self, NewVersion, insert_version};
use crate::hub::Hub;
use crate::model::{AttributeRef, Record};
use crate::rules::locks::{Standing, standing};
use crate::rules::texts::Fault;
use crate::rules::{names, texts};
use crate::seal::{Part, Unlocked};
use crate::{Error, Json};

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

impl Hub {
    /// Gives every record a new version, even where nothing changes, all or none; the answer is in the order of the changes.
    /// A record that is named twice gets two.
    pub async fn update(&self, mut changes: Vec<Change>) -> Result<Vec<Record>, Error> {
        for change in &mut changes {
            change.value = change.value.take().filter(|value| !value.is_null());
            change.context = change.context.take().filter(|context| !context.is_null());
            if let Some(author) = &change.created_by {
                names::check_label("createdBy", author)?;
            }
        }
        let ids: Vec<String> = changes.iter().map(|change| change.id.clone()).collect();
        let types: HashMap<String, _> =
            self.records(&ids).await?.into_iter().map(|record| (record.id, record.type_ref)).collect();
        let mut faults = Vec::new();
        let mut checks = Checks::new(self);
        for change in &changes {
            if let Some(type_ref) = types.get(&change.id) {
                faults.extend(checks.misfit(type_ref, &change.id, change.value.as_ref()).await?);
            }
        }
        if !faults.is_empty() {
            return Err(texts::update(&faults));
        }
        let (unlocked, now) = (self.sealing().unlock().await?, Timestamp::now());
        self.db().write(move |tx| carry_out(tx, &changes, &ids, &unlocked, now)).await
    }
}

fn carry_out(
    tx: &mut Tx<'_>,
    changes: &[Change],
    ids: &[String],
    unlocked: &Unlocked,
    now: Timestamp,
) -> Result<Vec<Record>, Error> {
    let mut records: HashMap<String, Record> =
        rows::records(tx, ids)?.into_iter().map(|record| (record.id.clone(), record)).collect();
    let missing: Vec<String> = ids.iter().filter(|id| !records.contains_key(*id)).cloned().collect();
    if !missing.is_empty() {
        return Err(texts::update(&[Fault::not_found(&missing)]));
    }
    let foreign = |change: &&Change| {
        let lock = records.get(&change.id).and_then(|record| record.lock.as_ref());
        standing(lock, change.owner.as_deref(), now) == Standing::Stranger
    };
    let locked: Vec<String> = changes.iter().filter(foreign).map(|change| change.id.clone()).collect();
    if !locked.is_empty() {
        return Err(texts::update(&[Fault::locked(&locked)]));
    }
    let mut updated = Vec::with_capacity(changes.len());
    for change in changes {
        let Some(record) = records.get_mut(&change.id) else { continue };
        if let Some(expected) = change.expected.filter(|expected| *expected != record.latest) {
            return Err(texts::update(&[Fault::outdated(&record.id, expected, record.latest)]));
        }
        add_version(tx, change, record, unlocked, now)?;
        updated.push(record.clone());
    }
    Ok(updated)
}

fn add_version(
    tx: &mut Tx<'_>,
    change: &Change,
    record: &mut Record,
    unlocked: &Unlocked,
    now: Timestamp,
) -> Result<(), Error> {
    let (id, before) = (&record.id, record.latest);
    let next = before.checked_add(1).ok_or_else(|| Error::invalid("there are too many versions of this record"))?;
    let sql = "SELECT value, context FROM hub_versions WHERE record = $1 AND number = $2";
    let row = tx.query_opt(sql, params![id, i64::from(before)])?;
    let row = row.ok_or_else(|| Error::damaged(format!("record {id}"), "its newest version is missing"))?;
    // What is copied is sealed anew: it is bound to its version.
    let document = |given: &Option<Json>, column: usize, part: Part| {
        let kept: Option<Vec<u8>> = row.get(column)?;
        let kept = || kept.map(|sealed| unlocked.open(id, before, part, &sealed)).transpose();
        let document = if given.is_some() { given.clone() } else { kept()? };
        document.map(|document| unlocked.seal(id, next, part, &document)).transpose()
    };
    let attributes = match &change.attributes {
        Some(attributes) => attributes.clone(),
        None => rows::attributes(tx, id, before)?,
    };
    let version = NewVersion {
        number: next,
        created_by: change.created_by.as_deref(),
        created_at: now,
        attributes: &attributes,
        value: document(&change.value, 0, Part::Value)?,
        context: document(&change.context, 1, Part::Context)?,
    };
    insert_version(tx, id, &version)?;
    tx.execute("UPDATE hub_records SET latest = $1 WHERE id = $2", params![i64::from(next), id])?;
    record.latest = next;
    Ok(())
}
