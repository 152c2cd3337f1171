//! The protocol that Terraform and OpenTofu speak: GET, POST, PUT, DELETE, LOCK and UNLOCK of one path.
//!
//! The door is [`routes`]. A handler asks the caller's permission, hands the request to the engine and turns the answer
//! into a status; it must never decide about a lock itself, nor hold a body whole.

mod body;
pub mod compat;
pub mod manage;
mod problem;
mod receive;

use ::http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use ::http::{HeaderName, StatusCode};
use access::Action;
use access::http::{Caller, Problem};
use axum::Router;
use axum::extract::{Path, Query, Request, State as Shared};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::codec::Sensitive;
use crate::engine::{Force, Reading, State, States};
use crate::key::Key;
use crate::lock_info::LockInfo;
use crate::store::STATES;

use problem::{bad_key, bad_lock_info, problem};

const METHODS: &str = "GET, HEAD, POST, PUT, DELETE, LOCK, UNLOCK";
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

type Names = (String, String);
type Pairs = Vec<(String, String)>;

/// `/state/{namespace}/{name}` of the main listener, and the outputs below it.
pub fn routes<S: Clone + Send + Sync + 'static>(states: States) -> Router<S> {
    // The router knows no LOCK and UNLOCK; whatever else comes is answered with the methods that there are.
    let methods = get(read).post(write).put(write).delete(remove).fallback(lock_or_unlock);
    Router::new()
        .route("/state/{namespace}/{name}", methods.with_state(states.clone()))
        .route("/state/{namespace}/{name}/outputs", get(outputs).with_state(states))
}

async fn read(Shared(states): Shared<States>, caller: Caller, Path(names): Path<Names>) -> Result<Response, Problem> {
    let state = find(&states, names)?;
    caller.may(&action(&state, "get")).await?;
    let reading = state.read().await.map_err(problem)?;
    download(reading.ok_or_else(|| problem(crate::Error::NotFound))?).await
}

/// A version as an answer.
async fn download(mut reading: Reading) -> Result<Response, Problem> {
    // The first piece is read before the status is sent, so that a store that fails is not a body cut short.
    let first = reading.next().await.map_err(problem)?;
    let headers = [
        (CONTENT_TYPE, "application/json".to_owned()),
        (CONTENT_LENGTH, reading.facts.size.to_string()),
        (CONTENT_MD5, BASE64_STANDARD.encode(reading.facts.md5)),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, body::stream(first, reading)).into_response())
}

/// What `terraform_remote_state` needs, for those who may not read the state.
async fn outputs(
    Shared(states): Shared<States>,
    caller: Caller,
    Path(names): Path<Names>,
) -> Result<Response, Problem> {
    let state = find(&states, names)?;
    let sensitive = outputs_allowed(&caller, &state).await?;
    let mut outputs = state.outputs(sensitive).await.map_err(problem)?;
    let first = outputs.recv().await.transpose().map_err(problem)?;
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((headers, body::outputs(first, outputs)).into_response())
}

/// Asks for the outputs, and then whether the sensitive ones are among them.
async fn outputs_allowed(caller: &Caller, state: &State) -> Result<Sensitive, Problem> {
    caller.may(&on_states(state, "get").subresource("outputs")).await?;
    match caller.may(&on_states(state, "get").subresource("sensitive-outputs")).await {
        Ok(()) => Ok(Sensitive::Shown),
        Err(refused) if refused.status == StatusCode::FORBIDDEN => Ok(Sensitive::LeftOut),
        Err(problem) => Err(problem),
    }
}

async fn write(
    Shared(states): Shared<States>,
    caller: Caller,
    Path(names): Path<Names>,
    Query(pairs): Query<Pairs>,
    request: Request,
) -> Result<Response, Problem> {
    let state = find(&states, names)?;
    let (id, user) = (lock_id(pairs), caller.identity().user.clone());
    let verb = change_verb(&state).await?;
    let action = action(&state, verb);
    let write = async move {
        let received = receive::receive(request, states.settings()).await?;
        state.write(received, id.as_deref(), &user).await.map_err(problem)
    };
    caller.act(action, Box::pin(write)).await?;
    Ok(StatusCode::OK.into_response())
}

async fn remove(
    Shared(states): Shared<States>,
    caller: Caller,
    Path(names): Path<Names>,
    Query(pairs): Query<Pairs>,
) -> Result<Response, Problem> {
    let state = find(&states, names)?;
    let (id, user) = (lock_id(pairs), caller.identity().user.clone());
    let action = action(&state, "delete");
    caller.act(action, async move { state.delete(id.as_deref(), &user).await.map_err(problem) }).await?;
    Ok(StatusCode::OK.into_response())
}

async fn lock_or_unlock(
    Shared(states): Shared<States>,
    caller: Caller,
    Path(names): Path<Names>,
    request: Request,
) -> Result<Response, Problem> {
    match request.method().as_str() {
        "LOCK" => lock(&states, &caller, names, request).await,
        "UNLOCK" => unlock(&states, &caller, names, request).await,
        _ => Ok(no_such_method()),
    }
}

async fn lock(states: &States, caller: &Caller, names: Names, request: Request) -> Result<Response, Problem> {
    let state = find(states, names)?;
    let info = LockInfo::of_lock(&receive::small(request).await?).map_err(bad_lock_info)?;
    let user = caller.identity().user.clone();
    let action = action(&state, change_verb(&state).await?);
    caller.act(action, async move { state.lock(&info, &user).await.map_err(problem) }).await?;
    Ok(StatusCode::OK.into_response())
}

async fn unlock(states: &States, caller: &Caller, names: Names, request: Request) -> Result<Response, Problem> {
    let state = find(states, names)?;
    let body = receive::small(request).await?;
    let id = match body.as_ref() {
        // Terraform's force-unlock sends nothing at all, whatever ID was typed.
        [] => None,
        body => Some(LockInfo::of_unlock(body).map_err(bad_lock_info)?.id),
    };
    let user = caller.identity().user.clone();
    let (action, force) = unlocking(states, &state, id.as_deref(), &user).await?;
    caller.act(action, async move { state.unlock(id.as_deref(), &user, force).await.map_err(problem) }).await?;
    Ok(StatusCode::OK.into_response())
}

/// What an UNLOCK must be allowed: to let go of the caller's own lock, or to break another's.
async fn unlocking(states: &States, state: &State, id: Option<&str>, user: &str) -> Result<(Action, Force), Problem> {
    if state.needs_force(id, user).await.map_err(problem)? {
        return forced(states, state);
    }
    Ok((action(state, "update"), Force::NotAsked))
}

/// Breaking a lock is a permission of its own, which a server may switch off.
fn forced(states: &States, state: &State) -> Result<(Action, Force), Problem> {
    if states.settings().may_force() {
        return Ok((on_states(state, "unlock"), Force::Granted));
    }
    let hint = "let its holder unlock it, or set states.forced_unlock";
    Err(Problem::new(StatusCode::FORBIDDEN, "this server lets nobody break locks", hint))
}

fn no_such_method() -> Response {
    let problem = Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not have that method",
        "see the Allow header of this answer",
    );
    ([(ALLOW, METHODS)], problem).into_response()
}

fn find(states: &States, (namespace, name): Names) -> Result<State, Problem> {
    Ok(states.at(Key::new(namespace, name).map_err(bad_key)?))
}

/// The `?ID=` that a client adds to its writes when it holds a lock; an empty one is none.
fn lock_id(pairs: Pairs) -> Option<String> {
    pairs.into_iter().find(|(name, _)| name == "ID").map(|(_, id)| id).filter(|id| !id.is_empty())
}

/// As in Kubernetes, making something new is another permission than changing what is there.
async fn change_verb(state: &State) -> Result<&'static str, Problem> {
    Ok(if state.head().await.map_err(problem)?.is_some() { "update" } else { "create" })
}

/// An act on the resource that the store keeps its states in.
fn action(state: &State, verb: &'static str) -> Action {
    let resource = state.store().resource();
    named(Action::on(verb, resource.group, resource.resource), state)
}

/// An act that only this program knows, such as breaking a lock.
fn on_states(state: &State, verb: &'static str) -> Action {
    named(Action::on(verb, STATES.group, STATES.resource), state)
}

fn named(action: Action, state: &State) -> Action {
    action.in_namespace(state.key().namespace()).named(state.key().name())
}
