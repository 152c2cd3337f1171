//! The OpenAPI document of the query API, made of the routes themselves.

use access::http::api::{self, Answer, Document, Operation, Route};

use super::{FAMILIES, Http};

pub(super) const ROUTES: &[Route<Http>] = &[api::Route(
    || api::document(document),
    Operation::new("GET", "/v1/openapi.json", "getOpenApi", "This document")
        .needs("none: any authenticated caller")
        .answers(Answer::Document),
)];

/// The document, laid out for people.
pub fn document() -> String {
    let document = Document {
        title: "Stateward: explorer",
        version: env!("CARGO_PKG_VERSION"),
        about: ABOUT,
        operations: FAMILIES.iter().copied().flatten().map(|api::Route(_, operation)| operation).collect(),
        shared: |_| &[],
        failures: |_| &[],
        failure: |_| None,
        schemas: Vec::new(),
    };
    document.text()
}

const ABOUT: &str = "Objects of many clusters, limited to what the caller may see in each. Permissions are those of the \
    cluster that an object is in, unless the operation names another. Ids in paths are percent-encoded. Made by \
    `cargo xtask generate` from the routes; edits are lost.";
