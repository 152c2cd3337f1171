//! The hub of a real server: standalone, and beside a cluster whose RBAC decides.

mod bounds;
mod rbac;
mod renewed;
mod standalone;

use serde_json::{Value, json};

use crate::server::{Server, answer};

/// The status and the text of an answer to a document.
pub async fn send(server: &Server, token: &str, query: &str, variables: Value) -> (u16, String) {
    let body = json!({ "query": query, "variables": variables });
    answer(server.request("POST", "/graphql").bearer_auth(token).json(&body)).await
}

/// What a document that succeeds gives.
pub async fn data(server: &Server, token: &str, query: &str, variables: Value) -> Value {
    let (status, text) = send(server, token, query, variables).await;
    let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}"));
    assert!(status == 200 && answer.get("errors").is_none(), "{query}: {text}");
    answer["data"].clone()
}

/// The code of the first error; empty if there is none.
pub async fn code(server: &Server, token: &str, query: &str, variables: Value) -> String {
    let (status, text) = send(server, token, query, variables).await;
    let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}"));
    answer["errors"][0]["extensions"]["code"].as_str().unwrap_or_default().to_owned()
}

pub const CREATE: &str = "mutation($in: CreateTypeInstanceInput!) { createTypeInstance(in: $in) }";

/// Creates a record of `cap.type.test` with what else is given; its id.
pub async fn create(server: &Server, token: &str, more: Value) -> String {
    let mut input = json!({ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" } });
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    data(server, token, CREATE, json!({ "in": input })).await["createTypeInstance"].as_str().unwrap().to_owned()
}
