//! Whether the server lives, whether it is ready, and its metrics.
//!
//! Everybody may ask for the status; what is not ready, and the metrics, need `get` on that path, or the separate
//! loopback port.

use access::Action;
use access::http::{Caller, Problem};
use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use super::App;
use crate::serve::metrics::Metrics;
use crate::serve::ready::Readiness;

pub(super) async fn alive() -> Response {
    plain(StatusCode::OK, "ok\n".to_owned())
}

pub(super) async fn ready(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    if !is_verbose(&request) {
        return Ok(status_only(&app.ready).await);
    }
    let (mut parts, _) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, &app).await?;
    caller.may(&Action::at("get", "/readyz")).await?;
    Ok(report(&app).await)
}

pub(super) async fn ready_openly(State(app): State<App>, request: Request) -> Response {
    if is_verbose(&request) { report(&app).await } else { status_only(&app.ready).await }
}

pub(super) async fn metrics(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    caller.may(&Action::at("get", "/metrics")).await?;
    metrics_openly(State(app)).await
}

pub(super) async fn metrics_openly(State(app): State<App>) -> Result<Response, Problem> {
    metrics_text(&app.metrics)
}

pub(super) fn metrics_text(metrics: &Metrics) -> Result<Response, Problem> {
    let text = metrics.text().map_err(|_| Problem::unavailable("the metrics cannot be written out"))?;
    let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, format)], text).into_response())
}

fn is_verbose(request: &Request) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="))
}

pub(super) async fn status_only(ready: &Readiness) -> Response {
    let ready = ready.report().await.iter().all(|(_, part)| part.is_ok());
    if ready {
        plain(StatusCode::OK, "ok\n".to_owned())
    } else {
        plain(StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_owned())
    }
}

async fn report(app: &App) -> Response {
    let parts = app.ready.report().await;
    let ready = parts.iter().all(|(_, part)| part.is_ok());
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let lines = parts.iter().map(|(part, state)| match state {
        Ok(()) => format!("[+] {part} ok\n"),
        Err(reason) => format!("[-] {part} not ready: {reason}\n"),
    });
    plain(status, lines.collect())
}

fn plain(status: StatusCode, text: String) -> Response {
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-store")];
    (status, headers, text).into_response()
}
