//! What is secret or noise does not get past this crate.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use testbed::{Cluster, eventually};
use watch::{Event, Key, Keys, Source};

use crate::consumer::{LIMIT, erased, prepared, quick};
use crate::objects::{Maps, admin};

const CANARY: &str = "canary-8d1f";

/// In data, in an annotation and in what kubectl leaves behind.
fn manifest(kind: &str, namespace: &str, value: &str) -> String {
    let metadata = json!({
        "name": "hidden",
        "namespace": namespace,
        "labels": {"shown": "label"},
        "annotations": {
            "copied.example.com/data": format!("{CANARY}-annotation"),
            "kubectl.kubernetes.io/last-applied-configuration": format!("{CANARY}-applied"),
        },
    });
    let data = if kind == "Secret" { "stringData" } else { "data" };
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, data: {"password": value}}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_secret_but_its_names_is_handed_out_or_kept() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("secrets").await;
    cluster.apply(&manifest("Secret", &namespace, CANARY)).await;
    let directory = testbed::process::scratch("secrets").unwrap();
    let db = prepared(db::Config::sqlite(directory.join("watch.db"))).await;
    let keys = Keys::new(db.clone(), "test");
    let source = Source::new("here", admin(cluster), erased::<Secret>());
    let source = Source { namespace: Some(namespace.clone()), ..source };
    let mut follower = watch::follow(&keys, source, quick()).await.unwrap();
    let mut texts = Vec::new();
    // By the list, by a watch, by a fetch that runs ahead of it or not, and by the deletion.
    let mut changes = 0;
    loop {
        let delivery = tokio::time::timeout(LIMIT, follower.next()).await.unwrap().unwrap();
        match delivery.event() {
            Event::Applied(object) => texts.push(serde_json::to_string(object).unwrap()),
            Event::Deleted(deleted) => {
                texts.push(serde_json::to_string(deleted.last.as_ref().expect("the watch told")).unwrap());
                delivery.acknowledge();
                break;
            }
            Event::Absent | Event::Synced => {}
        }
        delivery.acknowledge();
        changes += 1;
        if changes == 2 {
            cluster.apply(&manifest("Secret", &namespace, &format!("{CANARY}-2"))).await;
            follower.fetch(&Key::new(&namespace, "hidden")).await.unwrap();
        }
        if changes == 3 {
            let api: Api<Secret> = Api::namespaced(cluster.client(), &namespace);
            api.delete("hidden", &DeleteParams::default()).await.unwrap();
        }
    }
    assert_eq!(texts.len(), 3);
    let encoded = "Y2FuYXJ5LThkMW";
    for text in &texts {
        assert!(!text.contains(CANARY) && !text.contains(encoded), "{text}");
        assert!(!text.contains("managedFields") && !text.contains("annotations"), "{text}");
        assert!(text.contains("hidden") && text.contains("label") && text.contains(r#""kind":"Secret""#), "{text}");
    }
    eventually(LIMIT, || async { keys.streams().await.unwrap()[0].1 == 0 }).await;
    for file in std::fs::read_dir(directory).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(CANARY));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_objects_come_without_managed_fields_and_last_applied_configuration() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, "noise").await;
    cluster.apply(&manifest("ConfigMap", &maps.namespace, "plain")).await;
    let keys = crate::consumer::keys().await;
    let mut follower = watch::follow(&keys, maps.source(admin(cluster)), quick()).await.unwrap();
    loop {
        let delivery = tokio::time::timeout(LIMIT, follower.next()).await.unwrap().unwrap();
        let text = delivery.applied().map(|object| serde_json::to_string(object).unwrap());
        assert!(!matches!(delivery.event(), Event::Synced), "it was listed");
        delivery.acknowledge();
        let Some(text) = text.filter(|text| text.contains("hidden")) else { continue };
        assert!(!text.contains("managedFields") && !text.contains("-applied"), "{text}");
        for kept in ["plain", "-annotation", r#""kind":"ConfigMap""#] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        return;
    }
}
