//! Which backend keeps a new record: the one that is named, else that of a rule, else the default, else the built-in one.

use std::sync::Arc;

use db::params;

use super::{Backend, Config, SCHEMA_FIELDS, policy};
use crate::hub::Hub;
use crate::model::{AttributeRef, BUILT_IN, TypeRef};
use crate::rules::texts::Fault;
use crate::store::DEFAULT_ATTRIBUTE as DEFAULT;
use crate::types::Schema;
use crate::{Error, Json, Reason};

/// Where the values of a record are kept.
#[derive(Clone, Debug)]
pub(crate) enum Destination {
    BuiltIn,
    External(Arc<Backend>),
}

impl Destination {
    pub(crate) fn id(&self) -> &str {
        match self {
            Destination::BuiltIn => BUILT_IN,
            Destination::External(backend) => &backend.id,
        }
    }

    pub(crate) fn external(&self) -> Option<&Arc<Backend>> {
        match self {
            Destination::BuiltIn => None,
            Destination::External(backend) => Some(backend),
        }
    }
}

impl Hub {
    /// Where a new record goes that names no backend. Backends' own records stay here: they must be readable when others
    /// are not.
    pub(crate) async fn unnamed_destination(&self, type_ref: &TypeRef, is_storage: bool) -> Result<Destination, Error> {
        if is_storage {
            return Ok(Destination::BuiltIn);
        }
        if let Some(named) = policy::chosen(&self.settings().policy, type_ref) {
            let unknown = || {
                let text = format!("the policy keeps {type_ref} in \"{named}\", which is not there; register it");
                Error::refused(Reason::NotFound, text)
            };
            return self.named_destination(named).await?.ok_or_else(unknown);
        }
        match self.default_backend().await? {
            Some(id) if id != BUILT_IN => Ok(Destination::External(self.backend(&id).await?)),
            _ => Ok(Destination::BuiltIn),
        }
    }

    /// The id or the name of the backend that takes records of this Type which name none; `None` is the built-in one.
    pub async fn chosen_backend(&self, type_ref: &TypeRef) -> Result<Option<String>, Error> {
        if self.is_storage(type_ref).await? {
            return Ok(None);
        }
        match policy::chosen(&self.settings().policy, type_ref) {
            Some(named) => Ok(Some(named.to_owned())),
            None => Ok(self.default_backend().await?.filter(|id| id != BUILT_IN)),
        }
    }

    /// The backend of an id or a name; `None` if there is no such record.
    pub(crate) async fn named_destination(&self, id_or_name: &str) -> Result<Option<Destination>, Error> {
        let sql = "SELECT id FROM hub_records WHERE id = $1 OR name = $1";
        let Some(row) = self.db().look_up(sql, params![id_or_name]).await? else { return Ok(None) };
        self.destination(&row.get::<String>(0)?).await.map(Some)
    }

    /// The backend of an id.
    pub(crate) async fn destination(&self, id: &str) -> Result<Destination, Error> {
        if id == BUILT_IN { Ok(Destination::BuiltIn) } else { Ok(Destination::External(self.backend(id).await?)) }
    }

    /// The oldest record that is a backend and says so in its newest version.
    pub async fn default_backend(&self) -> Result<Option<String>, Error> {
        let sql = "SELECT r.created_at, r.id FROM hub_attributes a \
                   JOIN hub_records r ON r.id = a.record AND r.latest = a.number WHERE a.path = $1 AND r.storage = 1";
        let rows = self.db().read(move |tx| tx.query(sql, params![DEFAULT])).await.map_err(|error: db::Error| error)?;
        let read = |row: &db::Row| Ok((row.get::<i64>(0)?, row.get::<String>(1)?));
        let found = rows.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
        Ok(found.into_iter().min().map(|(_created_at, id)| id))
    }

    /// What keeps a record from being a backend, or the default one. What is merely incomplete is found at its first use, as
    /// in the original.
    pub(crate) fn registration_faults(
        &self,
        name: &str,
        value: Option<&Json>,
        attributes: &[AttributeRef],
    ) -> Vec<Fault> {
        let told = |text: &str| Fault::new(Reason::Invalid, format!("storage backend \"{name}\": {text}"));
        let mut faults = Vec::new();
        let fields = value.map(Json::value).unwrap_or_default();
        if let Some(url) = fields.get("url").and_then(serde_json::Value::as_str)
            && let Err(error) = self.settings().allowed_urls.check(url)
        {
            faults.push(told(&error.to_string()));
        }
        for field in SCHEMA_FIELDS {
            let schema = fields.get(field).filter(|schema| schema.is_object());
            if let Some(Err(error)) = schema.map(Schema::compile) {
                faults.push(told(&format!("{field}: {error}")));
            }
        }
        if faults.is_empty() && attributes.iter().any(|attribute| attribute.path.as_str() == DEFAULT) {
            let fault = match Config::parse(value) {
                Ok(config) => config.default_fault().map(str::to_owned),
                Err(wrong) => Some(format!("it cannot be the default: {}", wrong.join(", "))),
            };
            faults.extend(fault.map(|fault| told(&fault)));
        }
        faults
    }
}
