//! What there is to choose from: facets, suggestions, and which parts of a user interface have anything to show.

use std::collections::BTreeMap;

use access::http::Problem;
use access::http::api::{self, Answer, Input, Operation, Route, answer};
use axum::response::Response;
use axum::routing::get;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::Http;
use super::answers::{ClustersAnswer, FacetsAnswer, SuggestAnswer};
use super::asked::Asked;
use super::limits::LIST;
use super::problem::bad_query;
use crate::query::{Clause, Facets, Field, Pattern, Query};
use crate::service::Explorer;

const CATEGORY: Input = Input::text("category", "Only objects of this category, such as automation or source");
const QUERY: Input = Input::text("query", "Only objects that this question finds, in the filter language");
const FACETS: &[Input] = &[CATEGORY, QUERY];
const SUGGEST: &[Input] = &[
    Input::text("field", "cluster, namespace, kind, group, name, status, tenant, category, label or label.KEY")
        .needed(),
    Input::text("prefix", "What the values begin with"),
    Input::number("limit", "How many values at most, 1 to 100; 20 by default"),
];
const USUAL_SUGGESTIONS: u64 = 20;

pub(super) const ROUTES: &[Route<Http>] = &[
    api::Route(
        || get(facets),
        Operation::new("GET", "/v1/facets", "listFacets", "The values of each field, with counts")
            .needs("list or get, on each object that is counted")
            .query(FACETS)
            .answers(Answer::Json(SchemaGenerator::subschema_for::<FacetsAnswer>)),
    ),
    api::Route(
        || get(suggest),
        Operation::new("GET", "/v1/suggest", "suggest", "Values of a field that begin with a text, with counts")
            .needs("list or get, on each object that is counted")
            .query(SUGGEST)
            .answers(Answer::Json(SchemaGenerator::subschema_for::<SuggestAnswer>)),
    ),
    api::Route(
        || get(components),
        Operation::new(
            "GET",
            "/v1/enabled-components",
            "listEnabledComponents",
            "Which families of objects are collected",
        )
        .needs("none: any authenticated caller")
        .answers(Answer::Json(SchemaGenerator::subschema_for::<ComponentsAnswer>)),
    ),
];

async fn facets(asked: Asked) -> Result<Response, Problem> {
    let mut parameters = asked.parameters(FACETS)?;
    let (category, text) = (parameters.text(CATEGORY.name), parameters.text(QUERY.name));
    let mut query = Query::parse(&text.unwrap_or_default()).map_err(|error| bad_query(&error))?;
    if let Some(category) = &category {
        let patterns = vec![Pattern::exact(category)];
        query.clauses.push(Clause { field: Field::Category, patterns, negated: false });
    }
    let labels = declared(asked.explorer(), category.as_deref());
    query.facets = Facets::WithLabels(labels.keys().cloned().collect());
    query.limit = 1;
    let sight = asked.sight().await;
    let page = asked.explorer().read(|index| index.query(&query, &sight));
    let human_readable_labels = labels.into_iter().map(|(key, name)| (format!("labels.{key}"), name)).collect();
    let clusters = ClustersAnswer::of(asked.explorer(), &sight);
    let facets = page.facets.into_iter().map(Into::into).collect();
    Ok(answer(FacetsAnswer { facets, human_readable_labels, clusters }))
}

async fn suggest(asked: Asked) -> Result<Response, Problem> {
    let mut parameters = asked.parameters(SUGGEST)?;
    let field = parameters.text("field").as_deref().and_then(field).ok_or_else(|| {
        Problem::bad_request(
            "the parameter 'field' is missing or names no field",
            format!("it is {}", SUGGEST[0].about),
        )
    })?;
    let prefix = parameters.text("prefix").unwrap_or_default();
    let limit = parameters.whole_number("limit")?.unwrap_or(USUAL_SUGGESTIONS);
    let limit = usize::try_from(limit).ok().filter(|limit| (1..=LIST).contains(limit)).ok_or_else(|| {
        Problem::bad_request("the parameter 'limit' is out of range", format!("make it a number from 1 to {LIST}"))
    })?;
    let sight = asked.sight().await;
    let found = asked.explorer().read(|index| index.suggest(&field, &prefix, limit, &sight));
    Ok(answer(SuggestAnswer { values: found.into_iter().map(Into::into).collect() }))
}

/// A field that has values to suggest; `label` alone stands for the keys of labels.
fn field(name: &str) -> Option<Field> {
    if matches!(name, "label" | "labels") {
        return Some(Field::Label(String::new()));
    }
    let none =
        |field: &Field| matches!(field, Field::Message | Field::Uid | Field::Is | Field::Object(_) | Field::Text);
    Field::parse(name).filter(|field| !none(field))
}

/// The labels that collected kinds declare as facets, with what people call them.
pub(super) fn declared(explorer: &Explorer, category: Option<&str>) -> BTreeMap<String, String> {
    let kinds = explorer.kinds().iter().filter(|kind| category.is_none_or(|category| kind.category == category));
    kinds.flat_map(|kind| &kind.labels).map(|label| (label.key.clone(), label.name.clone())).collect()
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ComponentsAnswer {
    /// Of applications, sources, gitopssets, templates and clusterdiscovery.
    components: Vec<&'static str>,
}

/// The names that the original's user interface knows, by category.
const COMPONENTS: [(&str, &str); 5] = [
    ("automation", "applications"),
    ("source", "sources"),
    ("gitopsset", "gitopssets"),
    ("template", "templates"),
    ("clusterdiscovery", "clusterdiscovery"),
];

async fn components(asked: Asked) -> Result<Response, Problem> {
    asked.parameters(&[])?;
    let kinds = asked.explorer().kinds();
    let enabled = COMPONENTS.iter().filter(|(category, _)| kinds.iter().any(|kind| kind.category == *category));
    Ok(answer(ComponentsAnswer { components: enabled.map(|(_, component)| *component).collect() }))
}
