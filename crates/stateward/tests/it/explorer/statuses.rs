//! Statuses as they are shown, objects that are being deleted, and those that are gone and kept for a while.

use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::{eventually, scale};

use super::{Person, World, beside, delete_map, in_path, make_map, own, world};
use crate::server::PATIENCE;

fn gadgets(world: World, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "explore.example".to_owned(),
        version: "v1".to_owned(),
        api_version: "explore.example/v1".to_owned(),
        kind: "Gadget".to_owned(),
        plural: "gadgets".to_owned(),
    };
    Api::namespaced_with(world.cluster.client(), namespace, &resource)
}

async fn make(world: World, namespace: &str, name: &str, more: Value) {
    let mut object = json!({
        "apiVersion": "explore.example/v1", "kind": "Gadget", "metadata": { "name": name, "namespace": namespace },
    });
    for (field, value) in more.as_object().unwrap() {
        match field.as_str() {
            "finalizers" => object["metadata"]["finalizers"] = value.clone(),
            field => object[field] = value.clone(),
        }
    }
    world.cluster.apply(&object.to_string()).await;
}

async fn reader(world: World, namespace: &str) -> Person {
    world.reader(namespace, "jane", &["explore.example", ""], &["gadgets", "configmaps"]).await
}

#[tokio::test]
async fn each_condition_is_shown_as_the_status_that_it_means() {
    let world = world().await;
    let namespace = world.cluster.namespace("statuses").await;
    let person = reader(world, &namespace).await;
    let condition = |kind: &str, status: &str, reason: &str| json!({ "type": kind, "status": status, "reason": reason, "message": "why" });
    let with = |conditions: Vec<Value>| json!({ "status": { "conditions": conditions } });
    let table = [
        ("ready", with(vec![condition("Ready", "True", "Done")]), "Success", "why"),
        ("available", with(vec![condition("Available", "True", "Done")]), "Success", "why"),
        ("failed", with(vec![condition("Ready", "False", "Broken")]), "Failed", "why"),
        ("progressing", with(vec![condition("Ready", "Unknown", "Progressing")]), "Reconciling", "why"),
        ("planned", with(vec![condition("Ready", "Unknown", "TerraformPlannedWithChanges")]), "PendingAction", "why"),
        ("unsure", with(vec![condition("Ready", "Unknown", "Else")]), "Failed", "why"),
        ("no-status", with(vec![condition("-", "True", "Else")]), "-", ""),
        ("other", with(vec![condition("Stalled", "True", "Else")]), "Failed", ""),
        (
            "suspended",
            json!({ "spec": { "suspend": true }, "status": { "conditions": [condition("Ready", "True", "")] } }),
            "Suspended",
            "why",
        ),
        // New, and not looked at by anybody: the original called it failed.
        ("new", json!({ "spec": {} }), "Unknown", ""),
    ];
    for (name, more, ..) in &table {
        make(world, &namespace, name, more.clone()).await;
    }
    eventually(PATIENCE, || async { person.total(&format!("ns:{namespace} kind:Gadget")).await == table.len() as u64 })
        .await;
    for (name, _, status, message) in table {
        let answer = person.find(&format!("ns:{namespace} kind:Gadget name:{name}")).await;
        let row = &answer["objects"][0];
        assert_eq!((&row["status"], &row["message"]), (&json!(status), &json!(message)), "{name}");
        let found = person.names(&format!("ns:{namespace} kind:Gadget status:\"{status}\"")).await;
        assert!(found.contains(&name.to_owned()), "{name}: {found:?}");
    }
}

#[tokio::test]
async fn an_object_that_is_being_deleted_is_shown_as_such_until_it_is_gone() {
    let world = world().await;
    let namespace = world.cluster.namespace("terminating").await;
    let person = reader(world, &namespace).await;
    make(world, &namespace, "held", json!({ "finalizers": ["explore.example/hold"] })).await;
    let query = format!("ns:{namespace} kind:Gadget");
    person.sees(&query, &["held"]).await;
    let api = gadgets(world, &namespace);
    api.delete("held", &DeleteParams::default()).await.unwrap();
    let row = eventually(PATIENCE, || async {
        let answer = person.find(&format!("{query} is:terminating")).await;
        answer["objects"].get(0).cloned()
    })
    .await;
    assert_eq!(
        (&row["status"], &row["terminating"], &row["deletedAt"]),
        (&json!("Terminating"), &json!(true), &Value::Null)
    );
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api.patch("held", &PatchParams::default(), &patch).await.unwrap();
    person.sees(&query, &[]).await;
}

#[tokio::test]
async fn a_deleted_object_is_kept_for_as_long_as_its_kind_is_and_then_goes() {
    let cluster = world().await.cluster;
    // Longer where other suites run beside this one: the row must be found before its time is over.
    let seconds = scale().of(60, 30);
    let retention = format!("ConfigMap={seconds}s");
    // It goes in its time, however seldom the cleaner looks by itself.
    let start = beside(cluster).await.flag("--explorer-retention", &retention).flag("--explorer-clean-every", "1h");
    let server: &'static crate::server::Server = Box::leak(Box::new(start.serve()));
    let world = World { server, cluster };
    let namespace = cluster.namespace("retention").await;
    let person = reader(world, &namespace).await;
    make_map(cluster, &namespace, "kept", &[("text", "as it was")]).await;
    make(world, &namespace, "not-kept", json!({})).await;
    person.sees(&own(&namespace), &["kept"]).await;
    person.sees(&format!("ns:{namespace} kind:Gadget"), &["not-kept"]).await;
    delete_map(cluster, &namespace, "kept").await;
    gadgets(world, &namespace).delete("not-kept", &DeleteParams::default()).await.unwrap();
    let deleted = Instant::now();
    let row = eventually(Duration::from_secs(seconds), || async {
        let answer = person.find(&format!("{} is:deleted", own(&namespace))).await;
        answer["objects"].get(0).cloned()
    })
    .await;
    assert!(row["deletedAt"].is_string(), "{row}");
    let (_, whole) = person.get(&format!("/v1/objects/{}", in_path(row["id"].as_str().unwrap()))).await;
    assert_eq!(whole["body"]["data"]["text"], "as it was");
    person.sees(&format!("ns:{namespace} kind:Gadget"), &[]).await;
    let all = format!("{} is:deleted", own(&namespace));
    eventually(2 * PATIENCE, || async { person.find(&all).await["objects"].as_array().is_some_and(Vec::is_empty) })
        .await;
    assert!(deleted.elapsed() >= Duration::from_secs(seconds - 2), "it went before its time: {:?}", deleted.elapsed());
}
