//! What changes records. What the caller may not get is not there, in the same words.

use access::Action;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::SignedDuration;

use super::acts::together;
use super::relations::{Targets, act, is_in_use, makes_default};
use super::{Failure, Guard};
use crate::model::{Lock, Record};
use crate::rules::locks::{Standing, standing};
use crate::rules::names;
use crate::rules::texts::{self, Fault, Kept};
use crate::{Batch, Change, Created, Deletion, Error, LeftOutside, OnBackendFailure};

impl Guard {
    /// Creates records, all of them or none.
    pub async fn create(&self, mut batch: Batch) -> Result<Vec<Created>, Failure> {
        self.check_count(batch.records.len() + batch.relations.len())?;
        batch.idempotency_key = batch.idempotency_key.map(|key| self.own_key(&key)).transpose()?;
        self.check_backends(&batch).await?;
        let mut acts = self.acts_of_creation(&batch).await?;
        acts.extend(self.acts_of_relations(&batch).await?);
        let hub = self.hub.clone();
        together(&self.caller, acts, async move { hub.create(batch).await }).await
    }

    /// The key of a request as it is kept: somebody else's of the same text is another, neither answered nor in the way.
    fn own_key(&self, key: &str) -> Result<String, Error> {
        names::check_label("idempotencyKey", key)?;
        let own = format!("{}\0{key}", self.caller.identity().user);
        Ok(BASE64_STANDARD.encode(digest(&SHA256, own.as_bytes())))
    }

    /// Gives records a new version; the answer has those that the caller may get.
    pub async fn update(&self, changes: Vec<Change>) -> Result<Vec<Record>, Failure> {
        self.check_count(changes.len())?;
        let ids: Vec<String> = changes.iter().map(|change| change.id.clone()).collect();
        let Targets { records, missing } = self.targets(&ids).await?;
        if !missing.is_empty() {
            return Err(texts::update(&[Fault::not_found(&missing)]).into());
        }
        let mut acts = self.acts_on("update", ids.iter().filter_map(|id| records.get(id))).await?;
        for change in &changes {
            let Some(record) = records.get(&change.id) else { continue };
            if change.attributes.as_deref().is_some_and(makes_default) {
                acts.push(act("update", "storagebackends", record));
            }
        }
        let hub = self.hub.clone();
        let updated = together(&self.caller, acts, async move { hub.update(changes).await }).await?;
        self.seen(updated).await
    }

    /// Deletes records, all of them or none; tells what stays outside.
    pub async fn delete(&self, deletion: Deletion) -> Result<Vec<LeftOutside>, Failure> {
        self.check_count(deletion.ids.len())?;
        let Targets { records, missing } = self.targets(&deletion.ids).await?;
        if let Some(id) = missing.first() {
            return Err(texts::delete(id, &Kept::NotFound).into());
        }
        let going = || deletion.ids.iter().filter_map(|id| records.get(id));
        let mut acts = self.acts_on("delete", going()).await?;
        if deletion.on_backend_failure == OnBackendFailure::Orphan {
            acts.extend(going().map(|record| act("orphan", "typeinstances", record)));
        }
        let (hub, ids) = (self.hub.clone(), deletion.ids.clone());
        let deleted = together(&self.caller, acts, async move { hub.delete(deletion).await }).await;
        match deleted {
            // The hub names whatever uses a record; the caller hears of what it may get.
            Err(failure) if is_in_use(&failure) => Err(self.in_use(&ids).await?.map_or(failure, Failure::from)),
            other => other,
        }
    }

    pub async fn lock(&self, ids: Vec<String>, owner: String, lease: Option<SignedDuration>) -> Result<(), Failure> {
        let acts = self.acts_of_locking("create", &ids, Some(&owner), texts::lock).await?;
        let hub = self.hub.clone();
        together(&self.caller, acts, async move { hub.lock(ids, owner, lease).await }).await
    }

    pub async fn unlock(&self, ids: Vec<String>, owner: String) -> Result<(), Failure> {
        let acts = self.acts_of_locking("delete", &ids, Some(&owner), texts::unlock).await?;
        let hub = self.hub.clone();
        together(&self.caller, acts, async move { hub.unlock(ids, owner).await }).await
    }

    /// Releases records whoever holds them.
    pub async fn force_unlock(&self, ids: Vec<String>) -> Result<(), Failure> {
        let acts = self.acts_of_locking("force-unlock", &ids, None, texts::unlock).await?;
        let hub = self.hub.clone();
        together(&self.caller, acts, async move { hub.force_unlock(ids).await }).await
    }

    async fn acts_of_locking(
        &self,
        verb: &'static str,
        ids: &[String],
        owner: Option<&str>,
        texts: fn(&[Fault]) -> Error,
    ) -> Result<Vec<Action>, Failure> {
        self.check_count(ids.len())?;
        let Targets { records, missing } = self.targets(ids).await?;
        if missing.is_empty() {
            let records = ids.iter().filter_map(|id| records.get(id));
            return Ok(records.map(|record| act(verb, "typeinstances", record).subresource("lock")).collect());
        }
        let mut faults = vec![Fault::not_found(&missing)];
        let foreign = |lock: Option<&Lock>| standing(lock, owner, self.hub.now()) == Standing::Stranger;
        let locked = ids
            .iter()
            .filter(|id| owner.is_some() && records.get(*id).is_some_and(|record| foreign(record.lock.as_ref())));
        let locked: Vec<String> = locked.cloned().collect();
        if !locked.is_empty() {
            faults.push(Fault::locked(&locked));
        }
        Err(texts(&faults).into())
    }

    pub(super) fn check_count(&self, count: usize) -> Result<(), Failure> {
        if count > self.limits.batch { Err(self.too_many("TypeInstances")) } else { Ok(()) }
    }
}
