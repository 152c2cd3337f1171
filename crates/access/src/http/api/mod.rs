//! Routes that carry their own description, so that an OpenAPI document and the router cannot differ.
//!
//! A family of routes is a list of [`Route`]s, the handler beside its [`Operation`]; [`router`] serves such lists and
//! [`Document`] writes them down. A handler reads its input by the same list of [`Input`]s that documents it. What the routes
//! are about is none of this module's business.

mod document;
mod input;
mod operation;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Serialize;

pub use document::{Document, reference};
pub use input::{Input, Kind, fields, names, query};
pub use operation::{Answer, Body, Operation, Route};

use super::Caller;

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

/// The handler of a document about routes, which is written when it is first asked for. Any authenticated caller may read it.
pub fn document<T: Clone + Send + Sync + 'static>(write: fn() -> String) -> MethodRouter<T> {
    let text = Arc::new(LazyLock::new(write));
    get(move |_caller: Caller| {
        let text = Arc::clone(&text);
        async move { ([(CONTENT_TYPE, "application/json")], text.as_str().to_owned()) }
    })
}

/// JSON that nobody keeps.
pub fn answer(value: impl Serialize) -> Response {
    ([(CACHE_CONTROL, "no-store")], axum::Json(value)).into_response()
}
