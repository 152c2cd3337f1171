//! What a change is about to touch, and how much of it the caller may know.

use std::collections::{BTreeSet, HashMap, HashSet};

use access::Action;

use super::sight::Part;
use super::{Failure, GROUP, Guard};
use crate::model::{AttributeRef, BUILT_IN, NodePath, Record, TypeRef};
use crate::rules::texts;
use crate::{Batch, DEFAULT_ATTRIBUTE, Error, Reason, StorageChoice};

/// Records that are to be changed, as far as the caller may get them.
pub(super) struct Targets {
    pub(super) records: HashMap<String, Record>,
    /// What is not there, or not for this caller, in the order in which it was named.
    pub(super) missing: Vec<String>,
}

impl Guard {
    pub(super) async fn targets(&self, ids: &[String]) -> Result<Targets, Failure> {
        let records = self.seen(self.hub.records(ids).await?).await?;
        let records: HashMap<String, Record> = records.into_iter().map(|record| (record.id.clone(), record)).collect();
        let mut told = HashSet::new();
        let missing = ids.iter().filter(|id| !records.contains_key(*id) && told.insert(id.as_str())).cloned().collect();
        Ok(Targets { records, missing })
    }

    /// The acts of doing this to records: on storage backends, the same verb is needed twice.
    pub(super) async fn acts_on(
        &self,
        verb: &'static str,
        records: impl Iterator<Item = &Record>,
    ) -> Result<Vec<Action>, Failure> {
        let (marked, mut storage, mut acts) = (self.hub.marked_default().await?, HashMap::new(), Vec::new());
        for record in records {
            acts.push(act(verb, "typeinstances", record));
            if record.storage || self.is_storage(&record.type_ref, &mut storage).await? || marked.contains(&record.id) {
                acts.push(act(verb, "storagebackends", record));
            }
        }
        Ok(acts)
    }

    /// Asked once for each Type.
    async fn is_storage(&self, type_ref: &TypeRef, known: &mut HashMap<TypeRef, bool>) -> Result<bool, Failure> {
        if let Some(known) = known.get(type_ref) {
            return Ok(*known);
        }
        let is = self.hub.is_storage(type_ref).await?;
        known.insert(type_ref.clone(), is);
        Ok(is)
    }

    /// The acts of a batch of new records.
    pub(super) async fn acts_of_creation(&self, batch: &Batch) -> Result<Vec<Action>, Failure> {
        let (mut storage, mut acts) = (HashMap::new(), Vec::new());
        for record in &batch.records {
            let namespace = record.namespace.clone().unwrap_or_else(|| self.hub.settings().namespace.clone());
            let create = |resource| {
                let act = Action::on("create", GROUP, resource).in_namespace(namespace.clone());
                match &record.name {
                    Some(name) => act.named(name.clone()),
                    None => act,
                }
            };
            acts.push(create("typeinstances"));
            if makes_default(&record.attributes) || self.is_storage(&record.type_ref, &mut storage).await? {
                acts.push(create("storagebackends"));
            }
        }
        Ok(acts)
    }

    /// Backends that the caller may not get are not there.
    pub(super) async fn check_backends(&self, batch: &Batch) -> Result<(), Failure> {
        let mut chosen = BTreeSet::new();
        for record in &batch.records {
            match &record.backend {
                Some(StorageChoice { id: Some(id), .. }) => _ = chosen.insert(id.clone()),
                // A context is more than what everybody may leave to the hub.
                Some(StorageChoice { id: None, context: Some(_) }) => {
                    chosen.extend(self.hub.chosen_backend(&record.type_ref).await?);
                }
                _ => {}
            }
        }
        let mut unknown = Vec::new();
        for backend in chosen {
            if !self.may_use(&backend).await? {
                unknown.push(backend);
            }
        }
        if unknown.is_empty() { Ok(()) } else { Err(texts::create(&[texts::unknown_backends(&unknown)]).into()) }
    }

    /// Everybody has the built-in store.
    pub(super) async fn may_use(&self, backend: &str) -> Result<bool, Failure> {
        let Some(record) = self.hub.find(backend).await? else { return Ok(false) };
        if record.id == BUILT_IN {
            return Ok(true);
        }
        let get = act("get", "storagebackends", &record);
        Ok(self.sight.may(get).await? || self.sight.sees(&record, Part::Metadata).await?)
    }

    /// The acts that relations need beside those of the batch: what gets a relation is updated, what it leads to is seen.
    pub(super) async fn acts_of_relations(&self, batch: &Batch) -> Result<Vec<Action>, Failure> {
        let aliases: HashSet<&str> = batch.records.iter().filter_map(|record| record.alias.as_deref()).collect();
        let known = |end: &&String| !aliases.contains(end.as_str());
        let ends = batch.relations.iter().flat_map(|relation| [&relation.from, &relation.to]);
        let ends: Vec<String> = ends.filter(known).cloned().collect();
        let Targets { records, missing } = self.targets(&ends).await?;
        if !missing.is_empty() {
            return Err(texts::create(&[texts::bad_relations()]).into());
        }
        let sources = batch.relations.iter().filter_map(|relation| records.get(&relation.from));
        let sources = sources.filter(|record| !aliases.contains(record.id.as_str()));
        Ok(sources.map(|record| act("update", "typeinstances", record)).collect())
    }

    /// Why records that others use cannot go, with the names of those that the caller may get.
    pub(super) async fn in_use(&self, ids: &[String]) -> Result<Option<Error>, Failure> {
        let used_by = self.hub.used_by(ids).await?;
        for id in ids {
            let users: Vec<Record> = used_by.get(id).cloned().unwrap_or_default();
            let users: Vec<Record> = users.into_iter().filter(|user| !ids.contains(&user.id)).collect();
            let count = users.len();
            let mut seen: Vec<String> = self.seen(users).await?.into_iter().map(|user| user.id).collect();
            if seen.len() < count {
                seen.push(format!("{} that you may not get", count - seen.len()));
            }
            if !seen.is_empty() {
                return Ok(Some(texts::delete(id, &texts::Kept::UsedBy(seen))));
            }
        }
        Ok(None)
    }
}

pub(super) fn act(verb: &'static str, resource: &'static str, record: &Record) -> Action {
    Action::on(verb, GROUP, resource).in_namespace(&record.namespace).named(record.called())
}

pub(super) fn makes_default(attributes: &[AttributeRef]) -> bool {
    attributes.iter().map(|attribute| &attribute.path).map(NodePath::as_str).any(|path| path == DEFAULT_ATTRIBUTE)
}

pub(super) fn is_in_use(failure: &Failure) -> bool {
    matches!(failure, Failure::Hub(Error::Refused { reason: Reason::InUse, .. }))
}
