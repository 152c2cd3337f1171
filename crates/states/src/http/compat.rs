//! The listener that speaks as tf-kubernetes-configmap-backend does: `/{namespace}/{name}`, always in ConfigMaps.
//!
//! Order and statuses are the original's: who is it, is it a path of two segments, may they `get` the ConfigMap, then
//! what the method needs. Where it differs, on purpose:
//! - a bearer token and a client certificate are taken too, and permissions are asked with groups and extra;
//! - bad input is a 400, not a 500, which clients would repeat;
//! - a 423 has the whole LockInfo of the holder, not four fields of it;
//! - a chunked UNLOCK with a wrong ID is refused like any other, and one with the ID that was released last succeeds;
//! - a conflict with another writer is tried again, not shown;
//! - LOCK with an empty ID, or without one, is a 400: nobody could ever unlock by it;
//! - LOCK with the ID that is held is a repetition, and does not write over what its holder told of itself;
//! - a 423 about a state that nobody holds has an ID that is not empty, because newer clients need one;
//! - a state beyond the size of one object is kept in chunks, not refused;
//! - a name that no ConfigMap can have is a 400, not an empty state;
//! - where the server lets nobody break locks (`states.forced_unlock`), an UNLOCK without a body is a 403;
//! - DELETE keeps the state for a restore, under another key, in an object that other programs find empty, and it
//!   lets go of the lock, which goes with the object in the original.
//!
//! What the API server itself refuses (404 of a namespace that is not there, 403 where this server lacks a right) is told
//! as the original does, by its status and its words.
//!
//! The table test of the compatibility listener has every one of these, with the status of the original beside ours.

use std::sync::Arc;

use ::http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use ::http::request::Parts;
use ::http::{HeaderMap, StatusCode, Uri};
use access::http::{Caller, Document, Problem};
use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, Query, Request, State as Shared};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::problem::{bad_key, problem};
use super::{Pairs, action, body, count, lock_id, lock_info, may_break, on_states, receive, release, take, unlock_id};
use crate::Error;
use crate::engine::{Ends, Force, State, States};
use crate::head::Head;
use crate::key::{BadKey, Key};
use crate::lock::Owners;
use crate::store::{Refusal, Store, StoreError, Told};

/// What the listener serves.
#[derive(Clone, Debug)]
pub struct Compat {
    states: States,
    store: Arc<dyn Store>,
    allowed: Arc<[AllowedPath]>,
}

impl Compat {
    pub fn new(states: States, store: Arc<dyn Store>) -> Compat {
        Compat { states, store, allowed: Arc::new([]) }
    }

    /// The same, where nobody is asked whether a caller may do something at these paths. Who they are still is.
    #[must_use]
    pub fn allowing(self, paths: Vec<AllowedPath>) -> Compat {
        Compat { allowed: paths.into(), ..self }
    }
}

/// A path that is exempt from authorization, as `--authorization-always-allow-paths` of Kubernetes has it: exact, or
/// everything that begins with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedPath {
    Exact(String),
    Prefix(String),
}

impl AllowedPath {
    /// Reads a path; only its last character may be a `*`.
    pub fn new(text: &str) -> Option<AllowedPath> {
        let path = text.strip_prefix('/').unwrap_or(text);
        match path.strip_suffix('*') {
            Some(prefix) if !prefix.contains('*') => Some(AllowedPath::Prefix(prefix.to_owned())),
            None if !path.is_empty() && !path.contains('*') => Some(AllowedPath::Exact(path.to_owned())),
            _ => None,
        }
    }

    pub fn matches(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        match self {
            AllowedPath::Exact(exact) => path == exact,
            AllowedPath::Prefix(prefix) => path.starts_with(prefix),
        }
    }
}

pub fn routes(compat: Compat) -> Router {
    // Every path and every method is asked for credentials first, as in the original.
    let states = compat.states.clone();
    let routes = Router::new().route("/{namespace}/{name}", any(handle)).fallback(handle).with_state(compat);
    routes.layer(from_fn_with_state(states, count))
}

async fn handle(Shared(compat): Shared<Compat>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let caller = match Caller::from_request_parts(&mut parts, &compat).await {
        Ok(caller) if compat.allowed.iter().any(|path| path.matches(parts.uri.path())) => caller.exempt(),
        Ok(caller) => caller,
        Err(problem) => return unauthenticated(&parts, problem),
    };
    let key = match key(&parts.uri) {
        Some(Ok(key)) => key,
        Some(Err(bad)) => return bad_key(bad).into_response(),
        None => return StatusCode::NOT_FOUND.into_response(),
    };
    let state = compat.states.in_store(compat.store.clone(), key).with_owners(Owners::WhoKnowsTheId);
    if let Err(problem) = caller.may(&action(&state, "get")).await {
        return if problem.status == StatusCode::FORBIDDEN {
            StatusCode::FORBIDDEN.into_response()
        } else {
            problem.into_response()
        };
    }
    let request = Request::from_parts(parts, body);
    match Box::pin(by_method(&compat, &caller, state.clone(), request)).await {
        Ok(response) => response,
        Err(problem) if problem.status == StatusCode::FORBIDDEN && problem.document.is_none() => {
            let text = format!("configmaps \"{}\" is forbidden: <nil>", state.key().name());
            (StatusCode::FORBIDDEN, text).into_response()
        }
        Err(problem) => problem.into_response(),
    }
}

/// No credentials at all, or what cannot be read as such, are a 401, wrong ones a 403, all without a body.
fn unauthenticated(parts: &Parts, problem: Problem) -> Response {
    match problem.status {
        StatusCode::UNAUTHORIZED if has_credentials(&parts.headers) => StatusCode::FORBIDDEN.into_response(),
        StatusCode::UNAUTHORIZED => {
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Basic realm=\"Terraform \"")]).into_response()
        }
        _ => problem.into_response(),
    }
}

/// Whether somebody says who they are in a way that is understood, as the original reads it: a user and a password in
/// base64, or else a bearer token.
fn has_credentials(headers: &HeaderMap) -> bool {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, rest)) = header.and_then(|header| header.split_once(' ')) else { return false };
    if scheme.eq_ignore_ascii_case("basic") {
        BASE64_STANDARD.decode(rest.trim()).is_ok_and(|pair| pair.contains(&b':'))
    } else {
        scheme.eq_ignore_ascii_case("bearer") && !rest.trim().is_empty()
    }
}

/// The state of a path of two segments.
fn key(uri: &Uri) -> Option<Result<Key, BadKey>> {
    let (namespace, name) = uri.path().strip_prefix('/')?.split_once('/')?;
    let are_two = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
    are_two.then(|| Key::new(namespace, name))
}

/// What the API server refuses is told as the original tells it: its status and its words.
fn failed(error: Error) -> Problem {
    let Error::Store(StoreError::Refused(Refusal { told: Some(Told { status, message, .. }), .. })) = &error else {
        return problem(error);
    };
    let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Problem::new(status, message.clone(), "").answering(Document::Plain(message.clone()))
}

/// In words of ours, where the original would speak of a missing permission.
fn in_words(problem: Problem) -> Problem {
    let text = format!("{}: {}", problem.message, problem.hint);
    problem.answering(Document::Plain(text))
}

async fn by_method(compat: &Compat, caller: &Caller, state: State, request: Request) -> Result<Response, Problem> {
    // What DELETE left is nothing to the original, unless somebody has locked it since.
    let head = state.look().await.map_err(failed)?;
    let head = head.filter(|head| head.deleted.is_none() || head.lock.is_some());
    let user = caller.identity().user.clone();
    let done = match request.method().as_str() {
        "GET" => return read(compat, &state, head).await,
        "POST" => {
            let id = query_id(&request)?;
            let (action, states) = (action(&state, changing(head.as_ref())), compat.states.clone());
            let write = async move {
                let received = receive::receive(request, &states).await?;
                state.write(received, id.as_deref(), &user).await.map(drop).map_err(failed)
            };
            caller.act(action, Box::pin(write)).await
        }
        "LOCK" => {
            let action = action(&state, changing(head.as_ref()));
            let (info, states) = (lock_info(&compat.states, request).await?, compat.states.clone());
            caller.act(action, async move { take(&states, &state, &info, &user).await.map_err(failed) }).await
        }
        "UNLOCK" => {
            let Some(head) = head else { return Ok(StatusCode::NOT_FOUND.into_response()) };
            let (id, states) = (unlock_id(&compat.states, request).await?, compat.states.clone());
            let (ends, taken) = state.ends(&head, id.as_deref(), &user);
            // Breaking a lock takes no other permission here, but it is on record as what it is.
            let update = action(&state, "update");
            let (recorded, force) = match ends {
                Ends::Another => {
                    may_break(&states).map_err(in_words)?;
                    (on_states(&state, "unlock"), Force::Granted)
                }
                Ends::Own | Ends::Nothing => (update.clone(), Force::NotAsked),
            };
            let unlock = async move {
                let released = release(&states, &state, id.as_deref(), &user, force, taken).await;
                released.map_err(|error| match (error, may_break(&states)) {
                    (Error::ForceNeeded, Err(refused)) => in_words(refused),
                    (error, _) => failed(error),
                })
            };
            caller.act_as(update, recorded, unlock).await
        }
        "DELETE" => {
            if head.is_none() {
                return Ok(StatusCode::NOT_FOUND.into_response());
            }
            let (action, id) = (action(&state, "delete"), query_id(&request)?);
            caller.act(action, async move { delete(&state, id.as_deref(), &user).await.map_err(failed) }).await
        }
        _ => return Ok(StatusCode::NOT_FOUND.into_response()),
    };
    done.map(|()| StatusCode::OK.into_response())
}

/// The object of the original goes with its lock.
async fn delete(state: &State, id: Option<&str>, user: &str) -> Result<(), Error> {
    match state.delete(id, user).await {
        // The object of a lock without a state goes too.
        Ok(()) | Err(Error::NotFound) => {}
        Err(error) => return Err(error),
    }
    match id {
        Some(_) => state.unlock(id, user, Force::NotAsked).await.map(drop),
        None => Ok(()),
    }
}

/// A missing state is an empty one.
async fn read(compat: &Compat, state: &State, head: Option<Head>) -> Result<Response, Problem> {
    let text = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
    if let Some(head) = &head {
        head.here().map_err(failed)?;
    }
    let Some(version) = head.as_ref().and_then(Head::visible) else {
        return Ok((text, Body::empty()).into_response());
    };
    let mut reading = state.open(version.clone()).await.map_err(failed)?;
    let first = reading.next().await.map_err(failed)?;
    compat.states.metrics().sent(reading.facts.size);
    Ok((text, body::stream(first, reading)).into_response())
}

fn changing(head: Option<&Head>) -> &'static str {
    if head.is_some() { "update" } else { "create" }
}

fn query_id(request: &Request) -> Result<Option<String>, Problem> {
    let pairs = Query::<Pairs>::try_from_uri(request.uri());
    let pairs =
        pairs.map_err(|_| Problem::bad_request("the query is not understood", "send ?ID= and the lock's ID"))?;
    Ok(lock_id(pairs.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_what_the_original_can_read_and_bearer_tokens() {
        let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        let table = [
            (basic("x:token"), true),
            (basic("x:").replace("Basic", "BASIC"), true),
            (basic("no colon"), false),
            ("Basic !!!".to_owned(), false),
            ("Basic".to_owned(), false),
            ("Bearer token".to_owned(), true),
            ("bearer token".to_owned(), true),
            ("Bearer ".to_owned(), false),
            ("Negotiate YWJj".to_owned(), false),
            ("Digest username=\"x\"".to_owned(), false),
            ("token".to_owned(), false),
        ];
        for (header, expected) in table {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, header.parse().unwrap())]);
            assert_eq!(has_credentials(&headers), expected, "{header}");
        }
        assert!(!has_credentials(&HeaderMap::new()));
    }

    #[test]
    fn a_path_has_two_segments_and_then_they_may_be_wrong() {
        let table = [
            ("/team/app", Some(true)),
            ("/team/app.eu", Some(true)),
            ("/team/App", Some(false)),
            ("/Team/app", Some(false)),
            ("/team/a%20b", Some(false)),
            ("/", None),
            ("/team", None),
            ("/team/", None),
            ("//app", None),
            ("/team/app/", None),
            ("/team//app", None),
            ("/team/app/three", None),
        ];
        for (path, expected) in table {
            let found = key(&path.parse().unwrap());
            assert_eq!(found.map(|key| key.is_ok()), expected, "{path}");
        }
    }

    #[test]
    fn allowed_paths_are_exact_or_end_with_a_star() {
        let table = [
            ("/healthz", Some((&["/healthz", "healthz"][..], &["/healthz/", "/healthz2", "/"][..]))),
            ("healthz", Some((&["/healthz"], &["/readyz"]))),
            ("/team-a/*", Some((&["/team-a/", "/team-a/x", "/team-a/x/y"], &["/team-a", "/team-b/x"]))),
            ("*", Some((&["/", "/x", "/x/y"], &[]))),
            ("/*/x", None),
            ("/**", None),
            ("/", None),
            ("", None),
        ];
        for (text, expected) in table {
            let path = AllowedPath::new(text);
            assert_eq!(path.is_some(), expected.is_some(), "{text}");
            let (Some(path), Some((matching, other))) = (path, expected) else { continue };
            assert!(matching.iter().all(|sent| path.matches(sent)), "{text}");
            assert!(!other.iter().any(|sent| path.matches(sent)), "{text}");
        }
    }
}
