//! What a Type says of values.

use std::collections::HashMap;

use super::types::{Known, Reading};
use crate::hub::Hub;
use crate::model::TypeRef;
use crate::rules::texts::{self, Fault};
use crate::storage::{comparable_value, describes_backend};
use crate::{Error, Json};

/// Checks the values of one request; what a Type says is looked up once.
pub(crate) struct Checks<'a> {
    hub: &'a Hub,
    known: HashMap<(TypeRef, Reading), Option<Known>>,
    storage: HashMap<TypeRef, bool>,
}

impl<'a> Checks<'a> {
    pub(crate) fn new(hub: &'a Hub) -> Checks<'a> {
        Checks { hub, known: HashMap::new(), storage: HashMap::new() }
    }

    /// What is wrong with a value by its Type; nothing if the Type is not known and need not be.
    pub(crate) async fn misfit(
        &mut self,
        type_ref: &TypeRef,
        alias: &str,
        value: Option<&Json>,
    ) -> Result<Option<Fault>, Error> {
        let Some(known) = self.known(type_ref, Reading::AsWritten).await? else {
            let required = self.hub.settings().require_types;
            return Ok(required.then(|| texts::unknown_type(&type_ref.to_string())));
        };
        let (Known::Schema(schema), Some(value)) = (known, value) else { return Ok(None) };
        let Some(value) = value.comparable() else {
            return Ok(Some(texts::misfit(alias, &[texts::incomparable("value")])));
        };
        let faults = if describes_backend(&value) && self.is_storage(type_ref).await? {
            match self.known(type_ref, Reading::OfStorage).await? {
                Some(Known::Schema(schema)) => schema.faults("value", &comparable_value(value)),
                _ => Vec::new(),
            }
        } else {
            schema.faults("value", &value)
        };
        Ok((!faults.is_empty()).then(|| texts::misfit(alias, &faults)))
    }

    async fn known(&mut self, type_ref: &TypeRef, reading: Reading) -> Result<Option<Known>, Error> {
        let key = (type_ref.clone(), reading);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let known = self.hub.schema(type_ref, reading).await?;
        self.known.insert(key, known.clone());
        Ok(known)
    }

    async fn is_storage(&mut self, type_ref: &TypeRef) -> Result<bool, Error> {
        if let Some(known) = self.storage.get(type_ref) {
            return Ok(*known);
        }
        let is_storage = self.hub.is_storage(type_ref).await?;
        self.storage.insert(type_ref.clone(), is_storage);
        Ok(is_storage)
    }
}
