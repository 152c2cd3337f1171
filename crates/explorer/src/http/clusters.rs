//! `/v1/clusters`: how the clusters are doing, and which there are.
//!
//! Whoever may `list` clusters sees all of them with what is wrong; all others those in which they are somebody. Adding one puts
//! credentials into this server, and is a permission of its own.

use ::http::StatusCode;
use access::Action;
use access::http::api::{self, Answer, Body, Operation, Route, answer};
use access::http::{Caller, Problem, is_dns_label};
use axum::body::Bytes;
use axum::extract::{FromRequest as _, Path, Request};
use axum::response::Response;
use axum::routing::{delete, get, post};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Http;
use super::answers::time;
use super::asked::Asked;
use super::problem::problem;
use crate::service::{Authorizer, ClusterReport, Crossing, Explorer, KindReport, KindState, NewCluster, Person, Rules};

const GROUP: &str = "stateward.dev";
const RESOURCE: &str = "clusters";

pub(super) const ROUTES: &[Route<Http>] = &[
    api::Route(
        || get(list),
        Operation::new("GET", "/v1/clusters", "listClusters", "The clusters, and how far their objects are collected")
            .needs("list on clusters of stateward.dev; without it, only clusters in which the caller is somebody")
            .answers(Answer::Json(SchemaGenerator::subschema_for::<ClusterList>)),
    ),
    api::Route(
        || post(add),
        Operation::new("POST", "/v1/clusters", "addCluster", "Add a cluster, or give it new credentials and rules")
            .needs("create on clusters of stateward.dev")
            .takes(Body::Other { schema: new_cluster_schema, needed: true })
            .answers(Answer::Json(SchemaGenerator::subschema_for::<ClusterAnswer>))
            .fails(&[409, 413]),
    ),
    api::Route(
        || delete(remove),
        Operation::new(
            "DELETE",
            "/v1/clusters/{name}",
            "removeCluster",
            "Remove a cluster that was added, with everything that was collected of it",
        )
        .needs("delete on clusters of stateward.dev")
        .answers(Answer::Json(SchemaGenerator::subschema_for::<Removed>))
        .fails(&[404, 409]),
    ),
];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ClusterList {
    pub(super) clusters: Vec<ClusterAnswer>,
    /// What is wrong beside single clusters; only for those who may list clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) faults: Vec<String>,
}

/// A cluster and how it is doing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Cluster")]
pub(super) struct ClusterAnswer {
    pub(super) name: String,
    /// Of its kube-system namespace, once it has been asked.
    pub(super) uid: Option<String>,
    /// local, added or secret.
    pub(super) source: &'static str,
    /// rbac or review.
    pub(super) authorizer: &'static str,
    /// What is wrong with it, and what to do; only for those who may list clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fault: Option<String>,
    /// Why nothing is shown of it now to anybody.
    pub(super) withheld: Option<String>,
    /// How many of the kinds that it serves are collected, of how many.
    pub(super) synced: usize,
    pub(super) of: usize,
    pub(super) stale_since: Option<String>,
    /// Only for those who may list clusters: counts are of all objects, whoever sees them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) objects: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kinds: Option<Vec<KindAnswer>>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CollectedKind")]
pub(super) struct KindAnswer {
    pub(super) api_group: String,
    /// Empty until the cluster serves it.
    pub(super) api_version: String,
    pub(super) kind: String,
    /// absent, listing, synced or stale.
    pub(super) state: &'static str,
    pub(super) since: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) objects: u64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Removed {
    name: String,
    removed: bool,
}

/// What somebody who adds a cluster sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    kubeconfig: String,
    #[serde(default)]
    identity: Crossing,
    #[serde(default)]
    tokens: std::collections::BTreeMap<String, Person>,
    #[serde(default)]
    authorizer: Authorizer,
}

async fn list(asked: Asked) -> Result<Response, Problem> {
    asked.parameters(&[])?;
    let everything = match asked.caller.may(&Action::on("list", GROUP, RESOURCE)).await {
        Ok(()) => true,
        Err(refused) if refused.status == StatusCode::FORBIDDEN => false,
        Err(problem) => return Err(problem),
    };
    let explorer = asked.explorer();
    Ok(answer(if everything {
        let clusters = explorer.clusters().into_iter().map(ClusterAnswer::whole).collect();
        ClusterList { clusters, faults: explorer.faults() }
    } else {
        ClusterList { clusters: in_sight(explorer, &asked.caller).await, faults: Vec::new() }
    }))
}

/// The clusters in which the caller is somebody, as far as everybody may know.
pub(super) async fn in_sight(explorer: &Explorer, caller: &Caller) -> Vec<ClusterAnswer> {
    let sight = explorer.visibility(caller.identity()).await;
    let reports = explorer.clusters().into_iter().filter(|report| sight.of(&report.name).is_some());
    reports.map(ClusterAnswer::restricted).collect()
}

async fn add(asked: Asked, request: Request) -> Result<Response, Problem> {
    let wanted = read(request).await;
    let action = Action::on("create", GROUP, RESOURCE);
    // Only a name that can be one stands in the log.
    let action = match &wanted {
        Ok(wanted) if is_dns_label(&wanted.name) => action.named(&wanted.name),
        _ => action,
    };
    let explorer = asked.explorer().clone();
    let add = async move {
        let Wanted { name, kubeconfig, identity, tokens, authorizer } = wanted?;
        let new = NewCluster { name, kubeconfig, rules: Rules { identity, tokens, authorizer } };
        explorer.add_cluster(new).await.map_err(problem)
    };
    Ok(answer(ClusterAnswer::whole(asked.caller.act(action, add).await?)))
}

async fn remove(asked: Asked, Path(name): Path<String>) -> Result<Response, Problem> {
    asked.parameters(&[])?;
    let action = Action::on("delete", GROUP, RESOURCE);
    let action = if is_dns_label(&name) { action.named(&name) } else { action };
    let explorer = asked.explorer().clone();
    let remove = async move {
        explorer.remove_cluster(&name).await.map_err(problem)?;
        Ok(Removed { name, removed: true })
    };
    Ok(answer(asked.caller.act(action, remove).await?))
}

/// The fault is told by its place: the body holds credentials.
async fn read(request: Request) -> Result<Wanted, Problem> {
    let bytes = Bytes::from_request(request, &()).await.map_err(|rejection| {
        Problem::new(rejection.status(), "the body is too large or did not arrive whole", "send less, or send it again")
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("the body is no cluster: a fault at line {} column {}", error.line(), error.column());
        let hint = "send a JSON object with the fields name, kubeconfig, identity (\"none\", \"shared\" or \
            {\"map\": [{\"from\": {\"user\"|\"group\": ...}, \"as\": {\"user\": ..., \"groups\": [...]}}]}), \
            tokens ({USER: {\"user\": ..., \"groups\": [...]}}) and authorizer (\"rbac\" or \"review\")";
        Problem::bad_request(message, hint)
    })
}

/// Since when the oldest of its kinds that is not heard of is stale.
pub(super) fn stale_since(report: &ClusterReport) -> Option<i64> {
    let stale = report.kinds.iter().filter(|kind| kind.state == KindState::Stale);
    stale.filter_map(|kind| kind.since).min()
}

/// Whether everything that it serves has been listed at least once.
pub(super) fn is_collected(report: &ClusterReport) -> bool {
    let listing = report.kinds.iter().any(|kind| kind.state == KindState::Listing);
    !listing && report.uid.is_some() && report.withheld.is_none()
}

impl ClusterAnswer {
    pub(super) fn whole(report: ClusterReport) -> ClusterAnswer {
        let (objects, fault) = (report.objects, report.fault.clone());
        let kinds = report.kinds.iter().cloned().map(KindAnswer::of).collect();
        ClusterAnswer { objects: Some(objects), kinds: Some(kinds), fault, ..ClusterAnswer::restricted(report) }
    }

    fn restricted(report: ClusterReport) -> ClusterAnswer {
        let stale_since = stale_since(&report).and_then(time);
        ClusterAnswer {
            name: report.name,
            uid: report.uid,
            source: report.source.word(),
            authorizer: match report.authorizer {
                Authorizer::Rbac => "rbac",
                Authorizer::Review => "review",
            },
            fault: None,
            withheld: report.withheld,
            synced: report.synced,
            of: report.kinds_served,
            stale_since,
            objects: None,
            kinds: None,
        }
    }
}

impl KindAnswer {
    fn of(report: KindReport) -> KindAnswer {
        KindAnswer {
            api_group: report.group,
            api_version: report.version,
            kind: report.kind,
            state: match report.state {
                KindState::Absent => "absent",
                KindState::Listing => "listing",
                KindState::Synced => "synced",
                KindState::Stale => "stale",
            },
            since: report.since.and_then(time),
            reason: report.reason,
            objects: report.objects,
        }
    }
}

fn new_cluster_schema() -> Value {
    let person = json!({
        "type": "object",
        "properties": { "user": { "type": "string" }, "groups": { "type": "array", "items": { "type": "string" } } },
    });
    let from = json!({
        "oneOf": [
            { "type": "object", "properties": { "user": { "type": "string" } }, "required": ["user"] },
            { "type": "object", "properties": { "group": { "type": "string" } }, "required": ["group"] },
        ],
    });
    let mapping = json!({ "type": "object", "properties": { "from": from, "as": person }, "required": ["from", "as"] });
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "A DNS label" },
            "kubeconfig": { "type": "string", "description": "YAML or JSON with everything in it: no file, command or proxy" },
            "identity": {
                "description": "Who callers of this server are there: nobody, the same, or whom a map says",
                "oneOf": [
                    { "type": "string", "enum": ["none", "shared"] },
                    { "type": "object", "properties": { "map": { "type": "array", "items": mapping } }, "required": ["map"] },
                ],
            },
            "tokens": { "type": "object", "description": "Who static tokens are there, by the token's user", "additionalProperties": person },
            "authorizer": { "type": "string", "enum": ["rbac", "review"] },
        },
        "required": ["name", "kubeconfig"],
        "additionalProperties": false,
    })
}
