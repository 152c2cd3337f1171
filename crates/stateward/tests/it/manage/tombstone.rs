//! A state that was moved says where, on both listeners, until it is restored.

use serde_json::{Value, json};

use super::api;
use crate::compat::{Rig, beside_cluster};
use crate::original::Original;
use crate::server::Start;
use crate::states::{User, a_state, info, user};

const TO: &str = "https://new.example/state/team-a/app";

fn names_the_place(what: &str, (status, text): (u16, String)) {
    assert_eq!(status, 409, "{what}: {text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["error"]["message"], format!("the state was moved to {TO}"), "{what}: {text}");
    // What terraform and tofu show of a 409 to a LOCK.
    assert_eq!(told["ID"], format!("the state was moved to {TO}"), "{what}: {text}");
}

#[tokio::test]
async fn a_tombstone_answers_409_with_the_new_place() {
    let server = Start::new().serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    let path = "/state/team-a/app";
    assert_eq!(ann.does("POST", path, a_state(1)).await, 200);
    assert_eq!(ann.does("LOCK", path, info("a")).await, 200);
    let body = |id: &str| json!({"to": TO, "lock_id": id}).to_string();
    let moved = api("team-a", "app", "/moved");
    assert_eq!(ann.does("POST", &moved, body("b")).await, 423);
    let shown = ann.json(200, "POST", &moved, &body("a")).await;
    assert_eq!((&shown["moved"]["to"], &shown["moved"]["by"]), (&json!(TO), &json!("ann")));
    assert_eq!(ann.does("POST", &moved, body("a")).await, 200, "a replay");
    assert_eq!(ann.does("UNLOCK", path, info("a")).await, 200);

    for (method, path, body) in [
        ("GET", path, String::new()),
        ("POST", path, a_state(2)),
        ("PUT", path, a_state(2)),
        ("LOCK", path, info("b")),
        ("DELETE", path, String::new()),
        ("GET", "/state/team-a/app/outputs", String::new()),
        ("GET", "/api/states/team-a/app/raw", String::new()),
        ("PUT", "/api/states/team-a/app/raw", a_state(2)),
        ("GET", "/api/states/team-a/app/versions/1/raw", String::new()),
        ("GET", "/api/states/team-a/app/diff", String::new()),
        ("GET", "/api/states/team-a/app/resources", String::new()),
        ("GET", "/api/states/team-a/app/outputs", String::new()),
        ("PUT", "/api/states/team-a/app/lock", "{\"reason\": \"r\"}".to_owned()),
        ("POST", "/api/states/team-a/app/rollback", "{\"version\": 1}".to_owned()),
    ] {
        names_the_place(&format!("{method} {path}"), ann.send(method, path, body).await);
    }
    let listed = ann.json(200, "GET", "/api/states", "").await;
    assert_eq!(listed["items"][0]["moved"]["to"], TO, "it is listed as moved");

    let restored = ann.json(200, "POST", &api("team-a", "app", "/restore"), "").await;
    assert_eq!(restored["moved"], Value::Null);
    assert_eq!(ann.send("GET", path, "").await, (200, a_state(1)));
    assert_eq!(ann.does("POST", path, a_state(2)).await, 200);
}

#[tokio::test]
async fn the_compatibility_listener_answers_409_too() {
    let rig = Rig::new().await;
    let path = rig.path("app");
    assert_eq!(rig.send("POST", &path, &a_state(1)).await.0, 200);
    assert_eq!(rig.send("LOCK", &path, &info("a")).await.0, 200);
    let full = User { server: &rig.server, token: rig.token.clone() };
    let here = format!("/api/states{path}");
    let body = json!({"to": TO, "lock_id": "a"}).to_string();
    full.json(200, "POST", &format!("{here}/moved?store=configmap"), &body).await;
    assert_eq!(rig.send("UNLOCK", &path, &info("a")).await.0, 200);
    for compress in [false, true] {
        let original = Original { maps: rig.maps.clone(), compress, minify: false };
        let (status, found) = original.get("app").await;
        let read = serde_json::from_slice::<Value>(&found);
        assert!(status == 500 || read.is_err(), "other programs fail: {}", String::from_utf8_lossy(&found));
        assert!(status == 500 || String::from_utf8_lossy(&found).contains(TO), "and can be told why");
    }
    for (method, body) in [("GET", String::new()), ("POST", a_state(2)), ("LOCK", info("b")), ("DELETE", String::new())]
    {
        names_the_place(method, rig.send(method, &path, &body).await);
    }
    full.json(200, "POST", &format!("{here}/restore?store=configmap"), "").await;
    assert_eq!(rig.send("GET", &path, "").await, (200, a_state(1)));
    let original = Original { maps: rig.maps.clone(), compress: true, minify: false };
    assert_eq!(original.get("app").await, (200, a_state(1).into_bytes()), "other programs read it again");
}

#[tokio::test]
async fn the_same_name_in_another_store_is_another_state() {
    let (server, token, namespace) = beside_cluster("stores", |start| start).await;
    let full = User { server: &server, token };
    let raw = |store: &str| api(&namespace, "app", &format!("/raw?store={store}"));
    for (serial, store) in [(1, "sqlite"), (2, "configmap"), (3, "secret")] {
        full.json(200, "PUT", &raw(store), &a_state(serial)).await;
    }
    for (serial, store) in [(1, "sqlite"), (2, "configmap"), (3, "secret")] {
        assert_eq!(full.send("GET", &raw(store), "").await, (200, a_state(serial)), "{store}");
        let shown = full.json(200, "GET", &api(&namespace, "app", &format!("?store={store}")), "").await;
        assert_eq!((&shown["store"], &shown["serial"]), (&json!(store), &json!(serial.to_string())));
    }
    assert_eq!(full.send("GET", &api(&namespace, "app", "/raw"), "").await.1, a_state(1), "no route: the database");
    let listed = full.json(200, "GET", &format!("/api/states?namespace={namespace}"), "").await;
    let stores: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|state| state["store"].as_str().unwrap()).collect();
    assert_eq!((stores, &listed["total"]), (vec!["configmap", "secret", "sqlite"], &json!(3)));
    let (status, text) = full.send("GET", &raw("s3"), "").await;
    assert!(status == 400 && text.contains("sqlite, configmap, secret"), "{status} {text}");
}
