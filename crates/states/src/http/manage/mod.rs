//! The management API, `/api/states`: what people and their programs do with states beside what clients do.
//!
//! The doors are [`routes`] and [`openapi::document`]. One file per family; each lists its routes as [`Route`]s, the
//! handler beside what the OpenAPI document says of it, so that neither can be there without the other. A handler reads
//! its input by the same list that documents it, asks the caller's permission and hands the rest to the engine.

mod answers;
mod asked;
mod content;
mod input;
mod list;
mod lock;
pub mod openapi;
mod operation;
mod protocol;
mod state;
mod versions;

use access::http::api;
use axum::Router;

use crate::engine::States;
use operation::Route;

/// Adding a family = one file and one line.
const FAMILIES: &[&[Route]] =
    &[list::ROUTES, openapi::ROUTES, state::ROUTES, versions::ROUTES, content::ROUTES, lock::ROUTES];

/// All routes under `/api/states`.
pub fn routes<S: Clone + Send + Sync + 'static>(states: &States) -> Router<S> {
    api::router(FAMILIES, states)
}
