//! `POST /v1/query`: the original's request and answer, with what it lacked: totals, facets, cursors.

use access::http::Problem;
use access::http::api::{self, Answer, Body, Operation, Route, answer};
use axum::body::Bytes;
use axum::extract::{FromRequest as _, Request as HttpRequest};
use axum::response::Response;
use axum::routing::post;
use schemars::SchemaGenerator;

use super::Http;
use super::answers::{ClustersAnswer, ObjectAnswer, QueryAnswer};
use super::asked::Asked;
use super::limits::BODIES;
use super::problem::{bad_query, problem};
use crate::index::{Found, Visibility};
use crate::query::request::Request;
use crate::query::{Facets, Query};
use crate::service::Explorer;

pub(super) const ROUTES: &[Route<Http>] = &[api::Route(
    || post(ask),
    Operation::new("POST", "/v1/query", "query", "The objects that a question finds, of those that the caller may see")
        .needs("list or get, on each object that is shown and counted; get for its body")
        .takes(Body::Json(SchemaGenerator::subschema_for::<Request>))
        .answers(Answer::Json(SchemaGenerator::subschema_for::<QueryAnswer>))
        .fails(&[413]),
)];

async fn ask(asked: Asked, request: HttpRequest) -> Result<Response, Problem> {
    let request = read(request).await?;
    let sight = asked.sight().await;
    Ok(answer(found(asked.explorer(), &request, &sight).await?))
}

/// The JSON of a question; a fault in it is told by its place, never by its text.
async fn read(request: HttpRequest) -> Result<Request, Problem> {
    let bytes = Bytes::from_request(request, &()).await.map_err(|rejection| {
        Problem::new(rejection.status(), "the body is too large or did not arrive whole", "send less, or send it again")
    })?;
    let wrong = |line: usize, column: usize| {
        let message = format!("the body is no question: a fault at line {line} column {column}");
        Problem::bad_request(message, format!("send a JSON object with the fields {FIELDS}"))
    };
    // A list would be taken for the fields in their order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(wrong(1, 1));
    }
    serde_json::from_slice(&bytes).map_err(|error| wrong(error.line(), error.column()))
}

const FIELDS: &str =
    "query, terms, filters, orderBy, descending, limit, offset, cursor, facets, facetLabels, unstructured";

/// The answer to a question under what somebody may see.
pub(super) async fn found(explorer: &Explorer, request: &Request, sight: &Visibility) -> Result<QueryAnswer, Problem> {
    let mut query = request.query().map_err(|error| bad_query(&error))?;
    if let Facets::WithLabels(labels) = &mut query.facets
        && labels.is_empty()
    {
        labels.extend(super::facets::declared(explorer, None).into_keys());
    }
    let page = explorer.read(|index| index.query(&query, sight));
    let wants_bodies = request.unstructured.unwrap_or(true);
    let mut objects = Vec::with_capacity(page.rows.len());
    let (mut room, mut unstructured_truncated) = (BODIES, false);
    for found in page.rows {
        let body = if wants_bodies { body(explorer, &found, sight).await? } else { None };
        let mut object = ObjectAnswer::of(found);
        if let Some(body) = body {
            match room.checked_sub(body.len()) {
                Some(left) => (room, object.unstructured) = (left, Some(body)),
                None => unstructured_truncated = true,
            }
        }
        objects.push(object);
    }
    let with_facets = query.facets != Facets::None;
    Ok(QueryAnswer {
        objects,
        total: page.total,
        facets: with_facets.then(|| page.facets.into_iter().map(Into::into).collect()),
        cursor: page.cursor,
        previous: page.previous,
        truncated: page.truncated,
        unstructured_truncated,
        unsearched: page.unsearched,
        incomplete: page.incomplete,
        clusters: ClustersAnswer::of(explorer, sight),
    })
}

async fn body(explorer: &Explorer, found: &Found, sight: &Visibility) -> Result<Option<String>, Problem> {
    if !found.has_body {
        return Ok(None);
    }
    explorer.body(&found.row.key, sight).await.map_err(problem)
}

/// The first rows that a question of our own making finds.
pub(super) fn rows(explorer: &Explorer, query: &Query, sight: &Visibility) -> Vec<Found> {
    explorer.read(|index| index.query(query, sight)).rows
}
