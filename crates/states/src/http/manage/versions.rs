//! The versions of a state: their list, their bytes, a new one, and the return to an old one.

use access::http::Problem;
use access::http::api::{self, Answer, Body, Input, Operation, answer, fields};
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{get, post, put};
use schemars::SchemaGenerator;

use super::super::problem::problem;
use super::super::{action, changing, download, receive};
use super::answers::{Items, RolledBack, VersionAnswer, Written};
use super::asked::Asked;
use super::input::ID;
use super::operation::{Route, STATE, STATE_BODY};
use crate::engine;
use crate::{Error, Reading};

const RAW: &str = "/api/states/{namespace}/{name}/raw";
const ROLLBACK: &[Input] = &[
    Input::number("version", "The number of the version to return to").needed(),
    Input::text("lock_id", "The ID of the lock that the caller holds"),
];

pub(super) const ROUTES: &[Route] = &[
    api::Route(
        || get(versions),
        Operation::new("GET", "/api/states/{namespace}/{name}/versions", "listVersions", "All versions, the newest first")
            .needs("get")
            .answers(Answer::Json(SchemaGenerator::subschema_for::<Items<VersionAnswer>>))
            .fails(&[404]),
    ),
    api::Route(
        || get(old),
        Operation::new(
            "GET",
            "/api/states/{namespace}/{name}/versions/{version}/raw",
            "readVersion",
            "The bytes of a version, as `terraform state push` takes them",
        )
        .needs("get")
        .answers(STATE)
        .fails(&[404, 409]),
    ),
    api::Route(
        || get(current),
        Operation::new("GET", RAW, "readState", "The bytes of the current version")
            .needs("get")
            .answers(STATE)
            .fails(&[404, 409]),
    ),
    api::Route(
        || put(write),
        Operation::new("PUT", RAW, "writeState", "Write a version, as a POST on the state does")
            .needs("update; create for a new state")
            .query(&[ID])
            .takes(STATE_BODY)
            .answers(Answer::Json(SchemaGenerator::subschema_for::<Written>))
            .fails(&[409, 413, 415, 423]),
    ),
    api::Route(
        || post(rollback),
        Operation::new(
            "POST",
            "/api/states/{namespace}/{name}/rollback",
            "rollbackState",
            "Write an old version again, with a serial above the current one. Nothing else of it changes; what a client \
             encrypted goes back byte for byte, with its old serial",
        )
        .needs("update")
        .takes(Body::Fields(ROLLBACK))
        .answers(Answer::Json(SchemaGenerator::subschema_for::<RolledBack>))
        .fails(&[404, 409, 413, 423]),
    ),
];

async fn versions(asked: Asked) -> Result<Response, Problem> {
    let state = asked.readable().await?;
    let versions = state.versions().await.map_err(problem)?;
    if versions.is_empty() {
        return Err(problem(Error::NotFound));
    }
    let head = state.head().await.map_err(problem)?;
    let current = head.as_ref().and_then(|head| head.visible()).map(|version| version.number);
    Ok(answer(Items { items: versions.iter().map(|version| VersionAnswer::of(version, current)).collect() }))
}

async fn old(asked: Asked) -> Result<Response, Problem> {
    let number = asked.version()?;
    let state = asked.readable().await?;
    download(state.read_version(number).await.map_err(problem)?).await
}

async fn current(asked: Asked) -> Result<Response, Problem> {
    let state = asked.readable().await?;
    let reading: Option<Reading> = state.read().await.map_err(problem)?;
    download(reading.ok_or_else(|| problem(Error::NotFound))?).await
}

async fn write(asked: Asked, request: Request) -> Result<Response, Problem> {
    let (state, mut query) = asked.state(&[ID])?;
    let (id, user) = (query.text(ID.name), asked.user());
    let (state, action) = changing(&asked.caller, state).await?;
    let states = asked.states.clone();
    let write = async move {
        let received = receive::receive(request, &states).await?;
        state.write(received, id.as_deref(), &user).await.map_err(problem)
    };
    let version = match asked.caller.act(action, Box::pin(write)).await? {
        engine::Written::Version(number) => Some(number),
        engine::Written::Same => None,
    };
    Ok(answer(Written { version }))
}

async fn rollback(asked: Asked, request: Request) -> Result<Response, Problem> {
    let (state, _) = asked.state(&[])?;
    let mut fields = fields(request, ROLLBACK).await?;
    let (version, id) = (fields.needed_number("version")?, fields.text("lock_id")?);
    let user = asked.user();
    let action = action(&state, "update");
    let rollback = async move { state.rollback(version, id.as_deref(), &user).await.map_err(problem) };
    let engine::RolledBack { version, serial } = asked.caller.act(action, Box::pin(rollback)).await?;
    Ok(answer(RolledBack { version, serial }))
}
