//! The explorer as callers meet it: the query API under `/v1`, and the search page under `/explore`.
//!
//! The door is [`Http`]: made once over an [`Explorer`], it gives the [`routes`] and the [`openapi::document`]. One file per
//! family; each lists its routes with their description. A handler learns who asks from [`Caller`](access::http::Caller), asks
//! the explorer what they may see, and answers from that alone.
//!
//! What must never be here: an answer that was made before the caller's sight was known; a token in an answer, a page or a log;
//! an act on a cluster with any credentials but the caller's own; a cookie that counts outside the page.

mod answers;
mod asked;
mod limits;
mod problem;

mod query;

mod facets;
mod object;

mod explain;
mod rules;

mod clusters;

mod changes;
mod sessions;

mod actions;
mod deeds;

pub mod openapi;
mod page;

use std::sync::Arc;

use access::http::api::{self, Route};
use axum::Router;
use tokio::sync::{Semaphore, watch};

use crate::service::Explorer;
use sessions::Sessions;

/// Adding a family = one file and one line.
const FAMILIES: &[&[Route<Http>]] = &[
    query::ROUTES,
    facets::ROUTES,
    object::ROUTES,
    explain::ROUTES,
    rules::ROUTES,
    clusters::ROUTES,
    changes::ROUTES,
    actions::ROUTES,
    openapi::ROUTES,
];

/// What handlers share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Http(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    explorer: Explorer,
    settings: Settings,
    followers: Arc<Semaphore>,
    sessions: Arc<Sessions>,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// The cluster that is meant where none is named.
    pub local: Option<String>,
    /// The same as the service's: any of these shows a row.
    pub row_verbs: Vec<String>,
    /// How many follow changes at the same time.
    pub followers: usize,
    /// Whether the page is reached by TLS, so that its cookie must be.
    pub transport: Transport,
    /// Turns true when the server stops: whoever follows is let go.
    pub stop: watch::Receiver<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Plain,
    Tls,
}

impl Http {
    pub fn new(explorer: Explorer, settings: Settings) -> Http {
        let followers = Arc::new(Semaphore::new(settings.followers));
        let sessions = Arc::new(Sessions::new(settings.followers));
        Http(Arc::new(Shared { explorer, settings, followers, sessions }))
    }

    fn explorer(&self) -> &Explorer {
        &self.0.explorer
    }

    fn settings(&self) -> &Settings {
        &self.0.settings
    }
}

/// Everything that is served about the explorer.
pub fn routes<S: Clone + Send + Sync + 'static>(http: &Http) -> Router<S> {
    api::router(FAMILIES, http).merge(page::routes(http))
}
