//! The hub as callers meet it: `/graphql`.
//!
//! The door is [`Http`], which gives the [`routes`]. A request is one operation as JSON; a subscription is answered as
//! events, and so is whatever is asked by somebody who accepts `text/event-stream` and no JSON (GraphQL over server-sent
//! events, in its mode of distinct connections). Who calls is asked before anything is read.
//!
//! What must never be here: a body in a log or an error; an answer for somebody whom the gate did not let in.

mod events;

use std::sync::Arc;

use access::http::{Caller, Problem};
use async_graphql::parser;
use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::sync::{Semaphore, watch};

use crate::Hub;
use crate::graphql::{self, Api, Fault, Request};
use crate::guard::{Guard, Limits};

/// What handlers share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Http(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    hub: Hub,
    api: Api,
    settings: Settings,
    followers: Arc<Semaphore>,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub graphql: graphql::Settings,
    pub limits: Limits,
    /// The largest request.
    pub body_bytes: usize,
    /// How many follow at the same time.
    pub followers: usize,
    /// Turns true when the server stops: whoever follows is let go.
    pub stop: watch::Receiver<bool>,
}

impl Http {
    pub fn new(hub: Hub, settings: Settings) -> Result<Http, parser::Error> {
        let api = Api::new(settings.graphql)?;
        let followers = Arc::new(Semaphore::new(settings.followers));
        Ok(Http(Arc::new(Shared { hub, api, settings, followers })))
    }
}

/// Everything that is served about the hub.
pub fn routes<S: Clone + Send + Sync + 'static>(http: &Http) -> Router<S> {
    Router::new().route("/graphql", post(answer)).with_state(http.clone())
}

async fn answer(State(http): State<Http>, request: axum::extract::Request) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, &http).await?;
    let request = read(&http, &parts.headers, body).await?;
    let prepared = match request.and_then(|request| http.0.api.prepare(request)) {
        Ok(prepared) => prepared,
        Err(fault) => return Ok(refused(&fault)),
    };
    let (takes_events, takes_json) = (accepts(&parts.headers, EVENTS), accepts(&parts.headers, JSON));
    if takes_events && (prepared.is_subscription() || !takes_json) {
        return events::stream(http, parts, caller, prepared);
    }
    if prepared.is_subscription() {
        let fault = Fault::malformed("query: a subscription is answered as events; send 'Accept: text/event-stream'");
        return Ok(refused(&fault));
    }
    let guard = Guard::new(http.0.hub.clone(), caller, http.0.settings.limits);
    let response = http.0.api.execute(guard, prepared).await;
    Ok(written(StatusCode::OK, serde_json::to_vec(&response)))
}

const EVENTS: &[&str] = &["text/event-stream"];
/// What an answer that is one document goes by.
const JSON: &[&str] = &["application/json", "application/graphql-response+json", "application/*", "*/*"];

/// Whether one of these kinds is among those that the client takes.
fn accepts(headers: &HeaderMap, kinds: &[&str]) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut accepted = values.flat_map(|value| value.split(',')).filter_map(|kind| kind.split(';').next());
    accepted.any(|accepted| kinds.iter().any(|kind| accepted.trim().eq_ignore_ascii_case(kind)))
}

/// The request in the body. What is no request at all is told in the words of the protocol.
async fn read(http: &Http, headers: &HeaderMap, body: Body) -> Result<Result<Request, Fault>, Problem> {
    let content = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content = content.split(';').next().unwrap_or_default().trim();
    // Other sites' pages can send forms and plain text, but not this.
    if !content.eq_ignore_ascii_case("application/json") {
        let hint = "send the request as JSON, with 'Content-Type: application/json'";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is not declared as JSON", hint));
    }
    let most = http.0.settings.body_bytes;
    let bytes = axum::body::to_bytes(body, most).await.map_err(|_| {
        let message = format!("the body is larger than {most} bytes, or did not arrive");
        let hint = "send less at once, or ask the operator to raise hub.body_bytes";
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message, hint)
    })?;
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return Ok(Err(Fault::malformed("the body is a list: requests are sent one by one, not in batches")));
    }
    let fault = "the body is not a JSON object with the text 'query' and, if needed, 'variables' and 'operationName'";
    Ok(serde_json::from_slice(&bytes).map_err(|_| Fault::malformed(fault)))
}

fn refused(fault: &Fault) -> Response {
    let body = json!({ "errors": [{ "message": fault.message, "extensions": { "code": fault.code } }] });
    written(StatusCode::BAD_REQUEST, serde_json::to_vec(&body))
}

fn written(status: StatusCode, body: serde_json::Result<Vec<u8>>) -> Response {
    let Ok(body) = body else {
        let hint = "look for the request id in the server's log";
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written", hint)
            .into_response();
    };
    // Values may be secrets.
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (status, headers, body).into_response()
}
