//! Backends: which one keeps the values of a record, what it takes, and how it is called.
//!
//! A backend is a record, too. What its newest version says counts at once: what was made of a version is remembered under
//! that version only.

mod call;
mod config;
mod connect;
mod flights;
mod policy;
mod urls;

mod choose;
mod read;
mod registered;

use std::sync::Arc;

use backends::Driver;
use db::params;

use crate::hub::Hub;
use crate::model::{BUILT_IN, TypeRef};
use crate::remembered::Remembered;
use crate::store::rows;
use crate::{Error, Reason};

pub use config::Encoding;
pub use connect::{Connect, Endpoint};
pub use policy::PolicyRule;
pub use read::LockedBy;
pub use registered::StorageBackend;
pub use urls::{AllowedUrls, UrlError};

pub(crate) use call::{Call, Landed, Trouble, Wanted, code_name};
pub(crate) use choose::Destination;
pub(crate) use config::{Config, SCHEMA_FIELDS, comparable_schema, comparable_value, describes_backend};
pub(crate) use flights::{Flight, Flights};

/// A backend as one version of its record describes it.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) id: String,
    /// Of its record.
    version: u32,
    pub(crate) config: Config,
    driver: Arc<dyn Driver>,
}

/// Backends that were called before, by the id of their record.
#[derive(Debug, Default)]
pub(crate) struct Known(Remembered<String, Arc<Backend>>);

impl Hub {
    /// The backend of this id, which is not the built-in one.
    pub(crate) async fn backend(&self, id: &str) -> Result<Arc<Backend>, Error> {
        let sql = "SELECT latest, storage, type_path, type_revision FROM hub_records WHERE id = $1";
        let Some(row) = self.db().look_up(sql, params![id]).await? else {
            return Err(unresolved(id, Reason::NotFound, "there is no such record"));
        };
        let latest = u32::try_from(row.get::<i64>(0)?).unwrap_or_default();
        if let Some(known) = self.known_backends().get(id, latest) {
            return Ok(known);
        }
        // Boxed: the value of a backend's record may be kept by another backend.
        let value = Box::pin(self.value(id, latest)).await?;
        let config =
            Config::parse(value.as_ref()).map_err(|faults| unresolved(id, Reason::Invalid, &faults.join(", ")))?;
        if row.get::<i64>(1)? == 0 || id == BUILT_IN {
            let reference: TypeRef = TypeRef {
                path: rows::parsed(&row.get::<String>(2)?)?,
                revision: rows::parsed(&row.get::<String>(3)?)?,
            };
            let text = if self.is_storage(&reference).await? {
                let how = "update the record, which makes it one (one that another backend keeps is moved to the built-in one first)";
                format!("its Type {reference} was attached to cap.core.type.hub.storage after it was created: {how}")
            } else {
                format!("its Type {reference} is not attached to cap.core.type.hub.storage")
            };
            return Err(unresolved(id, Reason::Invalid, &text));
        }
        let urls = &self.settings().allowed_urls;
        urls.check(&config.url).map_err(|error| unresolved(id, Reason::Invalid, &error.to_string()))?;
        let endpoint =
            Endpoint { backend: id.to_owned(), url: config.url.clone(), mode: config.mode, encoding: config.encoding };
        let driver = self.connector().connect(&endpoint);
        let driver = driver.map_err(|failure| unresolved(id, Reason::Backend, &failure.text))?;
        let backend = Arc::new(Backend { id: id.to_owned(), version: latest, config, driver });
        self.known_backends().put(&backend);
        Ok(backend)
    }
}

fn unresolved(id: &str, reason: Reason, text: &str) -> Error {
    Error::refused(reason, format!("failed to resolve the TypeInstance's backend \"{id}\": {text}"))
}

impl Known {
    fn get(&self, id: &str, version: u32) -> Option<Arc<Backend>> {
        self.0.get(&id.to_owned()).filter(|backend| backend.version == version)
    }

    fn put(&self, backend: &Arc<Backend>) {
        self.0.put(backend.id.clone(), Arc::clone(backend), backend.config.bytes());
    }
}
