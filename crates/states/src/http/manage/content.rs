//! What is in a state: what changed, its resources, its outputs. Values of attributes are never shown.

use access::http::Problem;
use access::http::api::{self, Answer, Input, Operation, answer};
use axum::response::Response;
use axum::routing::get;
use schemars::SchemaGenerator;

use super::super::problem::problem;
use super::super::{action, outputs_allowed};
use super::answers::{DiffAnswer, Items, OutputAnswer, Page, ResourceAnswer};
use super::asked::Asked;
use super::input::{CONTINUE, LIMIT, bad_continue, limit};
use super::operation::Route;
use crate::codec;
use crate::engine::{Differences, ResourcePage, ResourceQuery};

const DIFF: &[Input] = &[
    Input::number("from", "The older version; left out, the one before `to`"),
    Input::number("to", "The newer version; left out, the current one"),
];
const RESOURCES: &[Input] = &[
    Input::text("search", "Only resources with this text in their address, type, provider or id, whatever the case"),
    LIMIT,
    CONTINUE,
];

pub(super) const ROUTES: &[Route] = &[
    api::Route(
        || get(diff),
        Operation::new(
            "GET",
            "/api/states/{namespace}/{name}/diff",
            "diffState",
            "What changed between two versions: resources with the paths that changed, outputs with values unless they \
             are marked as sensitive in either version",
        )
        .needs("get")
        .query(DIFF)
        .answers(Answer::Json(SchemaGenerator::subschema_for::<DiffAnswer>))
        .fails(&[404, 409]),
    ),
    api::Route(
        || get(resources),
        Operation::new("GET", "/api/states/{namespace}/{name}/resources", "listResources", "The resources of a state")
            .needs("get")
            .query(RESOURCES)
            .answers(Answer::Json(SchemaGenerator::subschema_for::<Page<ResourceAnswer>>))
            .fails(&[404, 409]),
    ),
    api::Route(
        || get(outputs),
        Operation::new(
            "GET",
            "/api/states/{namespace}/{name}/outputs",
            "listOutputs",
            "The outputs of a state by name",
        )
        .needs("get on states/outputs; for the values of sensitive ones also get on states/sensitive-outputs")
        .answers(Answer::Json(SchemaGenerator::subschema_for::<Items<OutputAnswer>>))
        .fails(&[404, 409]),
    ),
];

async fn diff(asked: Asked) -> Result<Response, Problem> {
    let (state, mut query) = asked.state(DIFF)?;
    let (from, to) = (query.whole_number("from")?, query.whole_number("to")?);
    asked.caller.may(&action(&state, "get")).await?;
    let Differences { from, to, diff } = state.diff(from, to).await.map_err(problem)?;
    let codec::Diff { resources, outputs } = diff;
    let resources = resources.into_iter().map(Into::into).collect();
    let outputs = outputs.into_iter().map(Into::into).collect();
    Ok(answer(DiffAnswer { from, to, resources, outputs }))
}

async fn resources(asked: Asked) -> Result<Response, Problem> {
    let (state, mut query) = asked.state(RESOURCES)?;
    let (search, limit) = (query.text("search"), limit(&mut query)?);
    // A page goes on in the version that the first one was of, so that nothing is shown twice or left out.
    let (version, skip) = match query.text("continue") {
        Some(token) => read_token(&token).map(|(version, skip)| (Some(version), skip)).ok_or_else(bad_continue)?,
        None => (None, 0),
    };
    asked.caller.may(&action(&state, "get")).await?;
    let page = state.resources(ResourceQuery { search, version, skip, limit }).await.map_err(problem)?;
    let ResourcePage { version, items, total } = page;
    let next = skip.saturating_add(u64::try_from(items.len()).unwrap_or(u64::MAX));
    let r#continue = (next < total).then(|| format!("{version}-{next}"));
    Ok(answer(Page { items: items.into_iter().map(ResourceAnswer::from).collect(), r#continue, total }))
}

fn read_token(token: &str) -> Option<(u64, u64)> {
    let (version, skip) = token.split_once('-')?;
    version.parse().ok().zip(skip.parse().ok())
}

async fn outputs(asked: Asked) -> Result<Response, Problem> {
    let (state, _) = asked.state(&[])?;
    let sensitive = outputs_allowed(&asked.caller, &state).await?;
    let outputs = state.output_list(sensitive).await.map_err(problem)?;
    Ok(answer(Items { items: outputs.into_iter().map(OutputAnswer::from).collect::<Vec<_>>() }))
}
