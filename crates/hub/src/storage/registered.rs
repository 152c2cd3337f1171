//! The backends that are registered, whether they answer, and what they would say of a record to be.

use futures::future::join_all;
use serde_json::Value;

use super::Call;
use crate::hub::Hub;
use crate::model::{BUILT_IN, Record};
use crate::store::rows;
use crate::{Error, Json, Reason};

/// A registered backend.
#[derive(Debug)]
pub struct StorageBackend {
    pub record: Record,
    /// `None` for the built-in one, and where the record does not tell.
    pub url: Option<String>,
    pub accept_value: bool,
    pub context_schema: Option<Value>,
    /// Whether it answers; else why not, or what is wrong with its record.
    pub health: Result<(), Error>,
}

impl Hub {
    /// Every backend, in the order of lists. All are asked at once how they are.
    pub async fn storage_backends(&self) -> Result<Vec<StorageBackend>, Error> {
        let sql = format!("{} WHERE r.storage = 1 ORDER BY r.place", rows::RECORDS);
        let found = self
            .db()
            .read(move |tx| tx.query(&sql, &[])?.iter().map(rows::record).collect::<Result<Vec<Record>, Error>>());
        let described = found.await?.into_iter().map(|record| self.described(record));
        Ok(join_all(described).await)
    }

    /// The backend of an id or a name.
    pub async fn storage_backend(&self, id_or_name: &str) -> Result<Option<StorageBackend>, Error> {
        match self.find(id_or_name).await?.filter(|record| record.storage) {
            Some(record) => Ok(Some(self.described(record).await)),
            None => Ok(None),
        }
    }

    /// The value that a record with this context would have in a backend that takes contexts only.
    pub async fn pre_create_value(&self, backend: &str, context: &Json) -> Result<Option<Json>, Error> {
        let unknown = || Error::refused(Reason::NotFound, format!("there is no storage backend \"{backend}\""));
        let id = self.find(backend).await?.ok_or_else(unknown)?.id;
        if id == BUILT_IN {
            return Err(Error::invalid("the built-in storage backend keeps values and makes none from a context"));
        }
        let backend = self.backend(&id).await?;
        let faults = backend.config.input_faults(None, Some(context));
        if !faults.is_empty() {
            return Err(Error::invalid(format!("External backend \"{id}\": {}", faults.join(", "))));
        }
        let call = Call::reading("", self.settings().times.read);
        backend.pre_create_value(&call, context).await.map_err(|trouble| trouble.error())
    }

    async fn described(&self, record: Record) -> StorageBackend {
        if record.is_built_in() {
            return StorageBackend { record, url: None, accept_value: true, context_schema: None, health: Ok(()) };
        }
        match self.backend(&record.id).await {
            Err(error) => {
                StorageBackend { record, url: None, accept_value: false, context_schema: None, health: Err(error) }
            }
            Ok(backend) => {
                let health = backend.health(self.settings().times.lock_question).await;
                StorageBackend {
                    record,
                    url: Some(backend.config.url.clone()),
                    accept_value: backend.config.mode == backends::Mode::Value,
                    context_schema: backend.config.context.as_ref().map(|schema| schema.source.clone()),
                    health: health.map_err(|trouble| trouble.error()),
                }
            }
        }
    }
}
