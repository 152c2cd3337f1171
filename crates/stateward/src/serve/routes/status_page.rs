//! `/` until the web interface exists: that this is Stateward, its version, whether it is ready.

use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};

use super::App;

pub(super) async fn show(State(app): State<App>) -> Response {
    let ready = app.ready.report().await.iter().all(|(_, part)| part.is_ok());
    let ready = if ready { "ready" } else { "not ready: ask /readyz?verbose with a token" };
    let version = env!("CARGO_PKG_VERSION");
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Stateward</title>\
         <h1>Stateward {version}</h1><p>This server is {ready}.</p>\
         <p><a href=\"/explore\">Search</a> the objects that you may see, or use the command line: \
         <code>stateward --help</code>.</p></html>\n"
    );
    let headers = [
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
    ];
    (headers, Html(page)).into_response()
}
