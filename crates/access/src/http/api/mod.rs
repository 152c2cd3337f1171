//! Routes that carry their own description, so that an OpenAPI document and the router cannot differ.
//!
//! A family of routes is a list of [`Route`]s, the handler beside its [`Operation`]; [`router`] serves such lists and
//! [`Document`] writes them down. A handler reads its input by the same list of [`Input`]s that documents it. What the routes
//! are about is none of this module's business.

mod document;
mod input;
mod operation;

use axum::Router;
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;
use serde::Serialize;

pub use document::{Document, reference};
pub use input::{Input, Kind, fields, names, query};
pub use operation::{Answer, Body, Operation, Route};

/// Serves lists of routes.
pub fn router<S, T>(families: &[&[Route<T>]], state: &T) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    let add = |router: Router<S>, Route(handler, operation): &Route<T>| {
        router.route(operation.path, handler().with_state(state.clone()))
    };
    families.iter().copied().flatten().fold(Router::new(), add)
}

/// JSON that nobody keeps.
pub fn answer(value: impl Serialize) -> Response {
    ([(CACHE_CONTROL, "no-store")], axum::Json(value)).into_response()
}
