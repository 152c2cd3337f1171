//! Locks taken and ended by people.

use access::http::Problem;
use access::http::api::{self, Answer, Body, Input, Operation, answer, fields};
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{delete, put};
use schemars::SchemaGenerator;
use uuid::Uuid;

use super::super::problem::problem;
use super::super::{changing, forced, unlocking};
use super::answers::{LockAnswer, Unlocked};
use super::asked::Asked;
use super::input::printable;
use super::operation::Route;
use crate::engine;
use crate::lock_info::{ByPerson, LockInfo};

const PATH: &str = "/api/states/{namespace}/{name}/lock";
const LOCK: &[Input] = &[
    Input::text("reason", "Why, for those who meet the lock").needed(),
    Input::text("id", "The ID of the lock; a random one by default"),
    Input::text("operation", "What is being done; `manual` by default"),
];
const UNLOCK: &[Input] = &[
    Input::text("ID", "The ID of the lock; needed unless it is broken"),
    Input::flag("force", "Break the lock, whoever holds it; with an ID, only if it is that one"),
];
const MANUAL: &str = "manual";
const LONGEST_REASON: usize = 4096;
const LONGEST_OPERATION: usize = 256;

pub(super) const ROUTES: &[Route] = &[
    api::Route(
        || put(lock),
        Operation::new("PUT", PATH, "lockState", "Lock a state. Held by another: 423 with the holder's LockInfo")
            .needs("update; create for a new state")
            .takes(Body::Fields(LOCK))
            .answers(Answer::Json(SchemaGenerator::subschema_for::<LockAnswer>))
            .fails(&[409, 423]),
    ),
    api::Route(
        || delete(unlock),
        Operation::new("DELETE", PATH, "unlockState", "Let go of a lock, or break it")
            .needs("update; to break a lock of another, unlock on states")
            .query(UNLOCK)
            .answers(Answer::Json(SchemaGenerator::subschema_for::<Unlocked>))
            .fails(&[423]),
    ),
];

async fn lock(asked: Asked, request: Request) -> Result<Response, Problem> {
    let (state, _) = asked.state(&[])?;
    let mut fields = fields(request, LOCK).await?;
    let (reason, operation) = (fields.needed_text("reason")?, fields.text("operation")?);
    let operation = operation.unwrap_or_else(|| MANUAL.to_owned());
    printable("reason", &reason, LONGEST_REASON)?;
    printable("operation", &operation, LONGEST_OPERATION)?;
    let id = fields.text("id")?.unwrap_or_else(|| Uuid::new_v4().to_string());
    let (user, path) = (asked.user(), state.key().to_string());
    let made = ByPerson { id: &id, operation: &operation, reason: &reason, user: &user, path: &path };
    let info = LockInfo::by_person(&made).map_err(|_| {
        Problem::bad_request("the field 'id' is not an ID", "send a short text without control characters, or none")
    })?;
    let (state, action) = changing(&asked.caller, state).await?;
    let take = async move {
        state.lock(&info, &user).await.map_err(problem)?;
        let lock = state.head().await.map_err(problem)?.and_then(|head| head.lock);
        let ours = lock.filter(|lock| lock.id == info.id).map(|lock| LockAnswer::of(&state, &lock));
        ours.ok_or_else(|| problem(crate::Error::ForceNeeded))
    };
    Ok(answer(asked.caller.act(action, take).await?))
}

async fn unlock(asked: Asked) -> Result<Response, Problem> {
    let (state, mut query) = asked.state(UNLOCK)?;
    let (id, force, user) = (query.text("ID"), query.flag("force")?, asked.user());
    if id.is_none() && !force {
        let hint = "send the ID of the lock, or force=true to break whatever lock is there";
        return Err(Problem::bad_request("the parameter 'ID' is missing", hint));
    }
    let (action, force) = if force {
        forced(&asked.states, &state)?
    } else {
        let (ends, _) = state.would_end(id.as_deref(), &user).await.map_err(problem)?;
        unlocking(&asked.states, &asked.caller, &state, ends).await?
    };
    let unlock = async move { state.unlock(id.as_deref(), &user, force).await.map_err(problem) };
    let unlocked = asked.caller.act(action, unlock).await? == engine::Unlocked::Now;
    Ok(answer(Unlocked { unlocked }))
}
