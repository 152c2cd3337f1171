//! The protocol that Terraform and OpenTofu speak: GET, POST, PUT, DELETE, LOCK and UNLOCK of one path.
//!
//! The door is [`routes`]. A handler asks the caller's permission, hands the request to the engine and turns the answer
//! into a status; it must never decide about a lock itself, nor hold a body whole.

mod body;
pub mod compat;
mod lanes;
pub mod manage;
mod problem;
mod receive;

use std::time::Duration;

use ::http::header::{ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use ::http::{HeaderMap, HeaderName, StatusCode};
use access::Action;
use access::http::{Caller, Problem};
use axum::Router;
use axum::extract::{Path, Query, Request, State as Shared};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use jiff::Timestamp;
use md5::{Digest as _, Md5};

use crate::Error;
use crate::codec::Sensitive;
use crate::engine::{Ends, Force, Reading, State, States, Unlocked};
use crate::head::Head;
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
        .route("/state/{namespace}/{name}/outputs", get(outputs).with_state(states.clone()))
        .layer(from_fn_with_state(states, count))
}

/// Counts every answer, whatever comes of it.
async fn count(Shared(states): Shared<States>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let response = next.run(request).await;
    states.metrics().request(&method, response.status());
    response
}

async fn read(
    Shared(states): Shared<States>,
    caller: Caller,
    Path(names): Path<Names>,
    accepted: HeaderMap,
) -> Result<Response, Problem> {
    let state = find(&states, names)?;
    caller.may(&action(&state, "get")).await?;
    let head = state.head().await.map_err(problem)?;
    if let Some(head) = &head {
        head.here().map_err(problem)?;
    }
    let version = head.as_ref().and_then(Head::visible).cloned();
    let mut version = version.ok_or_else(|| problem(Error::NotFound))?;
    states.metrics().sent(version.facts.size);
    if let Some(gzip) = body::packed(&mut version, &accepted) {
        let md5 = BASE64_STANDARD.encode(Md5::digest(&gzip));
        let headers = [(CONTENT_ENCODING, "gzip".to_owned()), (CONTENT_MD5, md5)];
        return Ok((ALWAYS, headers, gzip).into_response());
    }
    download(state.open(version).await.map_err(problem)?).await
}

const ALWAYS: [(HeaderName, &str); 3] =
    [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store"), (VARY, "Accept-Encoding")];

/// A version as an answer.
async fn download(mut reading: Reading) -> Result<Response, Problem> {
    // The first piece is read before the status is sent, so that a store that fails is not a body cut short.
    let first = reading.next().await.map_err(problem)?;
    let headers =
        [(CONTENT_LENGTH, reading.facts.size.to_string()), (CONTENT_MD5, BASE64_STANDARD.encode(reading.facts.md5))];
    Ok((ALWAYS, headers, body::stream(first, reading)).into_response())
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
    let (id, user) = (lock_id(pairs), caller.identity().user.clone());
    let (state, action) = changing(&caller, find(&states, names)?).await?;
    let write = async move {
        let received = receive::receive(request, &states).await?;
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
    let info = lock_info(states, request).await?;
    let user = caller.identity().user.clone();
    let (state, action) = changing(caller, state).await?;
    let states = states.clone();
    caller.act(action, async move { take(&states, &state, &info, &user).await.map_err(problem) }).await?;
    Ok(StatusCode::OK.into_response())
}

async fn lock_info(states: &States, request: Request) -> Result<LockInfo, Problem> {
    let body = receive::small(request, states.settings().lock_info_bytes).await?;
    LockInfo::of_lock(&body).map_err(bad_lock_info)
}

/// Takes the lock, and counts when another has it.
async fn take(states: &States, state: &State, info: &LockInfo, user: &str) -> Result<(), Error> {
    let taken = state.lock(info, user).await;
    if let Err(Error::Locked { .. }) = taken {
        states.metrics().lock_conflict();
    }
    taken
}

/// The ID in the body of an UNLOCK; `None` for Terraform's force-unlock, which sends nothing, whatever ID was typed.
async fn unlock_id(states: &States, request: Request) -> Result<Option<String>, Problem> {
    let body = receive::small(request, states.settings().lock_info_bytes).await?;
    match body.as_ref() {
        [] => Ok(None),
        body => Ok(Some(LockInfo::of_unlock(body).map_err(bad_lock_info)?.id)),
    }
}

/// Ends a lock that was held since `taken`, as far as is known.
async fn release(
    states: &States,
    state: &State,
    id: Option<&str>,
    user: &str,
    force: Force,
    taken: Option<Timestamp>,
) -> Result<(), Error> {
    let unlocked = state.unlock(id, user, force).await?;
    let held = taken.map(|taken| Timestamp::now().duration_since(taken));
    if let (Unlocked::Now, Some(Ok(held))) = (unlocked, held.map(Duration::try_from)) {
        states.metrics().lock_ended(held);
    }
    Ok(())
}

async fn unlock(states: &States, caller: &Caller, names: Names, request: Request) -> Result<Response, Problem> {
    let state = find(states, names)?;
    let id = unlock_id(states, request).await?;
    let user = caller.identity().user.clone();
    let (ends, taken) = state.would_end(id.as_deref(), &user).await.map_err(problem)?;
    let (action, force) = unlocking(states, caller, &state, ends).await?;
    let states = states.clone();
    let unlock = async move { release(&states, &state, id.as_deref(), &user, force, taken).await.map_err(problem) };
    caller.act(action, unlock).await?;
    Ok(StatusCode::OK.into_response())
}

/// What an UNLOCK must be allowed: to let go of the caller's own lock, or to break another's.
async fn unlocking(states: &States, caller: &Caller, state: &State, ends: Ends) -> Result<(Action, Force), Problem> {
    let (update, unlock) = (action(state, "update"), on_states(state, "unlock"));
    match ends {
        Ends::Another => return forced(states, state),
        // A repetition of either: what the first one was allowed by will do.
        Ends::Nothing if states.settings().may_force() => {
            if let Err(refused) = caller.may(&update).await {
                let may = refused.status == StatusCode::FORBIDDEN && caller.may(&unlock).await.is_ok();
                return if may { Ok((unlock, Force::NotAsked)) } else { Err(refused) };
            }
        }
        Ends::Own | Ends::Nothing => {}
    }
    Ok((update, Force::NotAsked))
}

/// Breaking a lock is a permission of its own, which a server may switch off.
fn forced(states: &States, state: &State) -> Result<(Action, Force), Problem> {
    may_break(states)?;
    Ok((on_states(state, "unlock"), Force::Granted))
}

fn may_break(states: &States) -> Result<(), Problem> {
    let hint = "let its holder unlock it, or set states.forced_unlock";
    let refused = || Problem::new(StatusCode::FORBIDDEN, "this server lets nobody break locks", hint);
    states.settings().may_force().then_some(()).ok_or_else(refused)
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
async fn changing(caller: &Caller, state: State) -> Result<(State, Action), Problem> {
    if !state.is_there().await.map_err(problem)? {
        let action = action(&state, "create");
        return Ok((state, action));
    }
    let (update, create, caller) = (action(&state, "update"), action(&state, "create"), caller.clone());
    let may = move || {
        let (caller, create) = (caller.clone(), create.clone());
        Box::pin(async move { caller.may(&create).await.is_ok() }) as BoxFuture<'static, bool>
    };
    Ok((state.asking_to_create(may), update))
}

/// An act on the resource that the store keeps its states in.
fn action(state: &State, verb: &'static str) -> Action {
    let (resource, object) = (state.store().resource(), state.store().object(state.key()));
    Action::on(verb, resource.group, resource.resource).in_namespace(state.key().namespace()).named(object)
}

/// An act that only this program knows, such as breaking a lock.
fn on_states(state: &State, verb: &'static str) -> Action {
    let action = Action::on(verb, STATES.group, STATES.resource);
    action.in_namespace(state.key().namespace()).named(state.key().name())
}
