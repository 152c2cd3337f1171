//! One state: what is known of it, its end, its return, and its tombstone.

use access::http::Problem;
use access::http::api::{self, Answer, Body, Input, Operation, answer, fields};
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{get, post};
use schemars::SchemaGenerator;

use super::super::problem::problem;
use super::super::{action, changing};
use super::answers::StateAnswer;
use super::asked::Asked;
use super::input::{ID, printable};
use super::operation::Route;
use crate::Error;
use crate::engine::{FoundState, State};

const PATH: &str = "/api/states/{namespace}/{name}";
const STATE: Answer = Answer::Json(SchemaGenerator::subschema_for::<StateAnswer>);
const MOVED: &[Input] = &[
    Input::text("to", "Where the state is now, as people should read it").needed(),
    Input::text("lock_id", "The ID of the lock that the caller holds").needed(),
];
/// The longest name of a place.
const LONGEST_PLACE: usize = 2048;

pub(super) const ROUTES: &[Route] = &[
    api::Route(
        || get(show),
        Operation::new("GET", PATH, "getState", "What is known of a state without reading it")
            .needs("get")
            .answers(STATE)
            .fails(&[404]),
    ),
    api::Route(
        || axum::routing::delete(remove),
        Operation::new(
            "DELETE",
            PATH,
            "deleteState",
            "Delete a state; it can be restored until its versions are too old",
        )
        .needs("delete")
        .query(&[ID])
        .answers(STATE)
        .fails(&[404, 409, 423]),
    ),
    api::Route(
        || post(restore),
        Operation::new(
            "POST",
            "/api/states/{namespace}/{name}/restore",
            "restoreState",
            "Undo a delete, or take a tombstone back",
        )
        .needs("update; create where nothing is left but chunks")
        .query(&[ID])
        .answers(STATE)
        .fails(&[404, 423]),
    ),
    api::Route(
        || post(moved),
        Operation::new(
            "POST",
            "/api/states/{namespace}/{name}/moved",
            "moveState",
            "Leave a tombstone: every later read, write and LOCK answers 409 and names the new place",
        )
        .needs("update")
        .takes(Body::Fields(MOVED))
        .answers(STATE)
        .fails(&[404, 409, 423]),
    ),
];

async fn show(asked: Asked) -> Result<Response, Problem> {
    Ok(answer(shown(asked.readable().await?).await?))
}

async fn remove(asked: Asked) -> Result<Response, Problem> {
    let (state, mut query) = asked.state(&[ID])?;
    let (id, user) = (query.text(ID.name), asked.user());
    let action = action(&state, "delete");
    let delete = async move {
        state.delete(id.as_deref(), &user).await.map_err(problem)?;
        shown(state).await
    };
    Ok(answer(asked.caller.act(action, delete).await?))
}

async fn restore(asked: Asked) -> Result<Response, Problem> {
    let (state, mut query) = asked.state(&[ID])?;
    let (id, user) = (query.text(ID.name), asked.user());
    let (state, action) = changing(&asked.caller, state).await?;
    let restore = async move {
        state.restore(id.as_deref(), &user).await.map_err(problem)?;
        shown(state).await
    };
    Ok(answer(asked.caller.act(action, restore).await?))
}

async fn moved(asked: Asked, request: Request) -> Result<Response, Problem> {
    let (state, _) = asked.state(&[])?;
    let mut fields = fields(request, MOVED).await?;
    let (to, id) = (fields.needed_text("to")?, fields.needed_text("lock_id")?);
    printable("to", &to, LONGEST_PLACE)?;
    // Everybody who asks for the state will read it.
    let authority = to.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    if authority.is_some_and(|authority| authority.contains('@')) {
        let hint = "write the address without them";
        return Err(Problem::bad_request("the field 'to' has a user or a password in its address", hint));
    }
    let user = asked.user();
    let action = action(&state, "update");
    let leave = async move {
        state.leave_for(&to, &id, &user).await.map_err(problem)?;
        shown(state).await
    };
    Ok(answer(asked.caller.act(action, leave).await?))
}

async fn shown(state: State) -> Result<StateAnswer, Problem> {
    let head = Some(state.head().await.map_err(problem)?.ok_or_else(|| problem(Error::NotFound))?);
    StateAnswer::of(&FoundState { state, head }).ok_or_else(|| problem(Error::NotFound))
}
