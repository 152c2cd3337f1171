//! Errors as callers see them, and the id by which a request is found again.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use uuid::Uuid;

use crate::error::Refusal;

tokio::task_local! {
    /// The id of the request that this task serves; the server sets it around every handler.
    pub static REQUEST_ID: RequestId;
}

/// Finds one request in logs, audit lines and error answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(Uuid);

impl RequestId {
    /// The caller's own id if it is a UUID, else a new one. Nothing but a UUID is taken, because the id goes to logs
    /// and a caller could put anything there, a token by mistake included.
    pub fn take(presented: Option<&HeaderValue>) -> RequestId {
        let given = presented.and_then(|value| Uuid::try_parse_ascii(value.as_bytes()).ok());
        RequestId(given.unwrap_or_else(Uuid::now_v7))
    }

    /// The id of the request that is being served.
    pub fn current() -> Option<RequestId> {
        REQUEST_ID.try_with(|id| *id).ok()
    }
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

/// An error answer: what is wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub status: StatusCode,
    pub message: String,
    pub hint: String,
    /// A body that the protocol of a route demands in place of ours, such as the LockInfo of a 423.
    pub document: Option<Document>,
}

/// A body of a protocol's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    Json(String),
    Plain(String),
}

impl Problem {
    pub fn new(status: StatusCode, message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { status, message: message.into(), hint: hint.into(), document: None }
    }

    /// The same failure with a body of the protocol's own.
    #[must_use]
    pub fn answering(mut self, document: Document) -> Problem {
        self.document = Some(document);
        self
    }

    /// 400: the caller's input is wrong in this field.
    pub fn bad_request(message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, message, hint)
    }

    /// 503: nothing was changed, and trying again later may help.
    pub fn unavailable(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, message, "try again in a few seconds")
    }
}

#[derive(Serialize)]
struct Body<'a> {
    error: Fields<'a>,
}

#[derive(Serialize)]
struct Fields<'a> {
    status: u16,
    reason: &'a str,
    message: &'a str,
    hint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        match self.document {
            Some(Document::Json(text)) => {
                return (self.status, [(CONTENT_TYPE, "application/json")], text).into_response();
            }
            Some(Document::Plain(text)) => return (self.status, text).into_response(),
            None => {}
        }
        let error = Fields {
            status: self.status.as_u16(),
            reason: self.status.canonical_reason().unwrap_or("Error"),
            message: &self.message,
            hint: &self.hint,
            request_id: RequestId::current().map(|id| id.to_string()),
        };
        let mut response = (self.status, Json(Body { error })).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"stateward\""));
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"stateward\""));
        }
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let status = match &refusal {
            Refusal::Unauthenticated { .. } => StatusCode::UNAUTHORIZED,
            Refusal::Forbidden { .. } => StatusCode::FORBIDDEN,
            Refusal::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
        };
        let hint = refusal.hint();
        Problem::new(status, refusal.to_string(), hint)
    }
}
