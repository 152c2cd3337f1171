//! `POST /v1/actions`: reconcile, suspend and resume selected rows, with the caller's own credentials.
//!
//! The server lends nothing: the token of the request goes to the API server that it was issued for, which decides. That is the
//! cluster that the server belongs to, and those that share its identities. Whoever came with something that cannot be passed
//! on, such as a certificate, can look and not act. Each row is on record, and has a result of its own.

use ::http::StatusCode;
use access::Action;
use access::http::api::{self, Answer, Body, Input, Operation, Route, answer, fields};
use access::http::{Caller, OwnToken, Problem};
use axum::extract::Request;
use axum::response::Response;
use axum::routing::post;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Http;
use super::asked::Asked;
use super::deeds::Deed;
use super::limits::{ACT_DEADLINE, ACTS_AT_ONCE, ROWS};
use super::problem::no_object;
use crate::index::{Found, Visibility};
use crate::row::Key;

const FIELDS: &[Input] = &[
    Input::text("action", "reconcile, suspend or resume").needed(),
    Input::texts("ids", "The ids of the rows, 100 at most").needed(),
];

pub(super) const ROUTES: &[Route<Http>] = &[api::Route(
    || post(act),
    Operation::new("POST", "/v1/actions", "act", "Reconcile, suspend or resume rows, with the caller's own token")
        .needs("patch on each object, decided by its cluster")
        .takes(Body::Fields(FIELDS))
        .answers(Answer::Json(SchemaGenerator::subschema_for::<ActionsAnswer>))
        .fails(&[409, 413]),
)];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ActionsAnswer {
    pub(super) results: Vec<ResultAnswer>,
}

/// What became of one row.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ActionResult")]
pub(super) struct ResultAnswer {
    pub(super) id: String,
    pub(super) done: bool,
    /// Null when it was done.
    pub(super) fault: Option<String>,
}

async fn act(asked: Asked, request: Request) -> Result<Response, Problem> {
    let mut fields = fields(request, FIELDS).await?;
    let (name, ids) = (fields.needed_text("action")?, fields.texts("ids")?);
    let deed = Deed::parse(&name).ok_or_else(|| {
        let known = Deed::ALL.map(Deed::name).join(", ");
        Problem::bad_request("the field 'action' names nothing that can be done", format!("it is one of {known}"))
    })?;
    Ok(answer(asked.act(deed, ids).await?))
}

impl Asked {
    /// Does one thing to many rows.
    pub(super) async fn act(&self, deed: Deed, ids: Vec<String>) -> Result<ActionsAnswer, Problem> {
        if ids.is_empty() || ids.len() > ROWS {
            let hint = format!("send the ids of 1 to {ROWS} rows");
            return Err(Problem::bad_request("the field 'ids' is empty or too long", hint));
        }
        let token = OwnToken::of(&self.caller, &self.headers).ok_or_else(|| {
            let message = "you came without a token of the cluster, so that there is nothing to act with in your name";
            Problem::new(StatusCode::CONFLICT, message, "use a token of the cluster: `kubectl create token`")
        })?;
        let sight = self.sight().await;
        let acts = ids.into_iter().map(|id| self.act_on(deed, id, &token, &sight));
        let results = stream::iter(acts).buffered(ACTS_AT_ONCE).collect().await;
        Ok(ActionsAnswer { results })
    }

    async fn act_on(&self, deed: Deed, id: String, token: &OwnToken, sight: &Visibility) -> ResultAnswer {
        let done = match self.prepare(deed, &id, token, sight) {
            // Asking is answered with what is seen: a row that is not is on nobody's record.
            Err(problem) => Err(problem),
            Ok(act) => act.carry_out(&self.caller).await,
        };
        ResultAnswer { id, done: done.is_ok(), fault: done.err().map(|problem| problem.message) }
    }

    /// Everything that an act needs, or why it cannot be done.
    fn prepare(&self, deed: Deed, id: &str, token: &OwnToken, sight: &Visibility) -> Result<Act, Problem> {
        let explorer = self.explorer();
        let key = Key::from_id(id).ok_or_else(no_object)?;
        let found = explorer.read(|index| index.get(&key, sight)).ok_or_else(no_object)?;
        if found.row.deleted_at.is_some() {
            return Err(refused(StatusCode::CONFLICT, "the object is gone"));
        }
        let now = Timestamp::now().to_string();
        let patch = deed.patch(&key, &found.row.uid, &now);
        let patch =
            patch.ok_or_else(|| refused(StatusCode::BAD_REQUEST, "objects of this kind cannot be told that"))?;
        let config = explorer.address(&key.cluster).ok_or_else(|| {
            refused(StatusCode::CONFLICT, "your token is not one of that cluster, and no other is used for you")
        })?;
        let resource = explorer.resource(&key.cluster, &key.group, &key.kind);
        let resource =
            resource.ok_or_else(|| refused(StatusCode::CONFLICT, "the cluster does not have that kind now"))?;
        Ok(Act { config: with_token(config, token), resource, found, patch })
    }
}

/// One patch of one object.
struct Act {
    config: kube::Config,
    resource: ApiResource,
    found: Found,
    patch: Value,
}

impl Act {
    /// The cluster decides; here it is put on record.
    async fn carry_out(self, caller: &Caller) -> Result<(), Problem> {
        let action = Action::on("patch", "explorer.stateward.dev", "objects").named(self.found.id.clone());
        let action = match self.found.row.key.namespace.as_str() {
            "" => action,
            namespace => action.in_namespace(namespace),
        };
        caller.clone().exempt().act(action, self.send()).await
    }

    async fn send(self) -> Result<(), Problem> {
        let Act { mut config, resource, found, patch } = self;
        config.connect_timeout = Some(ACT_DEADLINE);
        config.default_retry = false;
        let client = kube::Client::try_from(config).map_err(|_| unreachable())?;
        let api: Api<DynamicObject> = match found.row.key.namespace.as_str() {
            "" => Api::all_with(client, &resource),
            namespace => Api::namespaced_with(client, namespace, &resource),
        };
        let parameters = PatchParams { field_manager: Some("stateward-explorer".to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(&patch);
        let sent = api.patch(&found.row.key.name, &parameters, &patch);
        match timeout(ACT_DEADLINE, sent).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) => Err(by_cluster(status.code)),
            Ok(Err(_)) | Err(_) => Err(unreachable()),
        }
    }
}

/// What the cluster said, in our own words: its own may quote what was sent.
fn by_cluster(code: u16) -> Problem {
    let (status, message) = match code {
        401 => (StatusCode::UNAUTHORIZED, "the cluster does not take your token; is it for another audience?"),
        403 => (StatusCode::FORBIDDEN, "the cluster does not let you patch this object"),
        404 => (StatusCode::NOT_FOUND, "the object is gone"),
        409 => (StatusCode::CONFLICT, "the object was made anew meanwhile: look again"),
        _ => (StatusCode::BAD_GATEWAY, "the cluster refused the change"),
    };
    refused(status, message)
}

fn unreachable() -> Problem {
    refused(StatusCode::BAD_GATEWAY, "the cluster does not answer")
}

fn refused(status: StatusCode, message: &'static str) -> Problem {
    Problem::new(status, message, "")
}

/// The address of a cluster with the caller's token, and nothing else, to be known by.
fn with_token(mut config: kube::Config, token: &OwnToken) -> kube::Config {
    config.auth_info = serde_json::from_value(json!({ "token": token.reveal() })).unwrap_or_default();
    config
}
