//! JSON bodies of small requests. Errors name the field that is wrong and what it must be; they never quote the body,
//! because people paste secrets into the wrong field.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use http::StatusCode;
use serde_json::{Map, Value};

use super::Problem;

/// The fields of a JSON object, taken one by one.
#[derive(Debug)]
pub struct Fields {
    known: Vec<&'static str>,
    fields: Map<String, Value>,
}

impl Fields {
    /// Reads the body of a request that takes a JSON object with these fields.
    pub async fn read(request: Request, known: &[&'static str]) -> Result<Fields, Problem> {
        let bytes = Bytes::from_request(request, &()).await.map_err(|rejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                let hint = "send less, or ask the operator to raise limits.body_bytes";
                return Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large", hint);
            }
            Problem::bad_request("the body did not arrive whole", "send it again, with a correct length")
        })?;
        let hint = || format!("send a JSON object with the fields {}", known.join(", "));
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            Problem::bad_request(format!("the body is not JSON: a fault at {place}"), hint())
        })?;
        let Value::Object(fields) = value else {
            return Err(Problem::bad_request("the body is not a JSON object", hint()));
        };
        if fields.keys().any(|field| !known.contains(&field.as_str())) {
            return Err(Problem::bad_request("the body has a field that is not known here", hint()));
        }
        Ok(Fields { known: known.to_vec(), fields })
    }

    pub fn text(&mut self, field: &'static str) -> Result<Option<String>, Problem> {
        self.take(field, "a text", |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    pub fn texts(&mut self, field: &'static str) -> Result<Vec<String>, Problem> {
        let list = self.take(field, "a list of texts", |value| match value {
            Value::Array(items) => items.into_iter().map(|item| item.as_str().map(str::to_owned)).collect(),
            _ => None,
        });
        Ok(list?.unwrap_or_default())
    }

    pub fn whole_number(&mut self, field: &'static str) -> Result<Option<u64>, Problem> {
        self.take(field, "a whole number that is not negative", |value| value.as_u64())
    }

    /// A text that must be there.
    pub fn needed_text(&mut self, field: &'static str) -> Result<String, Problem> {
        self.text(field)?.filter(|text| !text.is_empty()).ok_or_else(|| missing(field))
    }

    /// A whole number that must be there.
    pub fn needed_number(&mut self, field: &'static str) -> Result<u64, Problem> {
        self.whole_number(field)?.ok_or_else(|| missing(field))
    }

    fn take<T>(
        &mut self,
        field: &'static str,
        what: &str,
        convert: impl FnOnce(Value) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        debug_assert!(self.known.contains(&field));
        match self.fields.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => convert(value).map(Some).ok_or_else(|| {
                Problem::bad_request(format!("the field '{field}' is not {what}"), format!("make it {what}"))
            }),
        }
    }
}

fn missing(field: &'static str) -> Problem {
    Problem::bad_request(format!("the field '{field}' is missing"), format!("send '{field}' in the body"))
}
