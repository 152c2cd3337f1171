//! The routes of the server, one file per family; adding one = one file and one line in [`main`].

mod health;
#[cfg(feature = "testing")]
mod probe;
mod status_page;
mod tokens;

use access::TokenStore;
use access::http::Problem;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use http::StatusCode;
use states::States;
use states::http::compat::Compat;

use super::layers::{Around, around};
use super::metrics::Metrics;
use super::ready::Readiness;

/// What handlers share.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// Standalone only: with a cluster, tokens are the cluster's.
    pub(crate) tokens: Option<TokenStore>,
    pub(crate) ready: Readiness,
    pub(crate) metrics: Metrics,
    pub(crate) states: States,
    /// None where it is switched off.
    pub(crate) explorer: Option<explorer::http::Http>,
    /// None where it is switched off.
    pub(crate) hub: Option<hub::http::Http>,
}

/// The main listener.
pub(crate) fn main(app: App, surroundings: Around, body_bytes: usize) -> Router {
    let routes = Router::new()
        .route("/", get(status_page::show))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .merge(tokens::routes())
        .merge(states::http::routes(app.states.clone()))
        .merge(states::http::manage::routes(&app.states));
    let routes = match &app.explorer {
        Some(http) => routes.merge(explorer::http::routes(http)),
        None => routes,
    };
    let routes = match &app.hub {
        Some(http) => routes.merge(hub::http::routes(http)),
        None => routes,
    };
    #[cfg(feature = "testing")]
    let routes = routes.merge(probe::routes());
    finish(routes.with_state(app).layer(DefaultBodyLimit::max(body_bytes)), surroundings)
}

/// The listener that speaks as the original ConfigMap backend does.
pub(crate) fn compatible(compat: Compat, surroundings: Around) -> Router {
    states::http::compat::routes(compat).layer(from_fn_with_state(surroundings, around))
}

/// The same listener where it is alone. Paths that monitoring asks for are there as far as the operator has exempted
/// them from authorization, and then for everybody: probes have no credentials. Otherwise they are a 404 as ever.
pub(crate) fn configmap_backend(
    compat: Compat,
    surroundings: Around,
    ready: Readiness,
    is_open: impl Fn(&str) -> bool,
) -> Router {
    let mut routes = states::http::compat::routes(compat);
    for path in ["/healthz", "/livez"].into_iter().filter(|path| is_open(path)) {
        routes = routes.route(path, get(health::alive));
    }
    if is_open("/readyz") {
        routes = routes.route("/readyz", get(|| async move { health::status_only(&ready).await }));
    }
    if is_open("/metrics") {
        let metrics = surroundings.metrics.clone();
        routes = routes.route("/metrics", get(|| async move { health::metrics_text(&metrics) }));
    }
    routes.layer(from_fn_with_state(surroundings, around))
}

/// The separate loopback port: what monitoring needs, and nothing else, without asking who it is.
pub(crate) fn metrics_only(app: App, surroundings: Around) -> Router {
    let routes = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready_openly))
        .route("/metrics", get(health::metrics_openly));
    finish(routes.with_state(app), surroundings)
}

fn finish(routes: Router, surroundings: Around) -> Router {
    // `route_layer` would see the matched path but not the fallback; `layer` sees both.
    let routes = routes.method_not_allowed_fallback(method_not_allowed).fallback(not_found);
    routes.layer(from_fn_with_state(surroundings, around))
}

async fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "there is nothing at this path",
        "see the documentation for the paths of this server",
    )
}

/// The answer to methods that a path does not have; axum adds the `Allow` header.
async fn method_not_allowed() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not have that method",
        "see the Allow header of this answer",
    )
}
