//! One object: its body, what happened to it, and what it has to do with others.

use access::http::Problem;
use access::http::api::{self, Answer, Operation, Route, answer};
use axum::response::Response;
use axum::routing::get;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Http;
use super::answers::{ObjectAnswer, ObjectsAnswer};
use super::asked::Named;
use super::limits::LIST;
use super::problem::problem;
use super::query::rows;
use crate::query::{Clause, Field, Order, Pattern, Query};
use crate::related::{Relation, references};

pub(super) const ROUTES: &[Route<Http>] = &[
    api::Route(
        || get(show),
        Operation::new(
            "GET",
            "/v1/objects/{id}",
            "getObject",
            "An object and, for those who may get it, its body; the id is percent-encoded",
        )
        .needs("list or get on the object; get for its body")
        .answers(Answer::Json(SchemaGenerator::subschema_for::<WholeAnswer>))
        .fails(&[404]),
    ),
    api::Route(
        || get(events),
        Operation::new("GET", "/v1/objects/{id}/events", "listEvents", "What happened to an object, the latest first")
            .needs("list or get on the object, get on each Event that is shown")
            .answers(Answer::Json(SchemaGenerator::subschema_for::<ObjectsAnswer>))
            .fails(&[404]),
    ),
    api::Route(
        || get(related),
        Operation::new(
            "GET",
            "/v1/objects/{id}/related",
            "listRelated",
            "Owners, sources, dependencies and inventory, as far as the caller sees them",
        )
        .needs("get on the object, list or get on each that is shown")
        .answers(Answer::Json(SchemaGenerator::subschema_for::<RelatedAnswer>))
        .fails(&[404]),
    ),
];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct WholeAnswer {
    #[serde(flatten)]
    pub(super) object: ObjectAnswer,
    /// The object as the cluster has it, without managed fields; null for those who may not `get` it.
    #[schemars(with = "Option<serde_json::Value>")]
    pub(super) body: Option<Box<RawValue>>,
}

/// Objects by what they are to the one that was asked for.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RelatedAnswer {
    pub(super) owners: Vec<ObjectAnswer>,
    pub(super) sources: Vec<ObjectAnswer>,
    pub(super) depends_on: Vec<ObjectAnswer>,
    pub(super) inventory: Vec<ObjectAnswer>,
}

async fn show(named: Named) -> Result<Response, Problem> {
    named.asked.parameters(&[])?;
    let body = named.body().await?.and_then(|body| RawValue::from_string(body).ok());
    Ok(answer(WholeAnswer { object: ObjectAnswer::of(named.found), body }))
}

async fn events(named: Named) -> Result<Response, Problem> {
    named.asked.parameters(&[])?;
    Ok(answer(ObjectsAnswer { objects: named.events() }))
}

async fn related(named: Named) -> Result<Response, Problem> {
    named.asked.parameters(&[])?;
    Ok(answer(named.related().await?))
}

impl Named {
    pub(super) async fn body(&self) -> Result<Option<String>, Problem> {
        self.asked.explorer().body(&self.key, &self.sight).await.map_err(problem)
    }

    /// Events are known by what stands in their bodies, so that whoever may not get them finds none.
    pub(super) fn events(&self) -> Vec<ObjectAnswer> {
        let exactly = |field: Field, text: &str| Clause { field, patterns: vec![Pattern::exact(text)], negated: false };
        let involved = |path: &str| Field::Object(format!("involvedObject.{path}"));
        // Events about objects of the whole cluster are in the namespace `default`.
        let namespace = if self.key.namespace.is_empty() { "default" } else { &self.key.namespace };
        let query = Query {
            clauses: vec![
                exactly(Field::Cluster, &self.key.cluster),
                exactly(Field::Namespace, namespace),
                exactly(Field::Group, ""),
                exactly(Field::Kind, "Event"),
                exactly(involved("kind"), &self.key.kind),
                exactly(involved("name"), &self.key.name),
            ],
            order: Order::Age,
            limit: LIST,
            ..Query::default()
        };
        rows(self.asked.explorer(), &query, &self.sight).into_iter().map(ObjectAnswer::of).collect()
    }

    pub(super) async fn related(&self) -> Result<RelatedAnswer, Problem> {
        let body: Option<Value> = self.body().await?.and_then(|body| serde_json::from_str(&body).ok());
        let Some(body) = body else { return Ok(RelatedAnswer::default()) };
        let references = references(&self.key, &body);
        Ok(self.asked.explorer().read(|index| {
            let mut related = RelatedAnswer::default();
            for reference in &references {
                let found = reference.places.iter().find_map(|place| index.get(place, &self.sight));
                let list = match reference.relation {
                    Relation::Owner => &mut related.owners,
                    Relation::Source => &mut related.sources,
                    Relation::DependsOn => &mut related.depends_on,
                    Relation::Inventory => &mut related.inventory,
                };
                list.extend(found.map(ObjectAnswer::of));
            }
            related
        }))
    }
}
