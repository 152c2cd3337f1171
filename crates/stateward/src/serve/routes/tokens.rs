//! `/api/v1/tokens`: the static tokens of a standalone server.

use access::http::{Caller, Fields, Problem};
use access::{Action, GrantError, NewToken, TokenError, TokenRecord, TokenStore};
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use axum::{Json, Router};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::App;

const GROUP: &str = "access.stateward.dev";
const FIELDS: &[&str] = &["name", "user", "groups", "grants", "expires_in_seconds"];
/// A hundred years: longer is no expiry at all, and far from where times overflow.
const LONGEST_LIFE: u64 = 100 * 366 * 24 * 3600;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/api/v1/tokens", get(list).post(create)).route("/api/v1/tokens/{id}", delete(revoke))
}

#[derive(Serialize)]
struct Created {
    #[serde(flatten)]
    record: TokenRecord,
    token: String,
}

#[derive(Serialize)]
struct List {
    items: Vec<TokenRecord>,
}

#[derive(Serialize)]
struct Ended {
    id: String,
    name: String,
    revoked: bool,
}

async fn create(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let tokens = store(&app)?;
    let created_by = caller.identity().user.clone();
    let action = Action::on("create", GROUP, "tokens");
    let asked = new_token(Fields::read(request, FIELDS).await, created_by);
    let prepared = asked.and_then(|new| access::prepare(new).map_err(|error| problem(&error)));
    // The line of the log names the id that we chose, not the name that the caller did.
    let action = match &prepared {
        Ok((record, _)) => action.named(&record.id),
        Err(_) => action,
    };
    let made = caller.act(action, async move {
        let (record, text) = prepared?;
        tokens.create(&record, &text).await.map_err(|error| problem(&error))?;
        Ok((record, text))
    });
    let (record, text) = made.await?;
    let body = Json(Created { record, token: text.reveal().to_owned() });
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], body).into_response())
}

async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let tokens = store(&app)?;
    caller.may(&Action::on("list", GROUP, "tokens")).await?;
    Ok(Json(List { items: tokens.list().await.map_err(|error| problem(&error))? }).into_response())
}

async fn revoke(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> Result<Response, Problem> {
    let tokens = store(&app)?;
    let action = Action::on("delete", GROUP, "tokens");
    // A look-up that fails is the act's failure, so that it is decided and on record as any other.
    let found = tokens.id_of(&id).await;
    let action = match &found {
        Ok(Some(id)) => action.named(id),
        _ => action,
    };
    let revoke = async move {
        let id = found.map_err(|error| problem(&error))?.ok_or_else(|| problem(&TokenError::NotFound))?;
        tokens.revoke(&id).await.map_err(|error| problem(&error))
    };
    let TokenRecord { id, name, .. } = caller.act(action, revoke).await?;
    Ok(Json(Ended { id, name, revoked: true }).into_response())
}

fn store(app: &App) -> Result<TokenStore, Problem> {
    app.tokens.clone().ok_or_else(|| {
        let message = "this server has no tokens of its own: the cluster knows who its callers are";
        Problem::new(StatusCode::CONFLICT, message, "use 'kubectl create token', and RBAC for what it may do")
    })
}

fn new_token(fields: Result<Fields, Problem>, created_by: String) -> Result<NewToken, Problem> {
    let mut fields = fields?;
    let missing = || Problem::bad_request("the field 'name' is missing", "give the token a name by which to revoke it");
    let name = fields.text("name")?.ok_or_else(missing)?;
    let grants = fields.texts("grants")?.iter().map(|text| text.parse()).collect::<Result<_, GrantError>>();
    let grants = grants.map_err(|_| {
        let roles = access::ROLES.iter().map(|role| role.name).collect::<Vec<_>>().join(", ");
        let hint = format!("write each as ROLE@NAMESPACE-PATTERN, for example viewer@team-*; the roles are {roles}");
        Problem::bad_request("the field 'grants' has an entry that is not understood", hint)
    })?;
    let expires_at = fields.whole_number("expires_in_seconds")?.map(|seconds| {
        let seconds = i64::try_from(seconds.min(LONGEST_LIFE)).unwrap_or_default();
        Timestamp::now().checked_add(SignedDuration::from_secs(seconds))
    });
    let expires_at = expires_at
        .transpose()
        .map_err(|_| Problem::bad_request("the field 'expires_in_seconds' is out of range", "choose a shorter life"))?;
    let (user, groups) = (fields.text("user")?, fields.texts("groups")?);
    Ok(NewToken { name, user, groups, grants, expires_at, created_by })
}

fn problem(error: &TokenError) -> Problem {
    let (status, hint) = match error {
        TokenError::Invalid { .. } => (StatusCode::BAD_REQUEST, "change that field and send it again"),
        TokenError::NameTaken => (StatusCode::CONFLICT, "choose another name, or revoke that token first"),
        TokenError::NotFound => (StatusCode::NOT_FOUND, "list the tokens to see their ids and names"),
        TokenError::Random | TokenError::Damaged(_) | TokenError::Db(_) => {
            tracing::error!(%error, "failed to work on tokens");
            return Problem::unavailable("the tokens cannot be reached at the moment");
        }
    };
    Problem::new(status, error.to_string(), hint)
}
