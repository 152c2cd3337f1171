//! New records.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use super::calls::{Others, Outcome, call_all, given_up, troubles};
use crate::failpoints::Step;
use crate::hub::Hub;
use crate::journal::{Fate, Operation};
use crate::model::{BUILT_IN, TypeRef};
use crate::rules::texts::Fault;
use crate::rules::{aliases, names, texts};
use crate::storage::{Destination, Trouble, Wanted};
use crate::store::{Batch, Checks, Created, NewRecord, Plan, Reserved, digest_of};
use crate::{Error, Json};

impl Hub {
    /// Creates records, all or none; the answer is in the order of the batch.
    pub async fn create(&self, batch: Batch) -> Result<Vec<Created>, Error> {
        let plan = Arc::new(self.plan(batch).await?);
        if plan.destinations.iter().all(|destination| destination.external().is_none()) {
            return self.change(move |tx| plan.carry_out(tx)).await;
        }
        let hub = self.clone();
        self.to_the_end(async move { hub.create_outside(plan).await }).await
    }

    async fn create_outside(&self, plan: Arc<Plan>) -> Result<Vec<Created>, Error> {
        let operation = Operation::begin(self);
        let intents = plan.intents(&operation);
        let reserve = {
            let (plan, operation, intents) = (Arc::clone(&plan), operation.clone(), intents.clone());
            self.db().write(move |tx| plan.reserve(tx, &operation, &intents))
        };
        if let Reserved::Answered(answer) = reserve.await? {
            return Ok(answer);
        }
        Step::CreateReserved.hit();
        let calling = operation.calling();
        let outcomes = call_all(&intents, Others::Stop, |index, intent| {
            let (plan, calling) = (&plan, &calling);
            async move {
                let Destination::External(backend) = &plan.destinations[index] else { return Ok(None) };
                let wanted = Wanted {
                    version: 1,
                    value: plan.batch.records[index].value.clone(),
                    context: plan.context(index).cloned(),
                    old_context: None,
                    owner: None,
                };
                let context = backend.create(&calling.call(intent, 1), &wanted).await;
                Step::CreateCalled.hit();
                context
            }
        })
        .await;
        let faults: Vec<Fault> = troubles(&outcomes).into_iter().map(Trouble::fault).collect();
        if !faults.is_empty() {
            self.give_up(&operation, given_up(outcomes, Outcome::fate, |context| context)).await?;
            return Err(texts::create(&faults));
        }
        let context = |outcome: &Outcome<Option<Json>>| {
            let context = outcome.done.as_ref().and_then(|done| done.as_ref().ok()).cloned().flatten();
            (outcome.index, context)
        };
        let contexts: HashMap<usize, Option<Json>> = outcomes.iter().map(context).collect();
        Step::CreateBeforeCommit.hit();
        let commit = {
            let operation = operation.clone();
            self.change(move |tx| plan.commit(tx, &operation, &contexts))
        };
        match commit.await {
            Ok(created) => {
                Step::CreateCommitted.hit();
                Ok(created)
            }
            Err(error) => {
                self.give_up(&operation, given_up(outcomes, |_| Fate::UndoTwice, |context| context)).await?;
                Err(error)
            }
        }
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
        let storage: Vec<bool> = batch.records.iter().map(|record| is_storage[&record.type_ref]).collect();
        let mut faults = Vec::new();
        let mut checks = Checks::new(self);
        for ((record, alias), is_storage) in batch.records.iter().zip(&aliases).zip(&storage) {
            faults.extend(checks.misfit(&record.type_ref, alias, record.value.as_ref()).await?);
            if *is_storage {
                faults.extend(self.registration_faults(alias, record.value.as_ref(), &record.attributes));
            }
        }
        if !faults.is_empty() {
            return Err(texts::create(&faults));
        }
        let destinations = self.destinations(&batch.records, &storage).await?;
        let ids = batch.records.iter().map(|_| Uuid::now_v7().to_string()).collect();
        let digest = digest_of(&batch);
        let unlocked = self.sealing().unlock().await?;
        let (now, feed) = (self.now(), self.feed());
        Ok(Plan { batch, aliases, ids, namespaces, storage, destinations, now, digest, unlocked, feed })
    }

    /// Where each record goes, if its backend takes what is given.
    async fn destinations(&self, records: &[NewRecord], storage: &[bool]) -> Result<Vec<Destination>, Error> {
        let (mut destinations, mut unknown, mut faults) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut found: HashMap<(Option<&str>, Option<&TypeRef>), Destination> = HashMap::new();
        for (record, is_storage) in records.iter().zip(storage) {
            let named = record.backend.as_ref().and_then(|backend| backend.id.as_deref());
            let key = (named, named.is_none().then_some(&record.type_ref));
            if let Entry::Vacant(place) = found.entry(key) {
                let destination = match named {
                    Some(named) => self.named_destination(named).await,
                    None => self.unnamed_destination(&record.type_ref, *is_storage).await.map(Some),
                };
                match destination {
                    Ok(Some(destination)) => _ = place.insert(destination),
                    Ok(None) => _ = unknown.insert(named.unwrap_or_default().to_owned()),
                    Err(error) => faults.push(Fault::of(error)?),
                }
            }
            let Some(destination) = found.get(&key) else { continue };
            let context = record.backend.as_ref().and_then(|backend| backend.context.as_ref());
            match destination {
                Destination::BuiltIn if context.is_some() => {
                    return Err(if named.is_some() {
                        texts::no_context(BUILT_IN)
                    } else {
                        texts::context_for_nobody()
                    });
                }
                Destination::BuiltIn => {}
                Destination::External(backend) => {
                    let wrong = backend.config.input_faults(record.value.as_ref(), context);
                    faults.extend(wrong.iter().map(|fault| texts::external(&backend.id, fault)));
                }
            }
            destinations.push(destination.clone());
        }
        if !unknown.is_empty() {
            let unknown: Vec<String> = unknown.into_iter().collect();
            return Err(texts::create(&[texts::unknown_backends(&unknown)]));
        }
        if faults.is_empty() { Ok(destinations) } else { Err(texts::create(&faults)) }
    }
}
