//! The OpenAPI document and the router say the same.

use std::collections::BTreeSet;

use serde_json::Value;

use super::with_outputs;
use crate::run::repository;
use crate::server::{Start, answer};
use crate::states::user;

/// The methods of one path of the document.
fn methods(path: &Value) -> BTreeSet<String> {
    let plain = path.as_object().unwrap().keys().filter(|key| !matches!(key.as_str(), "parameters" | "x-methods"));
    let others = path["x-methods"].as_object().into_iter().flatten().map(|(method, _)| method);
    plain.chain(others).map(|method| method.to_uppercase()).collect()
}

#[tokio::test]
async fn every_path_has_exactly_the_methods_that_the_document_says() {
    let server = Start::new().serve();
    let ann = user(&server, "ann", &["admin@*"]).await;
    let document = ann.json(200, "GET", "/api/states/openapi.json", "").await;
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 16, "{:?}", paths.keys());
    for (template, path) in paths {
        let place = template.replace("{namespace}", "team-a").replace("{name}", "app").replace("{version}", "1");
        // The router tells which methods a path has when it is asked for one that it has not.
        let response = server.request("BREW", &place).bearer_auth(&ann.token).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 405, "{template}");
        let allowed = response.headers()["allow"].to_str().unwrap();
        let allowed: BTreeSet<String> =
            allowed.split(',').map(|method| method.trim().to_owned()).filter(|method| method != "HEAD").collect();
        assert_eq!(allowed, methods(path), "{template}");
        for method in methods(path) {
            assert_eq!(ann.does("POST", "/state/team-a/app", with_outputs(1, &method)).await, 200);
            assert_eq!(ann.does("POST", "/state/team-a/app", with_outputs(2, &method)).await, 200);
            let (status, text) = ann.send(&method, &place, "").await;
            assert!(!matches!(status, 404 | 405) && status < 500, "{method} {template}: {status} {text}");
            let operation = match &path["x-methods"][&method] {
                Value::Null => &path[method.to_lowercase()],
                operation => operation,
            };
            let described = operation["responses"].as_object().unwrap();
            assert!(described.contains_key(&status.to_string()), "{method} {template} answers {status}: {text}");
            ann.does("DELETE", "/api/states/team-a/app/lock?force=true", "").await;
        }
    }
}

#[tokio::test]
async fn the_document_is_whole_and_the_one_that_is_committed() {
    let server = Start::new().serve();
    let (status, text) =
        answer(server.request("GET", "/api/states/openapi.json").bearer_auth(server.first_token())).await;
    assert_eq!(status, 200);
    let committed = std::fs::read_to_string(repository().join("docs/reference/openapi.json")).unwrap();
    assert_eq!(text, committed, "run `cargo xtask generate`");
    let document: Value = serde_json::from_str(&text).unwrap();
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 100);
    for reference in references {
        let found = document.pointer(reference.strip_prefix('#').unwrap());
        assert!(found.is_some_and(Value::is_object), "{reference} leads nowhere");
    }
    let ids: Vec<&str> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|path| path.as_object().unwrap().values())
        .filter_map(|operation| operation["operationId"].as_str())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            references.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, references));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}
