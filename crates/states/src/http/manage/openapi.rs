//! The OpenAPI document of everything that is served about states, made of the routes themselves.
//!
//! The door is [`document`].

use access::http::api::{self, Answer, Document, Input, Operation};
use serde_json::{Value, json};

use super::input::STORE;
use super::operation::Route;
use super::{FAMILIES, protocol};

pub(super) const ROUTES: &[Route] = &[api::Route(
    || api::document(document),
    Operation::new("GET", "/api/states/openapi.json", "getOpenApi", "This document")
        .needs("none: any authenticated caller")
        .answers(Answer::Document),
)];

/// The document, laid out for people.
pub fn document() -> String {
    let described = FAMILIES.iter().copied().flatten().map(|api::Route(_, operation)| operation);
    let document = Document {
        title: "Stateward: states",
        version: env!("CARGO_PKG_VERSION"),
        about: ABOUT,
        operations: described.chain(protocol::OPERATIONS).collect(),
        shared: |operation| if operation.path.starts_with("/api/states/{namespace}") { ONE_STATE } else { &[] },
        failures,
        failure,
        schemas: vec![("LockInfo", lock_info_schema())],
    };
    document.text()
}

const ONE_STATE: &[Input] = &[STORE];

const ABOUT: &str = "Terraform and OpenTofu states: the protocol of the clients under /state, and their management \
    under /api/states. Permissions are asked on the resource that a state is kept in (configmaps, secrets, or states \
    of stateward.dev), unless the operation names another. Made by `cargo xtask generate` from the routes; edits are \
    lost.";

/// What can happen wherever a store is asked.
fn failures(operation: &Operation) -> &'static [u16] {
    match operation.answer {
        Answer::Document => &[],
        _ if operation.path.contains("{namespace}") => &[404, 409, 413, 422, 424, 500],
        _ => &[422, 424, 500],
    }
}

fn failure(status: u16) -> Option<(&'static str, &'static str)> {
    match status {
        404 => Some(("There is no such state or version, or no such namespace in the cluster", "Error")),
        409 => Some(("The state was moved, or it cannot be read because the client encrypted it", "Error")),
        422 => {
            Some(("The store refuses for good, or the key of the state cannot be used; the message says why", "Error"))
        }
        424 => Some(("This server lacks a right in the store; those of the caller are not in question", "Error")),
        500 => Some(("What is stored is damaged, or the server failed; its log has the request id", "Error")),
        423 => Some(("Locked by another, or the caller's lock is gone: the LockInfo of the holder", "LockInfo")),
        _ => None,
    }
}

fn lock_info_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "description": "What a client says of itself when it locks; it comes back as it was sent",
        "properties": {
            "ID": text, "Operation": text, "Info": text, "Who": text, "Version": text, "Path": text,
            "Created": { "type": "string", "format": "date-time" },
        },
        "required": ["ID"],
    })
}
