//! A small namespaced resource behind the gate, for tests of the foundation alone: GET, POST, LOCK and UNLOCK of
//! `/probe/{namespace}/{name}`. Compiled only with the feature `testing`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use access::Action;
use access::http::{Caller, Problem, is_dns_label, is_dns_subdomain};
use axum::Router;
use axum::extract::{FromRequest as _, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::header::ALLOW;
use http::{Method, StatusCode};

use super::{App, method_not_allowed};

const GROUP: &str = "testing.stateward.dev";
const METHODS: &str = "GET, HEAD, POST, LOCK, UNLOCK";

type Key = (String, String);

#[derive(Clone, Debug, Default)]
struct Probes(Arc<Mutex<HashMap<Key, Probe>>>);

#[derive(Clone, Debug, Default)]
struct Probe {
    value: Bytes,
    locked: bool,
}

pub(super) fn routes() -> Router<App> {
    let probes = Probes::default();
    let handler = get(read).post(change).fallback(change);
    Router::new().route("/probe/{namespace}/{name}", handler.with_state(probes))
}

async fn read(State(probes): State<Probes>, caller: Caller, Path(key): Path<Key>) -> Result<Response, Problem> {
    let key = checked(key)?;
    caller.may(&action("get", &key)).await?;
    let probes = probes.0.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(probes.get(&key).map(|probe| probe.value.clone()).unwrap_or_default().into_response())
}

async fn change(
    State(probes): State<Probes>,
    caller: Caller,
    Path(key): Path<Key>,
    request: Request,
) -> Result<Response, Problem> {
    let key = checked(key)?;
    let method = request.method().clone();
    let verb = match method.as_str() {
        "POST" => "update",
        "LOCK" => "lock",
        "UNLOCK" => "unlock",
        _ => return Ok(([(ALLOW, METHODS)], method_not_allowed().await).into_response()),
    };
    let body = Bytes::from_request(request, &()).await;
    let body = body.map_err(|rejection| Problem::new(rejection.status(), "the body cannot be read", "send less"))?;
    let action = action(verb, &key);
    caller.act(action, async move { probes.change(key, &method, body) }).await
}

impl Probes {
    fn change(&self, key: Key, method: &Method, body: Bytes) -> Result<Response, Problem> {
        let mut probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let probe = probes.entry(key).or_default();
        match method.as_str() {
            "LOCK" if probe.locked => Err(Problem::new(StatusCode::LOCKED, "the probe is locked", "unlock it first")),
            "LOCK" => {
                probe.locked = true;
                Ok("locked".into_response())
            }
            "UNLOCK" => {
                probe.locked = false;
                Ok("unlocked".into_response())
            }
            _ => {
                probe.value = body;
                Ok("written".into_response())
            }
        }
    }
}

fn checked(key: Key) -> Result<Key, Problem> {
    let wrong = |field: &str, what: &str| {
        Problem::bad_request(format!("the {field} in the path is not {what}"), "use lower-case letters, digits and '-'")
    };
    if !is_dns_label(&key.0) {
        return Err(wrong("namespace", "a DNS label"));
    }
    if !is_dns_subdomain(&key.1) {
        return Err(wrong("name", "a DNS subdomain"));
    }
    Ok(key)
}

fn action(verb: &'static str, (namespace, name): &Key) -> Action {
    Action::on(verb, GROUP, "probes").in_namespace(namespace).named(name)
}
