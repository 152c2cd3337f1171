//! What a server remembers of the states that it wrote: never more than what is there.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use testbed::Cluster;

use crate::compat::{beside_cluster, somebody};
use crate::states::{User, a_state, info};

const LOCK: &str = "tf-kubernetes-configmap-backend.jimmidyson.github.com";

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_went_away_is_made_anew_only_by_those_who_may_create() {
    let (server, token, namespace) = beside_cluster("gone", |start| start.flag("--states-routes", "*=configmap")).await;
    let cluster = Cluster::shared().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let full = User { server: &server, token };
    let token = somebody(cluster, &namespace, "updater", &["get", "list", "update", "delete"]).await;
    let updater = User { server: &server, token };
    let path = format!("/state/{namespace}/app");
    for (method, body) in [("LOCK", info("b")), ("POST", a_state(2))] {
        for (who, expected) in [(&updater, 403), (&full, 200)] {
            assert_eq!(full.does("POST", &path, a_state(1)).await, 200);
            assert_eq!(updater.does("LOCK", &path, info("a")).await, 200);
            assert_eq!(updater.does("UNLOCK", &path, info("a")).await, 200);
            maps.delete("app", &DeleteParams::default()).await.unwrap();
            assert_eq!(who.does(method, &path, body.clone()).await, expected, "{method}");
            assert_eq!(maps.get_opt("app").await.unwrap().is_some(), expected == 200, "{method}");
            assert_eq!(full.does("UNLOCK", &path, info("b")).await, 200);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_program_changes_in_between_counts() {
    let (server, token, namespace) =
        beside_cluster("other", |start| start.flag("--states-routes", "*=configmap")).await;
    let maps: Api<ConfigMap> = Api::namespaced(Cluster::shared().await.client(), &namespace);
    let user = User { server: &server, token };
    let path = format!("/state/{namespace}/app");
    let patch = async |patch: serde_json::Value| {
        maps.patch("app", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    };
    assert_eq!(user.does("LOCK", &path, info("a")).await, 200);
    assert_eq!(user.does("POST", &format!("{path}?ID=a"), a_state(1)).await, 200);
    // Somebody frees the lock with kubectl: its holder is told so, and another has it.
    let annotation = |part: &str| format!("{LOCK}/{part}");
    let freed =
        [("lock-id"), ("lock-operation"), ("lock-info"), ("lock-who")].map(|part| (annotation(part), json!(null)));
    patch(json!({ "metadata": { "annotations": serde_json::Map::from_iter(freed) } })).await;
    assert_eq!(user.does("POST", &format!("{path}?ID=a"), a_state(2)).await, 423);
    assert_eq!(user.does("LOCK", &path, info("b")).await, 200);
    // Another program takes it over by its annotations.
    let taken = [("lock-id", "c"), ("lock-operation", "apply"), ("lock-info", ""), ("lock-who", "other@host")];
    let taken = taken.map(|(part, text)| (annotation(part), json!(text)));
    patch(json!({ "metadata": { "annotations": serde_json::Map::from_iter(taken) } })).await;
    let (status, text) = user.send("LOCK", &path, info("d")).await;
    assert!(status == 423 && text.contains("other@host"), "{status} {text}");
    assert_eq!(user.does("POST", &format!("{path}?ID=b"), a_state(2)).await, 423);
    // And writes.
    patch(json!({ "binaryData": { "tfstate": k8s_openapi::ByteString(a_state(7).into_bytes()) } })).await;
    assert_eq!(user.send("GET", &path, "").await, (200, a_state(7)));
    assert_eq!(user.does("UNLOCK", &path, "").await, 200);
    assert_eq!(user.does("POST", &path, a_state(8)).await, 200);
    assert_eq!(user.send("GET", &path, "").await, (200, a_state(8)));
}
