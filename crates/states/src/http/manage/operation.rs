//! What requests and answers of states carry that other routes do not.

use access::http::api::{self, Answer, Body, reference};
use serde_json::{Value, json};

use crate::engine::States;

/// A handler and its description.
pub(super) type Route = api::Route<States>;

/// A Terraform state.
pub(super) const STATE_BODY: Body = Body::Other { schema: state_schema, needed: true };
/// The LockInfo of a client.
pub(super) const LOCK_INFO: Body = Body::Other { schema: || reference("LockInfo"), needed: false };
pub(super) const STATE: Answer = Answer::Other(state_answer);

fn state_answer() -> Value {
    json!({
        "description": "A Terraform state",
        "content": { "application/json": { "schema": state_schema() } },
        "headers": {
            "Content-MD5": { "description": "The base64 of the MD5 of the body", "schema": { "type": "string" } },
        },
    })
}

fn state_schema() -> Value {
    json!({ "type": "object", "description": "A Terraform or OpenTofu state, byte for byte" })
}
