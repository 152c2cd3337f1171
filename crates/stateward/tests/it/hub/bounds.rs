//! What a server takes without a page and without running out of memory.

use serde_json::{Value, json};

use super::{code, create, data, send};
use crate::server::Start;

#[tokio::test]
async fn ten_thousand_records_are_one_list_without_a_page() {
    let server = Start::new().serve();
    let token = server.first_token();
    let many = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
    let record = json!({ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" }, "value": 1 });
    let batch = json!({ "in": { "typeInstances": vec![record; 1000], "usesRelations": [] } });
    for _batch in 0..10 {
        data(&server, &token, many, batch.clone()).await;
    }
    let listed = data(&server, &token, "{ typeInstances { id } }", json!({})).await;
    assert_eq!(listed["typeInstances"].as_array().map(Vec::len), Some(10_001), "and the built-in one");
}

#[tokio::test]
async fn relations_of_relations_do_not_take_much_memory() {
    let server = Start::new().serve();
    let token = server.first_token();
    let many = "mutation($in: CreateTypeInstancesInput!) { createTypeInstances(in: $in) { id } }";
    let record = json!({ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" } });
    let batch = json!({ "in": { "typeInstances": vec![record; 1000], "usesRelations": [] } });
    for _batch in 0..3 {
        data(&server, &token, many, batch.clone()).await;
    }
    server.forget_peak();
    let before = server.peak_memory();
    // All of them use one, which all of them use: nine millions.
    let query = "{ typeInstances { uses { usedBy { id } } } }";
    assert_eq!(code(&server, &token, query, json!({})).await, "TOO_LARGE");
    let taken = server.peak_memory().saturating_sub(before);
    assert!(taken < 512 << 20, "{} MiB", taken >> 20);
}

/// A Type with so many expressions, all different, each of some dozen bytes and far more when it is ready.
fn hostile(name: usize, expressions: usize, times: usize) -> String {
    let parts: Vec<Value> =
        (0..expressions).map(|number| json!({ "pattern": format!("^{number}[a-z]{{{times}}}$") })).collect();
    json!({
        "ocfVersion": "0.0.1", "kind": "Type", "revision": "0.1.0", "metadata": { "path": format!("cap.type.hostile-{name}") },
        "spec": { "value": { "anyOf": parts } },
    })
    .to_string()
}

#[tokio::test]
async fn small_types_do_not_take_much_memory() {
    let server = Start::new().serve();
    let token = server.first_token();
    let apply = "mutation($m: [String!]!) { applyTypes(manifests: $m) { path } }";
    create(&server, &token, json!({})).await;
    server.forget_peak();
    let before = server.peak_memory();
    for (expressions, times) in [(5_000, 1_000), (250, 2_500)] {
        let (_, text) = send(&server, &token, apply, json!({ "m": [hostile(0, expressions, times)] })).await;
        assert!(text.contains("expressions") && text.contains("use fewer or simpler ones"), "{text}");
    }
    // As large as they may be, and all of them used.
    for name in 0..8 {
        data(&server, &token, apply, json!({ "m": [hostile(name, 15, 2_500)] })).await;
        let record = json!({ "in": { "typeRef": { "path": format!("cap.type.hostile-{name}"), "revision": "0.1.0" }, "value": "x" } });
        assert_eq!(code(&server, &token, super::CREATE, record).await, "INVALID");
    }
    let taken = server.peak_memory().saturating_sub(before);
    assert!(taken < 256 << 20, "{} MiB", taken >> 20);
}
