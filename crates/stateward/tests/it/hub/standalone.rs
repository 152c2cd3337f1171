//! A server without a cluster: defaults, restarts, settings, and what must not be where.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use backends::drivers::file::File;
use backends::{ServerLimits, Serving};
use futures::StreamExt as _;
use serde_json::{Value, json};
use testbed::Postgres;
use testbed::process::scratch;

use super::{code, create, data, send};
use crate::server::{PATIENCE, Start, answer};

const READ: &str = "query($id: ID!) { typeInstance(id: $id) { latestResourceVersion { spec { value } } } }";

#[tokio::test]
async fn values_are_sealed_and_there_after_a_restart_and_in_no_log() {
    let mut first = Start::new().variable("STATEWARD_LOG_LEVEL", "trace").serve();
    let (token, place) = (first.first_token(), first.data.clone());
    let canary = "canary-of-a-value-7c1e";
    let id = create(&first, &token, json!({ "value": { "password": canary }, "name": "kept" })).await;
    let value = json!({ "typeInstance": { "latestResourceVersion": { "spec": { "value": { "password": canary } } } } });
    assert_eq!(data(&first, &token, READ, json!({ "id": id })).await, value);
    // Faults of all sorts around a value.
    for variables in [
        json!({ "in": { "typeRef": { "path": "a b", "revision": "0.1.0" }, "value": canary } }),
        json!({ "in": canary }),
    ] {
        let (_, text) = send(&first, &token, super::CREATE, variables).await;
        assert!(text.contains("errors"), "{text}");
    }
    send(&first, &token, &format!("mutation {{ createTypeInstance(in: {{ value: \"{canary}\" }}"), json!({})).await;
    let stopped = first.process.stop(PATIENCE).unwrap();
    assert!(stopped.success(), "{stopped}");
    assert!(!first.process.log().contains(canary), "a value is in the log");
    let audit = std::fs::read_to_string(place.join("audit/audit.log")).unwrap();
    assert!(audit.contains("typeinstances") && !audit.contains(canary), "a value is on record");
    let mut files = 0;
    for entry in std::fs::read_dir(&place).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            assert!(
                !bytes.windows(canary.len()).any(|window| window == canary.as_bytes()),
                "a value is in {}",
                path.display()
            );
            files += 1;
        }
    }
    assert!(files > 2, "the database and its key are there");
    let mode = std::fs::metadata(place.join("hub.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    let second = Start::on(place).serve();
    assert_eq!(data(&second, &token, READ, json!({ "id": "kept" })).await, value);
}

#[tokio::test]
async fn settings_are_obeyed_and_named() {
    let directory = scratch("types").unwrap();
    std::fs::create_dir_all(directory.join("below")).unwrap();
    let manifest = "ocfVersion: 0.0.1\nkind: Type\nrevision: 0.1.0\nmetadata: {path: cap.type.known}\nspec: {value: {type: object}}\n";
    std::fs::write(directory.join("below/known.yaml"), manifest).unwrap();
    std::fs::write(directory.join("interface.yaml"), "ocfVersion: 0.0.1\nkind: Interface\n").unwrap();
    std::fs::write(directory.join("README.md"), "no manifest").unwrap();
    let server = Start::new()
        .flag("--hub-types-dir", &directory)
        .switch("--hub-require-types")
        .flag("--hub-namespace", "records")
        .flag("--hub-query-depth", "4")
        .flag("--hub-query-fields", "20")
        .flag("--hub-body-bytes", "4KiB")
        .flag("--hub-allowed-urls", "*.storage.svc:50051")
        .serve();
    let token = server.first_token();
    let types = data(&server, &token, "{ types { path } }", json!({})).await;
    assert_eq!(types, json!({ "types": [{ "path": "cap.type.known" }] }));
    let record = |path: &str, value: Value| json!({ "in": { "typeRef": { "path": path, "revision": "0.1.0" }, "value": value } });
    assert_eq!(code(&server, &token, super::CREATE, record("cap.type.unknown", json!({}))).await, "INVALID");
    assert_eq!(code(&server, &token, super::CREATE, record("cap.type.known", json!(1))).await, "INVALID");
    assert_eq!(code(&server, &token, super::CREATE, record("cap.type.known", json!({}))).await, "");
    let found = data(&server, &token, "{ typeInstances { namespace } }", json!({})).await;
    assert_eq!(found["typeInstances"], json!([{ "namespace": "records" }, { "namespace": "records" }]));
    for (query, setting) in [
        ("{ typeInstances { uses { uses { uses { id } } } } }", "hub.query_depth"),
        (
            &*format!("{{ {} }}", (0..21).map(|n| format!("a{n}: __typename ")).collect::<Vec<_>>().concat()),
            "hub.query_fields",
        ),
    ] {
        let (status, text) = send(&server, &token, query, json!({})).await;
        assert!(status == 400 && text.contains(setting), "{status} {text}");
    }
    let (status, text) =
        send(&server, &token, super::CREATE, record("cap.type.known", json!({ "a": "x".repeat(5000) }))).await;
    assert!(status == 413 && text.contains("hub.body_bytes"), "{status} {text}");
    let storage = |url: &str| {
        json!({ "in": {
        "typeRef": { "path": "cap.core.type.hub.storage.x", "revision": "0.1.0" }, "value": { "url": url, "acceptValue": true },
    } })
    };
    let (_, text) = send(&server, &token, super::CREATE, storage("elsewhere.example:443")).await;
    assert!(text.contains("INVALID"), "{text}");

    let off = Start::new().variable("STATEWARD_HUB_ENABLED", "false").serve();
    let (status, _) = send(&off, &off.first_token(), "{ __typename }", json!({})).await;
    assert_eq!(status, 404);
    assert!(!off.data.join("hub.key").exists());
    let (status, _) = answer(server.request("POST", "/graphql").json(&json!({ "query": "{ __typename }" }))).await;
    assert_eq!(status, 401);
    let (status, _) = answer(server.request("GET", "/graphql?query={__typename}").bearer_auth(&token)).await;
    assert_eq!(status, 405);
}

#[tokio::test]
async fn servers_that_share_a_database_share_records_by_a_named_key() {
    let postgres = Postgres::shared().unwrap();
    let url = postgres.url(&postgres.create_database().unwrap());
    let key = scratch("key").unwrap().join("hub.key");
    keys::key_file::create(&key).unwrap();
    let start = || {
        Start::new().variable("STATEWARD_DATABASE_URL", &url).flag("--keys-files", format!("shared={}", key.display()))
    };
    let with_key = || start().flag("--hub-encryption-key", "shared");
    let (one, two) = (with_key().serve(), with_key().serve());
    let token = std::fs::read_to_string(one.data.join("first-token")).unwrap().trim().to_owned();
    let follow = async |after: Option<String>| {
        let query =
            "subscription($after: String) { typeInstanceChanges(after: $after) { cursor kind typeInstance { name } } }";
        let response = two
            .request("POST", "/graphql")
            .bearer_auth(&token)
            .header("accept", "text/event-stream")
            .json(&json!({ "query": query, "variables": { "after": after } }))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        response.bytes_stream()
    };
    // Nobody tells when a stream has begun: something happens again and again until it is heard.
    let mut events = follow(None).await;
    let first = async {
        let mut text = String::new();
        loop {
            let chunk = tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            let data = text.lines().find_map(|line| line.strip_prefix("data:"));
            if let Some(event) = data.and_then(|data| serde_json::from_str::<Value>(data.trim()).ok()) {
                break event["data"]["typeInstanceChanges"]["cursor"].as_str().unwrap().to_owned();
            }
        }
    };
    let something = async {
        loop {
            create(&one, &token, json!({ "value": 1 })).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let cursor = tokio::select! {
        cursor = first => cursor,
        () = something => unreachable!("it goes on for ever"),
    };
    let id = create(&one, &token, json!({ "name": "shared", "value": 1.5 })).await;
    // On from there, on the server that did not make it.
    let (mut events, mut heard) = (follow(Some(cursor)).await, String::new());
    while !heard.contains("\"shared\"") {
        let chunk = tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
        heard.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(heard.contains("event: next") && heard.contains("\"CREATED\""), "{heard}");
    let read = data(&two, &token, READ, json!({ "id": id })).await;
    assert_eq!(read["typeInstance"]["latestResourceVersion"]["spec"]["value"], 1.5);
    // Without a key that others have there is no hub, and the rest goes on.
    let without = start().serve();
    assert_eq!(send(&without, &token, "{ __typename }", json!({})).await.0, 404);
    assert!(without.process.log().contains("hub.encryption_key"));
}

#[tokio::test]
async fn values_are_kept_by_a_backend_over_the_wire_and_by_policy() {
    let directory = scratch("values").unwrap();
    let driver = File::open(directory.join("files")).unwrap();
    let serving = Serving { listen: "127.0.0.1:0".parse().unwrap(), tls: None, limits: ServerLimits::default() };
    let backend = backends::Server::bind(Arc::new(driver), serving).await.unwrap();
    let address = backend.address().to_string();
    tokio::spawn(backend.run(std::future::pending()));
    let policy = directory.join("policy.yaml");
    std::fs::write(
        &policy,
        "typeInstance:\n  rules:\n  - typeRef: {path: cap.type.secret.*}\n    backend: {id: files}\n",
    )
    .unwrap();
    let server = Start::new().flag("--hub-policy-file", &policy).serve();
    let token = server.first_token();
    let storage = json!({ "name": "files", "typeRef": { "path": "cap.core.type.hub.storage.file", "revision": "0.1.0" }, "value": { "url": address, "acceptValue": true } });
    let backend = create(&server, &token, storage).await;
    let secret = create(
        &server,
        &token,
        json!({ "typeRef": { "path": "cap.type.secret.x", "revision": "0.1.0" }, "value": "canary-outside" }),
    )
    .await;
    let query =
        "query($id: ID!) { typeInstance(id: $id) { backend lockedBy latestResourceVersion { spec { value } } } }";
    let found = data(&server, &token, query, json!({ "id": secret })).await["typeInstance"].clone();
    assert_eq!(
        found,
        json!({ "backend": backend, "lockedBy": null, "latestResourceVersion": { "spec": { "value": "canary-outside" } } })
    );
    for file in ["stateward.db", "stateward.db-wal"] {
        let bytes = std::fs::read(server.data.join(file)).unwrap_or_default();
        assert!(!bytes.windows(14).any(|window| window == b"canary-outside"), "it is in {file}");
    }
    let plain = create(&server, &token, json!({ "value": 1 })).await;
    assert_eq!(
        data(&server, &token, query, json!({ "id": plain })).await["typeInstance"]["backend"],
        "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
    );
    let health =
        data(&server, &token, "{ storageBackend(id: \"files\") { health { status } typeInstanceCount } }", json!({}))
            .await;
    assert_eq!(health["storageBackend"], json!({ "health": { "status": "READY" }, "typeInstanceCount": 1 }));
}
