//! The scalars of the schema.

use std::borrow::Cow;

use async_graphql::indexmap::IndexMap;
use async_graphql::registry::Registry;
use async_graphql::{InputType, InputValueError, InputValueResult, Scalar, ScalarType, Value};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::raw;
use crate::{Json, StorageChoice};

#[derive(Clone)]
pub(super) struct Any(pub(super) Json);

/// Any JSON. It comes back byte for byte; numbers with more digits than a double has go into variables.
#[Scalar(name = "Any")]
impl ScalarType for Any {
    fn parse(value: Value) -> InputValueResult<Any> {
        raw::json(&value).map(Any).map_err(InputValueError::custom)
    }

    fn to_value(&self) -> Value {
        raw::marked(&self.0)
    }
}

pub(super) struct DateTime(pub(super) Timestamp);

/// A moment, as RFC 3339 writes it.
#[Scalar(name = "DateTime")]
impl ScalarType for DateTime {
    fn parse(value: Value) -> InputValueResult<DateTime> {
        let text = text(value)?;
        text.parse()
            .map(DateTime)
            .map_err(|_| InputValueError::custom("it is not a moment such as 2026-01-31T12:00:00Z"))
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.to_string())
    }
}

pub(super) struct NodePath(pub(super) String);

/// A path of nodes such as cap.type.helm.storage; filters take a regular expression for whole paths, too.
#[Scalar(name = "NodePath")]
impl ScalarType for NodePath {
    fn parse(value: Value) -> InputValueResult<NodePath> {
        Ok(NodePath(text(value)?))
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

pub(super) struct Version(pub(super) String);

/// A semantic version such as 0.1.0.
#[Scalar(name = "Version")]
impl ScalarType for Version {
    fn parse(value: Value) -> InputValueResult<Version> {
        Ok(Version(text(value)?))
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

pub(super) struct LockOwnerID(pub(super) String);

/// Who holds a lock.
#[Scalar(name = "LockOwnerID")]
impl ScalarType for LockOwnerID {
    fn parse(value: Value) -> InputValueResult<LockOwnerID> {
        Ok(LockOwnerID(text(value)?))
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

pub(super) struct BackendInput(pub(super) StorageChoice);

/// A storage backend: its id or its name as a String, or an object {id, context}. Without an id the context is for the
/// one that the hub chooses.
#[Scalar(name = "TypeInstanceBackendInput")]
impl ScalarType for BackendInput {
    fn parse(value: Value) -> InputValueResult<BackendInput> {
        let json = raw::json(&value).map_err(InputValueError::custom)?;
        let fault =
            || InputValueError::custom("it is neither the id or name of a storage backend nor an object {id, context}");
        let choice = if json.text().starts_with('"') {
            StorageChoice { id: Some(serde_json::from_str(json.text()).map_err(|_| fault())?), context: None }
        } else if !json.text().starts_with('{') {
            return Err(fault());
        } else {
            let Written { id, context } = serde_json::from_str(json.text()).map_err(|_| fault())?;
            let context = context.map(|context| Json::parse(context.get())).transpose().map_err(|_| fault())?;
            StorageChoice { id, context: context.filter(|context| !context.is_null()) }
        };
        // Databases do not have such a text.
        if choice.id.as_ref().is_some_and(|id| id.contains('\0')) { Err(fault()) } else { Ok(BackendInput(choice)) }
    }

    fn to_value(&self) -> Value {
        self.0.id.clone().map_or(Value::Null, Value::String)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(borrow, default)]
    context: Option<&'a RawValue>,
}

/// What a list is limited to: nothing, null and `{}` mean the same, and `{}` is what the schema says of nothing.
pub(super) struct Given<T>(pub(super) Option<T>);

impl<T> Default for Given<T> {
    fn default() -> Given<T> {
        Given(None)
    }
}

impl<T: InputType> InputType for Given<T> {
    type RawValueType = T::RawValueType;

    fn type_name() -> Cow<'static, str> {
        T::type_name()
    }

    fn qualified_type_name() -> String {
        Option::<T>::qualified_type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        Option::<T>::create_type_info(registry)
    }

    fn parse(value: Option<Value>) -> InputValueResult<Given<T>> {
        Option::<T>::parse(value).map(Given).map_err(InputValueError::propagate)
    }

    fn to_value(&self) -> Value {
        self.0.as_ref().map_or_else(|| Value::Object(IndexMap::default()), T::to_value)
    }

    fn as_raw_value(&self) -> Option<&T::RawValueType> {
        self.0.as_ref().and_then(T::as_raw_value)
    }
}

/// The fault does not repeat what was sent.
fn text<T>(value: Value) -> Result<String, InputValueError<T>>
where
    T: async_graphql::InputType,
{
    match value {
        Value::String(text) => Ok(text),
        _ => Err(InputValueError::custom("it is not a String")),
    }
}
