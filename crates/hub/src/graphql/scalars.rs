//! The scalars of the schema.

use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::raw;
use crate::{Json, StorageChoice};

/// Any JSON. It comes back byte for byte; numbers with more digits than a double has go into variables.
#[derive(Clone)]
pub(super) struct Any(pub(super) Json);

#[Scalar(name = "Any")]
impl ScalarType for Any {
    fn parse(value: Value) -> InputValueResult<Any> {
        raw::json(&value).map(Any).map_err(InputValueError::custom)
    }

    fn to_value(&self) -> Value {
        raw::marked(&self.0)
    }
}

/// A moment, as RFC 3339 writes it.
pub(super) struct DateTime(pub(super) Timestamp);

#[Scalar(name = "DateTime")]
impl ScalarType for DateTime {
    fn parse(value: Value) -> InputValueResult<DateTime> {
        let text = text(value)?;
        text.parse().map(DateTime).map_err(|_| InputValueError::custom("it is not a moment such as 2026-01-31T12:00:00Z"))
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.to_string())
    }
}

/// A path of nodes such as cap.type.helm.storage; filters take a regular expression for whole paths, too.
pub(super) struct NodePath(pub(super) String);

#[Scalar(name = "NodePath")]
impl ScalarType for NodePath {
    fn parse(value: Value) -> InputValueResult<NodePath> {
        Ok(NodePath(text(value)?))
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

/// A semantic version such as 0.1.0.
pub(super) struct Version(pub(super) String);

#[Scalar(name = "Version")]
impl ScalarType for Version {
    fn parse(value: Value) -> InputValueResult<Version> {
        Ok(Version(text(value)?))
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

/// Who holds a lock.
pub(super) struct LockOwnerID(pub(super) String);

#[Scalar(name = "LockOwnerID")]
impl ScalarType for LockOwnerID {
    fn parse(value: Value) -> InputValueResult<LockOwnerID> {
        Ok(LockOwnerID(text(value)?))
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

/// A storage backend: its id or its name as a String, or an object {id, context}.
pub(super) struct BackendInput(pub(super) StorageChoice);

#[Scalar(name = "TypeInstanceBackendInput")]
impl ScalarType for BackendInput {
    fn parse(value: Value) -> InputValueResult<BackendInput> {
        let json = raw::json(&value).map_err(InputValueError::custom)?;
        let fault = || InputValueError::custom("it is neither the id or name of a storage backend nor an object {id, context}");
        let choice = if json.text().starts_with('"') {
            StorageChoice { id: serde_json::from_str(json.text()).map_err(|_| fault())?, context: None }
        } else {
            let Written { id, context } = serde_json::from_str(json.text()).map_err(|_| fault())?;
            let context = context.map(|context| Json::parse(context.get())).transpose().map_err(|_| fault())?;
            StorageChoice { id, context: context.filter(|context| !context.is_null()) }
        };
        Ok(BackendInput(choice))
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.id.clone())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    id: String,
    #[serde(borrow, default)]
    context: Option<&'a RawValue>,
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
