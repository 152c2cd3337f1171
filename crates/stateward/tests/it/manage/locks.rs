//! Locks by people.

use serde_json::{Value, json};

use super::api;
use crate::server::Start;
use crate::states::{a_state, info, user};

const PATH: &str = "/state/team-a/app";

#[tokio::test]
async fn a_person_locks_with_a_reason_and_unlocks_again() {
    let server = Start::new().serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    let bob = user(&server, "bob", &["editor@*"]).await;
    let root = user(&server, "root", &["admin@*"]).await;
    let path = api("team-a", "app", "/lock");
    let lock = ann.json(200, "PUT", &path, "{\"reason\": \"frozen for the audit\"}").await;
    for (field, expected) in [
        ("operation", "manual"),
        ("info", "frozen for the audit"),
        ("who", "ann@stateward"),
        ("user", "ann"),
        ("path", "team-a/app"),
    ] {
        assert_eq!(lock[field], expected, "{lock}");
    }
    assert!(lock["created"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{lock}");
    let id = lock["id"].as_str().unwrap();

    // Clients meet a LockInfo that they can parse, whole.
    let (status, told) = bob.send("LOCK", PATH, info("other")).await;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((status, &told["ID"], &told["Info"]), (423, &json!(id), &json!("frozen for the audit")));
    assert!(["Operation", "Who", "Version", "Created", "Path"].iter().all(|field| told[field].is_string()), "{told}");
    let (status, again) = bob.send("PUT", &path, "{\"reason\": \"mine\"}").await;
    assert_eq!((status, serde_json::from_str::<Value>(&again).unwrap()), (423, told));
    assert_eq!(ann.does("POST", PATH, a_state(1)).await, 423, "also she needs its ID");
    assert_eq!(ann.does("POST", &format!("{PATH}?ID={id}"), a_state(1)).await, 200);

    assert_eq!(bob.does("DELETE", &format!("{path}?ID={id}"), "").await, 403, "it is not his");
    assert_eq!(ann.does("DELETE", &format!("{path}?ID=other"), "").await, 423);
    for unlocked in [true, false] {
        let answer = ann.json(200, "DELETE", &format!("{path}?ID={id}"), "").await;
        assert_eq!(answer, json!({"unlocked": unlocked}));
    }

    // With an ID and an operation of her own; the same request again is no conflict.
    let body = "{\"reason\": \"r\", \"id\": \"my-id\", \"operation\": \"freeze\"}";
    for _ in 0..2 {
        let lock = ann.json(200, "PUT", &path, body).await;
        assert_eq!((&lock["id"], &lock["operation"]), (&json!("my-id"), &json!("freeze")));
    }
    let listed = root.json(200, "GET", "/api/states/locks?namespace=team-a", "").await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["items"][0]["id"], "my-id");
    assert_eq!(bob.does("DELETE", &format!("{path}?force=true"), "").await, 403);
    assert_eq!(root.does("DELETE", &format!("{path}?force=true&ID=other"), "").await, 423, "only that one");
    let broken = root.json(200, "DELETE", &format!("{path}?force=true"), "").await;
    assert_eq!(broken, json!({"unlocked": true}));
    let (status, told) = ann.send("POST", &format!("{PATH}?ID=my-id"), a_state(2)).await;
    assert!(status == 423 && told.contains("broken by root"), "{status} {told}");

    let strict = Start::new().switch("--states-forced-unlock=false").serve();
    let root = user(&strict, "root", &["admin@*"]).await;
    assert_eq!(root.does("PUT", &path, body).await, 200);
    assert_eq!(root.does("DELETE", &format!("{path}?force=true"), "").await, 403);
    assert_eq!(root.does("DELETE", &format!("{path}?ID=my-id"), "").await, 200);
}
