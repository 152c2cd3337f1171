//! Storage backends and what was begun with them.

use std::collections::HashMap;

use access::Action;

use super::acts::together;
use super::relations::{Targets, act};
use super::{Failure, GROUP, Guard};
use crate::model::Record;
use crate::rules::texts::{self, Fault};
use crate::{Error, Filter, JournalEntry, Json, LeftOutside, Reason, Retire, Retired, StorageBackend};

impl Guard {
    /// The backends that the caller may list, or get by their names.
    pub async fn storage_backends(&self) -> Result<Vec<StorageBackend>, Failure> {
        let listed = self.sight.namespaces("storagebackends", &self.hub.namespaces().await?).await?;
        let mut shown = Vec::new();
        for backend in self.hub.storage_backends().await? {
            let is_listed = listed.as_ref().is_none_or(|listed| listed.contains(&backend.record.namespace));
            if is_listed || self.sight.may(act("get", "storagebackends", &backend.record)).await? {
                shown.push(backend);
            }
        }
        Ok(shown)
    }

    /// The backend of an id or a name; nothing if the caller may not get it.
    pub async fn storage_backend(&self, id_or_name: &str) -> Result<Option<StorageBackend>, Failure> {
        match self.backend_record(id_or_name).await? {
            Some(record) => Ok(self.hub.storage_backend(&record.id).await?),
            None => Ok(None),
        }
    }

    /// Which backend takes records that name none, where no policy says otherwise; `None` is the built-in one.
    pub async fn default_backend(&self) -> Result<Option<String>, Failure> {
        Ok(self.hub.default_backend().await?)
    }

    /// How many records that the caller may list are kept there.
    pub async fn kept_there(&self, backend: &Record) -> Result<u64, Failure> {
        self.count(Filter { backend: Some(backend.id.clone()), ..Filter::default() }).await
    }

    /// What a backend that takes no values would say of a context. It is a value that the caller has no record of, hence the
    /// permission of its own.
    pub async fn pre_create_value(&self, backend: &str, context: &Json) -> Result<Option<Json>, Failure> {
        let unknown = || Error::refused(Reason::NotFound, format!("there is no storage backend \"{backend}\""));
        let record = self.backend_record(backend).await?.ok_or_else(unknown)?;
        self.caller.may(&act("get", "storagebackends", &record).subresource("value")).await?;
        Ok(self.hub.pre_create_value(&record.id, context).await?)
    }

    /// Moves records to another backend, which the caller may use; the answer has those that it may get.
    pub async fn move_records(
        &self,
        ids: Vec<String>,
        to: String,
        owner: Option<String>,
    ) -> Result<Vec<Record>, Failure> {
        self.check_count(ids.len())?;
        if !self.may_use(&to).await? {
            let Fault { reason, text } = texts::unknown_backends(&[to]);
            return Err(Error::refused(reason, text).into());
        }
        let Targets { records, missing } = self.targets(&ids).await?;
        if !missing.is_empty() {
            return Err(texts::update(&[Fault::not_found(&missing)]).into());
        }
        let acts = self.acts_on("update", ids.iter().filter_map(|id| records.get(id))).await?;
        let (hub, moving) = (self.hub.clone(), ids.clone());
        together(&self.caller, acts, async move { hub.move_records(moving, &to, owner).await.map(drop) }).await?;
        let moved = self.hub.records(&ids).await?;
        let mut moved: HashMap<String, Record> =
            self.seen(moved).await?.into_iter().map(|record| (record.id.clone(), record)).collect();
        Ok(ids.iter().filter_map(|id| moved.remove(id)).collect())
    }

    /// Ends a backend: its records are moved, or go and leave their values outside.
    pub async fn retire(&self, backend: &str, how: Retire) -> Result<Retired, Failure> {
        let unknown = || Error::refused(Reason::NotFound, format!("there is no storage backend \"{backend}\""));
        let record = self.backend_record(backend).await?.ok_or_else(unknown)?;
        let mut acts = vec![act("delete", "storagebackends", &record), act("delete", "typeinstances", &record)];
        match &how {
            Retire::Orphan => acts.push(act("orphan", "storagebackends", &record)),
            Retire::MoveTo(to) => {
                if !self.may_use(to).await? {
                    let Fault { reason, text } = texts::unknown_backends(std::slice::from_ref(to));
                    return Err(Error::refused(reason, text).into());
                }
            }
        }
        let hub = self.hub.clone();
        together(&self.caller, acts, async move { hub.retire(&record.id, how).await }).await
    }

    /// Everything that is open in the journal; it is about records of all namespaces.
    pub async fn journal(&self) -> Result<Vec<JournalEntry>, Failure> {
        self.caller.may(&Action::on("list", GROUP, "journal")).await?;
        Ok(self.hub.journal().await?)
    }

    /// Tries an entry now.
    pub async fn journal_retry(&self, id: &str) -> Result<(), Failure> {
        let (hub, id) = (self.hub.clone(), id.to_owned());
        let act = Action::on("update", GROUP, "journal").named(&id);
        together(&self.caller, vec![act], async move { hub.journal_retry(&id).await.map(drop) }).await
    }

    /// Gives an entry up; tells what stays at its backend.
    pub async fn journal_abandon(&self, id: &str) -> Result<Vec<LeftOutside>, Failure> {
        let (hub, id) = (self.hub.clone(), id.to_owned());
        let act = Action::on("delete", GROUP, "journal").named(&id);
        together(&self.caller, vec![act], async move { hub.journal_abandon(&id).await }).await
    }

    async fn backend_record(&self, id_or_name: &str) -> Result<Option<Record>, Failure> {
        let Some(record) = self.hub.find(id_or_name).await?.filter(|record| record.storage) else { return Ok(None) };
        Ok(self.sight.may(act("get", "storagebackends", &record)).await?.then_some(record))
    }
}
