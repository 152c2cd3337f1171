//! A server without a cluster of its own: static tokens, and clusters that an administrator adds.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use testbed::{Scope, eventually, rule, subject};

use super::{Person, collector, crossing::other, make_map, own};
use crate::server::{PATIENCE, Server, Start, answer};

async fn token(server: &'static Server, name: &str, grant: &str) -> Person {
    let body = json!({ "name": name, "user": name, "grants": [grant] });
    let (status, text) =
        answer(server.request("POST", "/api/v1/tokens").bearer_auth(server.first_token()).json(&body)).await;
    assert_eq!(status, 201, "{text}");
    let made: Value = serde_json::from_str(&text).unwrap();
    Person { server, token: made["token"].as_str().unwrap().to_owned() }
}

#[tokio::test]
async fn a_static_token_sees_what_the_user_sees_that_an_administrator_gave_it() {
    let other = other().await;
    let namespace = other.namespace("static").await;
    make_map(other, &namespace, "map", &[]).await;
    other
        .grant(Scope::Namespace(&namespace), &[subject::user("robot")], &[rule(&["list"], &[""], &["configmaps"])])
        .await;
    let data = Start::new().flag("--explorer-kinds", super::KINDS);
    let server: &'static Server = Box::leak(Box::new(data.serve()));
    let admin = Person { server, token: server.first_token() };
    let (given, strange) = (token(server, "ci", "viewer@*").await, token(server, "robot", "admin@*").await);

    // Nothing is there before a cluster is, and nobody is told why there should be.
    let empty = admin.find("").await;
    assert_eq!((&empty["total"], &empty["collected"]), (&json!(0), &json!({ "clusters": 0, "of": 0 })));
    let new = json!({
        "name": "west", "kubeconfig": collector(other).await.yaml(), "identity": "shared",
        "tokens": { "ci": { "user": "robot" } },
    });
    let (status, refused) = given.post("/v1/clusters", &new).await;
    assert_eq!(status, 403, "{refused}");
    let editor = token(server, "ed", "editor@*").await;
    assert_eq!(editor.post("/v1/clusters", &new).await.0, 403, "credentials are not for editors");
    let (status, added) = admin.post("/v1/clusters", &new).await;
    assert_eq!(status, 200, "{added}");
    given.sees(&own(&namespace), &["map"]).await;
    // The same name as a user of the cluster is nothing, nor is every role of this server.
    for person in [&strange, &admin] {
        assert_eq!(person.names("").await, [""; 0]);
    }
    let (_, list) = given.get("/v1/clusters").await;
    assert_eq!(list["clusters"][0]["name"], "west");
    let (status, acted) =
        given.post("/v1/actions", &json!({ "action": "suspend", "ids": ["west/a//v1/ConfigMap/b"] })).await;
    assert_eq!(status, 409, "a static token goes to no API server: {acted}");
    // The credentials are sealed where they are kept, and the rows are for their owner only.
    let kubeconfig: Value = serde_json::from_str(new["kubeconfig"].as_str().unwrap()).unwrap();
    let secret = kubeconfig["users"][0]["user"]["token"].as_str().unwrap().as_bytes();
    for file in ["stateward.db", "stateward.db-wal", "explorer.db", "explorer.db-wal"] {
        let bytes = std::fs::read(server.data.join(file)).unwrap_or_default();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret), "a credential is in {file}");
    }
    let mode = std::fs::metadata(server.data.join("explorer.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[tokio::test]
async fn an_added_cluster_is_there_after_a_restart_and_shown_when_its_rules_are_known() {
    let other = other().await;
    let namespace = other.namespace("restart").await;
    make_map(other, &namespace, "map", &[]).await;
    other
        .grant(Scope::Namespace(&namespace), &[subject::user("restarted")], &[rule(&["list"], &[""], &["configmaps"])])
        .await;
    let mut first = Start::new().flag("--explorer-kinds", super::KINDS).serve();
    let (token, data) = (first.first_token(), first.data.clone());
    let new = json!({
        "name": "west", "kubeconfig": collector(other).await.yaml(), "tokens": { "admin": { "user": "restarted" } },
    });
    let (status, text) = answer(first.request("POST", "/v1/clusters").bearer_auth(&token).json(&new)).await;
    assert_eq!(status, 200, "{text}");
    let total = |server: &Server, token: String, query: String| {
        let request = server.request("POST", "/v1/query").bearer_auth(token).json(&json!({ "query": query }));
        async move {
            let (status, text) = answer(request).await;
            assert_eq!(status, 200, "{text}");
            serde_json::from_str::<Value>(&text).unwrap()
        }
    };
    eventually(PATIENCE, || async { total(&first, token.clone(), own(&namespace)).await["total"] == 1 }).await;
    first.process.kill();
    let second = Start::on(data).flag("--explorer-kinds", super::KINDS).serve();
    eventually(PATIENCE, || async {
        let answer = total(&second, token.clone(), own(&namespace)).await;
        // Until RBAC has synced in this process there is nothing, nor a row that a kill kept from the disk until it is collected
        // again; and it is said so.
        let is_withheld = answer["withheld"].as_array().unwrap().len() == 1;
        let is_collecting = answer["collected"] == json!({ "clusters": 0, "of": 1 });
        assert!(answer["total"] == 1 || (answer["total"] == 0 && (is_withheld || is_collecting)), "{answer}");
        if answer["total"] == 1 { Ok(()) } else { Err(answer) }
    })
    .await;
}
