//! What a Type says of values.

use std::collections::HashMap;

use super::types;
use crate::hub::Hub;
use crate::model::TypeRef;
use crate::rules::texts::{self, Fault};
use crate::storage::comparable_value;
use crate::{Error, Json};

/// Checks the values of one request; what a Type says is looked up once.
pub(crate) struct Checks<'a> {
    hub: &'a Hub,
    known: HashMap<TypeRef, Option<types::Known>>,
}

impl<'a> Checks<'a> {
    pub(crate) fn new(hub: &'a Hub) -> Checks<'a> {
        Checks { hub, known: HashMap::new() }
    }

    /// What is wrong with a value by its Type; nothing if the Type is not known and need not be.
    pub(crate) async fn misfit(
        &mut self,
        type_ref: &TypeRef,
        alias: &str,
        value: Option<&Json>,
    ) -> Result<Option<Fault>, Error> {
        if !self.known.contains_key(type_ref) {
            self.known.insert(type_ref.clone(), self.hub.schema(type_ref).await?);
        }
        let Some(Some(known)) = self.known.get(type_ref) else {
            let required = self.hub.settings().require_types;
            return Ok(required.then(|| texts::unknown_type(&type_ref.to_string())));
        };
        let (types::Known::Schema(schema), Some(value)) = (known, value) else { return Ok(None) };
        let faults = schema.faults("value", &comparable_value(value.value()));
        Ok((!faults.is_empty()).then(|| texts::misfit(alias, &faults)))
    }
}
