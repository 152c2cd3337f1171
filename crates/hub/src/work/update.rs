//! New versions of records.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use backends::Mode;

use super::calls::{Others, Outcome, call_all, given_up, troubles};
use crate::failpoints::Step;
use crate::hub::Hub;
use crate::journal::{Calling, Fate, Intent, Operation};
use crate::model::{Record, TypeRef};
use crate::rules::texts::Fault;
use crate::rules::{names, texts};
use crate::storage::{Destination, Landed, Trouble, Wanted};
use crate::store::{Begun, Change, Checks, Updating};
use crate::{Error, Json};

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
        let records: HashMap<String, Record> =
            self.records(&ids).await?.into_iter().map(|record| (record.id.clone(), record)).collect();
        let becoming = self.becoming_storage(&records).await?;
        let destinations = self.check_changes(&changes, &records, &becoming).await?;
        self.release_expired(records.into_values()).await.map_err(|fault| fault.told(texts::update))?;
        let (unlocked, now, feed) = (self.sealing().unlock().await?, self.now(), self.feed());
        let is_outside = destinations.values().any(|destination| destination.external().is_some());
        let updating = Arc::new(Updating { changes, ids, destinations, becoming, unlocked, now, feed });
        if !is_outside {
            return self.change(move |tx| updating.carry_out(tx)).await;
        }
        let hub = self.clone();
        self.to_the_end(async move { hub.update_outside(updating).await }).await
    }

    /// Those whose Type was attached to the storage node after they were created: a new version of one is one of a backend. Not
    /// of what another backend keeps: a backend must be readable when others are not.
    async fn becoming_storage(&self, records: &HashMap<String, Record>) -> Result<HashSet<String>, Error> {
        let (mut known, mut becoming): (HashMap<&TypeRef, bool>, HashSet<String>) = (HashMap::new(), HashSet::new());
        for record in records.values().filter(|record| !record.storage && record.is_kept_here()) {
            let is_storage = match known.get(&record.type_ref) {
                Some(is_storage) => *is_storage,
                None => self.is_storage(&record.type_ref).await?,
            };
            known.insert(&record.type_ref, is_storage);
            if is_storage {
                becoming.insert(record.id.clone());
            }
        }
        Ok(becoming)
    }

    /// What keeps values and contexts from being taken; else where the records are kept.
    async fn check_changes(
        &self,
        changes: &[Change],
        records: &HashMap<String, Record>,
        becoming: &HashSet<String>,
    ) -> Result<HashMap<String, Destination>, Error> {
        let (mut faults, mut destinations) = (Vec::new(), HashMap::new());
        let mut checks = Checks::new(self);
        for change in changes {
            let Some(record) = records.get(&change.id) else { continue };
            faults.extend(checks.misfit(&record.type_ref, &change.id, change.value.as_ref()).await?);
            let is_new = becoming.contains(&record.id);
            if is_new || record.storage && !record.is_built_in() {
                faults.extend(self.reregistration_faults(change, record, is_new).await?);
            }
            if !destinations.contains_key(&record.id) {
                match self.destination(&record.backend).await {
                    Ok(destination) => _ = destinations.insert(record.id.clone(), destination),
                    Err(error) => faults.push(Fault::of(error)?),
                }
            }
            let Some(Destination::External(backend)) = destinations.get(&record.id) else { continue };
            let before = if change.context.is_some() { None } else { self.latest_context(record).await? };
            let wrong = match before {
                // What is there was taken before.
                Some(_) => backend.config.value_faults(change.value.as_ref()),
                None => backend.config.input_faults(change.value.as_ref(), change.context.as_ref()),
            };
            faults.extend(wrong.iter().map(|fault| texts::external(&backend.id, fault)));
        }
        if faults.is_empty() { Ok(destinations) } else { Err(texts::update(&faults)) }
    }

    /// What keeps a backend's record from becoming what a change makes of it. Of one that was none, all of it is new.
    async fn reregistration_faults(&self, change: &Change, record: &Record, is_new: bool) -> Result<Vec<Fault>, Error> {
        let value = match &change.value {
            Some(value) => Some(value.clone()),
            None if is_new || change.attributes.is_some() => self.value(&record.id, record.latest).await?,
            None => return Ok(Vec::new()),
        };
        let attributes = match &change.attributes {
            Some(attributes) => attributes.clone(),
            None => self.versions(&record.id).await?.pop().map(|version| version.attributes).unwrap_or_default(),
        };
        Ok(self.registration_faults(record.called(), value.as_ref(), &attributes))
    }

    async fn update_outside(&self, updating: Arc<Updating>) -> Result<Vec<Record>, Error> {
        let operation = Operation::begin(self);
        let reserve = {
            let (updating, operation) = (Arc::clone(&updating), operation.clone());
            self.db().write(move |tx| updating.reserve(tx, &operation))
        };
        let begun = reserve.await?;
        Step::UpdateReserved.hit();
        let calling = operation.calling();
        let intents: Vec<(usize, Intent)> =
            begun.iter().enumerate().map(|(index, begun)| (index, begun.intent.clone())).collect();
        let outcomes =
            call_all(&intents, Others::Stop, |index, _intent| add_versions(&updating, &calling, &begun[index])).await;
        let faults: Vec<Fault> = troubles(&outcomes).into_iter().map(Trouble::fault).collect();
        if !faults.is_empty() {
            self.give_up(&operation, given_up(outcomes, Outcome::fate, newest)).await?;
            return Err(texts::update(&faults));
        }
        let done = outcomes.iter().filter_map(|outcome| outcome.done.as_ref()?.as_ref().ok());
        let contexts: HashMap<usize, Option<Json>> = done.flatten().cloned().collect();
        Step::UpdateBeforeCommit.hit();
        let commit = {
            let (operation, entries) = (operation.clone(), intents.len());
            self.change(move |tx| updating.commit(tx, &operation, entries, &contexts))
        };
        match commit.await {
            Ok(updated) => {
                Step::UpdateCommitted.hit();
                Ok(updated)
            }
            Err(error) => {
                self.give_up(&operation, given_up(outcomes, |_| Fate::Undo, newest)).await?;
                Err(error)
            }
        }
    }
}

/// The context of the last version that was added.
fn newest(mut contexts: Vec<(usize, Option<Json>)>) -> Option<Json> {
    contexts.pop().and_then(|(_index, context)| context)
}

/// Adds the versions of one record at its backend, one after another. Tells the contexts, by the index of their change.
async fn add_versions(
    updating: &Updating,
    calling: &Calling,
    begun: &Begun,
) -> Result<Vec<(usize, Option<Json>)>, Trouble> {
    let Some(Destination::External(backend)) = updating.destinations.get(&begun.record.id) else {
        return Ok(Vec::new());
    };
    let named = updating.changes.iter().enumerate().filter(|(_index, change)| change.id == begun.record.id);
    let (mut value, mut context) = (None, begun.context.clone());
    let mut contexts = Vec::new();
    for ((index, change), version) in named.zip(begun.intent.first..) {
        if let Some(given) = &change.value {
            value = Some(given.clone());
        } else if value.is_none() && backend.config.mode == Mode::Value {
            let call = calling.call(&begun.intent, 0);
            let (latest, has_value) = (begun.record.latest, begun.has_value);
            let kept = backend.kept_value(&call, latest, begun.context.as_ref(), has_value).await;
            value = kept.map_err(|trouble| after(&contexts, trouble.without_traces()))?;
        }
        let wanted = Wanted {
            version,
            value: value.clone(),
            context: change.context.clone().or_else(|| context.clone()),
            old_context: context,
            owner: change.owner.clone(),
        };
        let updated = backend.update(&calling.call(&begun.intent, version), &wanted).await;
        Step::UpdateCalled.hit();
        context = updated.map_err(|trouble| after(&contexts, trouble))?;
        contexts.push((index, context.clone()));
    }
    Ok(contexts)
}

/// Of the versions before the one that failed there is something.
fn after(done: &[(usize, Option<Json>)], trouble: Trouble) -> Trouble {
    let landed = if done.is_empty() { trouble.landed } else { Landed::Perhaps };
    Trouble { landed, ..trouble }
}
