//! Everything that people do with a state when nobody disturbs them.

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use serde_json::{Value, json};

use super::{Workspace, named, on_every_store};
use crate::places::{Kept, Place};
use crate::server::{answer, status};

#[test]
fn every_store_carries_a_workspace_through_its_life() {
    on_every_store(async |place, client| {
        let name = named("life", client);
        life(place, client, &name).await;
        is_in_its_store(place, &name).await;
        let kept = place.state(&name).await;
        place.kill();
        place.start_again();
        assert_eq!(place.state(&name).await, kept, "the state is in the store, not in the server");
    });
}

async fn life(place: &Place, client: &Path, name: &str) {
    let workspace = Workspace::at(place, client, name);
    workspace.ok(&["init"]);
    assert_eq!(status(place.server.request("GET", &place.path(name)).bearer_auth(&place.token)).await, 404);
    workspace.ok(&["plan"]);
    workspace.ok(&["apply", "-auto-approve"]);
    let first = place.state(name).await;
    assert_eq!(first["outputs"]["it"]["value"], "one");
    assert!(workspace.ok(&["apply", "-auto-approve"]).contains("No changes"));
    assert_eq!(place.state(name).await, first, "nothing changed, nothing was written");
    workspace.configure("two", "");
    workspace.ok(&["apply", "-auto-approve"]);
    let pulled: Value = serde_json::from_str(&workspace.ok(&["state", "pull"])).unwrap();
    assert_eq!(pulled["outputs"]["it"]["value"], "two");

    // A newer one is taken; an old one or another one's only with force, and then it counts.
    let file = workspace.directory.join("pushed.tfstate");
    let push = |state: &Value| fs::write(&file, state.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let serial = pulled["serial"].as_u64().unwrap();
    let mut newer = pulled.clone();
    newer["serial"] = json!(serial + 7);
    newer["outputs"]["it"]["value"] = json!("pushed");
    push(&newer);
    workspace.ok(&["state", "push", file]);
    let taken = place.state(name).await;
    assert!(taken["outputs"]["it"]["value"] == "pushed" && taken["serial"].as_u64() > Some(serial), "{taken}");
    push(&first);
    workspace.fails(&["state", "push", file], "serial");
    let mut other = first.clone();
    other["lineage"] = json!("another-lineage");
    push(&other);
    workspace.fails(&["state", "push", file], "lineage");
    workspace.ok(&["state", "push", "-force", file]);
    let forced = place.state(name).await;
    assert!(forced["lineage"] == "another-lineage" && forced["serial"].as_u64() < Some(serial + 7), "{forced}");
    assert_eq!(forced["outputs"]["it"]["value"], "one");

    workspace.ok(&["destroy", "-auto-approve"]);
    assert_eq!(place.state(name).await["resources"], Value::Array(Vec::new()));
}

/// The state stands where the route says.
async fn is_in_its_store(place: &Place, name: &str) {
    let kube = async || testbed::Cluster::shared().await.client();
    match place.kept {
        Kept::ConfigMap => {
            let maps: Api<ConfigMap> = Api::namespaced(kube().await, &place.namespace);
            let map = maps.get(name).await.expect("the state is a ConfigMap");
            let file = &map.binary_data.expect("data")["tfstate"].0;
            assert!(file.starts_with(&[0x1f, 0x8b]), "gzip, as the original writes it");
        }
        Kept::Secret => {
            let secrets: Api<Secret> = Api::namespaced(kube().await, &place.namespace);
            let secret = secrets.get(name).await.expect("the state is a Secret");
            assert!(secret.data.expect("data").contains_key("tfstate"));
        }
        Kept::S3 => {
            let ready = place.server.request("GET", "/readyz?verbose").bearer_auth(&place.token);
            let (status, text) = answer(ready).await;
            assert!(status == 200 && text.contains("[+] s3 ok"), "{text}");
        }
        Kept::Sqlite | Kept::Postgres | Kept::Kubernetes => {}
    }
    assert!(place.head(name).await.visible().is_some());
}
