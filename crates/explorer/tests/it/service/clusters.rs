//! Clusters that come, change and go while the server runs.

use std::collections::BTreeMap;

use explorer::service::{ClusterReport, Error, NewCluster, Rules, Secrets, Source};
use explorer::{Explorer, Index, index::View, query::Query};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::{Cluster, eventually};

use super::maps::Maps;
use super::world::{HOME, LIMIT, Place, added, bytes, local, reader, report, second, synced};

/// How many rows of a namespace there are, whoever may see them.
fn rows(explorer: &Explorer, cluster: &str, namespace: &str) -> u64 {
    let everything = explorer::Visibility::default().with(cluster, View::Everything);
    let query = Query::parse(&format!("ns:{namespace}")).unwrap();
    explorer.read(|index| index.query(&query, &everything)).total
}

#[tokio::test(flavor = "multi_thread")]
async fn new_credentials_keep_the_rows_and_another_cluster_under_the_name_replaces_them() {
    let (first, other) = (Cluster::shared().await, second().await);
    let (here, there) = (Maps::new(first, "leaf", "rotation").await, Maps::new(other, "leaf", "rotation").await);
    here.create_many(5).await;
    there.create_many(3).await;
    let place = Place::new();
    let explorer = Explorer::open(place.options(&["v1/ConfigMap"]).await).await.unwrap();
    explorer.add_cluster(added("leaf", &reader(first), Rules::default())).await.unwrap();
    synced(&explorer, "leaf", 1).await;
    assert_eq!(rows(&explorer, "leaf", &here.namespace), 6);
    let uid = report(&explorer, "leaf").unwrap().uid;
    let position = explorer.read(Index::position);

    // The same cluster under another certificate.
    let rotated = first.user("explorer-rotated", &["system:masters"]).kubeconfig().clone();
    explorer.add_cluster(added("leaf", &rotated, Rules::default())).await.unwrap();
    assert_eq!(rows(&explorer, "leaf", &here.namespace), 6, "rows stay while the new credentials are tried");
    synced(&explorer, "leaf", 1).await;
    assert_eq!(report(&explorer, "leaf").unwrap().uid, uid);
    let everything = explorer::Visibility::default().with("leaf", View::Everything);
    let explorer::index::Changes::Since { changes, .. } = explorer.read(|index| index.changes(position, &everything))
    else {
        panic!("too many changes");
    };
    assert!(changes.iter().all(|change| !change.gone), "no row went in between");

    // A second name for it is refused, and so are names that belong to others.
    let refused = explorer.add_cluster(added("twin", &reader(first), Rules::default())).await.unwrap_err();
    assert!(matches!(&refused, Error::SameCluster { name, .. } if name == "leaf"), "{refused}");
    assert!(refused.to_string().contains("'leaf'"), "{refused}");

    // Another cluster under the same name.
    explorer.add_cluster(added("leaf", &reader(other), Rules::default())).await.unwrap();
    synced(&explorer, "leaf", 1).await;
    assert_ne!(report(&explorer, "leaf").unwrap().uid, uid);
    assert_eq!(rows(&explorer, "leaf", &here.namespace), 0);
    eventually(LIMIT, || async { rows(&explorer, "leaf", &there.namespace) == 4 }).await;

    // What is in the database is sealed, and comes back with the next process.
    explorer.close().await;
    for file in ["records.db", "records.db-wal", "explorer.db", "explorer.db-wal"] {
        let text = bytes(&place.directory.join(file));
        assert!(!String::from_utf8_lossy(&text).contains("client-key-data"), "{file}");
    }
    let explorer = Explorer::open(place.options(&["v1/ConfigMap"]).await).await.unwrap();
    synced(&explorer, "leaf", 1).await;
    assert_eq!(rows(&explorer, "leaf", &there.namespace), 4);
    // Another process that shares the database takes a removal over by itself.
    let beside = Place::new();
    let mut options = beside.options(&["v1/ConfigMap"]).await;
    let shared = place.options(&[]).await;
    (options.db, options.sealing) = (shared.db, shared.sealing);
    let other_process = Explorer::open(options).await.unwrap();
    synced(&other_process, "leaf", 1).await;
    explorer.remove_cluster("leaf").await.unwrap();
    eventually(LIMIT, || async { other_process.clusters().is_empty() && other_process.read(Index::is_empty) }).await;

    // So does one that is down when it goes, also if it may not read the Secrets that could be clusters.
    explorer.add_cluster(added("leaf", &reader(other), Rules::default())).await.unwrap();
    synced(&other_process, "leaf", 1).await;
    other_process.close().await;
    explorer.remove_cluster("leaf").await.unwrap();
    let mut options = beside.options(&["v1/ConfigMap"]).await;
    let shared = place.options(&[]).await;
    (options.db, options.sealing) = (shared.db, shared.sealing);
    options.secrets = Some(unreadable(first));
    let other_process = Explorer::open(options).await.unwrap();
    assert!(!other_process.read(Index::known_clusters).contains("leaf"), "its source is known");
    let faults = eventually(LIMIT, || async { Some(other_process.faults()).filter(|faults| !faults.is_empty()) }).await;
    assert!(faults[0].contains("'kube-public'") && faults[0].contains("get, list and watch on secrets"), "{faults:?}");
    // The name of before holds nothing back.
    other_process.add_cluster(added("renamed", &reader(other), Rules::default())).await.unwrap();
    synced(&other_process, "renamed", 1).await;
    explorer.close().await;
    other_process.close().await;
}

/// Secrets of which nothing may be read.
fn unreadable(cluster: &Cluster) -> Secrets {
    let nobody = cluster.user("explorer-nobody", &[]).kubeconfig().clone();
    Secrets { client: nobody.plain_client(), namespace: "kube-public".to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeconfigs_that_would_run_or_read_something_are_refused_by_name_and_nothing_is_kept() {
    let cluster = Cluster::shared().await;
    let place = Place::new();
    let mut options = place.options(&["v1/ConfigMap"]).await;
    options.local = Some(local(&reader(cluster)));
    let explorer = Explorer::open(options).await.unwrap();
    let good: Value = serde_json::from_str(&reader(second().await).yaml()).unwrap();
    let table = [
        (
            "/users/0/user/exec",
            json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}),
            "user.exec",
        ),
        ("/users/0/user/auth-provider", json!({"name": "oidc", "config": {}}), "user.auth-provider"),
        ("/users/0/user/tokenFile", json!("/etc/passwd"), "user.tokenFile"),
        ("/users/0/user/client-key", json!("/etc/passwd"), "user.client-key"),
        ("/users/0/user/client-certificate", json!("/etc/passwd"), "user.client-certificate"),
        ("/users/0/user/as", json!("system:admin"), "user.as"),
        ("/clusters/0/cluster/certificate-authority", json!("/etc/passwd"), "cluster.certificate-authority"),
        ("/clusters/0/cluster/proxy-url", json!("http://127.0.0.1:1"), "cluster.proxy-url"),
        ("/clusters/0/cluster/insecure-skip-tls-verify", json!(true), "cluster.insecure-skip-tls-verify"),
    ];
    let add = |name: &str, kubeconfig: &Value| {
        let new = NewCluster { name: name.to_owned(), kubeconfig: kubeconfig.to_string(), rules: Rules::default() };
        explorer.add_cluster(new)
    };
    for (pointer, value, field) in table {
        let mut bad = good.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        bad.pointer_mut(parent).unwrap()[name] = value;
        let error = add("leaf", &bad).await.unwrap_err();
        assert!(
            matches!(&error, Error::Invalid { field: found, .. } if *found == format!("kubeconfig.{field}")),
            "{error}"
        );
    }
    for name in ["", "Upper", "a/b", "-a", &"x".repeat(64)] {
        let error = add(name, &good).await.unwrap_err();
        assert!(matches!(&error, Error::Invalid { field, .. } if field == "name"), "{error}");
    }
    let taken = add(HOME, &good).await.unwrap_err();
    assert!(matches!(taken, Error::NameTaken { .. }), "{taken}");
    let mut nowhere = good.clone();
    nowhere["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    let error = add("leaf", &nowhere).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let error = explorer.remove_cluster(HOME).await.unwrap_err();
    assert!(matches!(error, Error::NotAdded { .. }), "{error}");
    let error = explorer.remove_cluster("nowhere").await.unwrap_err();
    assert!(matches!(error, Error::NoSuchCluster { .. }), "{error}");
    assert_eq!(explorer.clusters().iter().map(|report| report.name.as_str()).collect::<Vec<_>>(), [HOME]);
    explorer.close().await;
    assert!(!place.directory.join("clusters.key").exists(), "nothing was sealed");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_with_the_label_are_clusters_for_as_long_as_they_are_there() {
    let (home, leaf) = (Cluster::shared().await, second().await);
    let maps = Maps::new(leaf, "leaf", "secrets").await;
    maps.create_many(4).await;
    let namespace = home.namespace("secrets").await;
    let secrets: Api<Secret> = Api::namespaced(home.client(), &namespace);
    let put = |name: &str, cluster: &str, data: BTreeMap<&str, String>| {
        let labels = json!({"stateward.dev/cluster": cluster});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "stringData": data});
        let (secrets, name) = (secrets.clone(), name.to_owned());
        async move {
            let apply = PatchParams::apply("test").force();
            secrets.patch(&name, &apply, &Patch::Apply(secret)).await.unwrap();
        }
    };
    let place = Place::new();
    let open = || async {
        let mut options = place.options(&["v1/ConfigMap"]).await;
        options.local = Some(local(&reader(home)));
        options.secrets = Some(Secrets { client: reader(home).plain_client(), namespace: namespace.clone() });
        Explorer::open(options).await.unwrap()
    };
    let explorer = open().await;
    put("one", "leaf", BTreeMap::from([("kubeconfig", reader(leaf).yaml())])).await;
    eventually(LIMIT, || async { report(&explorer, "leaf").is_some() }).await;
    synced(&explorer, "leaf", 1).await;
    assert_eq!(rows(&explorer, "leaf", &maps.namespace), 5);
    assert_eq!(report(&explorer, "leaf").unwrap().source, Source::Secret);

    // Names that are taken, and content that is not taken, are told.
    put("two", "leaf", BTreeMap::from([("kubeconfig", reader(leaf).yaml())])).await;
    put("three", "twin", BTreeMap::from([("kubeconfig", reader(leaf).yaml())])).await;
    put("four", "broken", BTreeMap::from([("kubeconfig", "{}".to_owned())])).await;
    let rules = r#"{"identity": {"map": [{"from": {"user": "a"}, "as": {"groups": ["system:masters"]}}]}}"#.to_owned();
    put("five", "greedy", BTreeMap::from([("kubeconfig", reader(leaf).yaml()), ("rules", rules)])).await;
    let fault = |name: &'static str, part: &'static str| {
        let explorer = &explorer;
        eventually(LIMIT, move || async move {
            let faults: Vec<ClusterReport> =
                explorer.clusters().into_iter().filter(|report| report.name == name).collect();
            let told = faults.iter().any(|report| report.fault.as_ref().is_some_and(|fault| fault.contains(part)));
            if told { Ok(()) } else { Err(format!("{faults:#?}")) }
        })
    };
    fault("leaf", "the name is taken").await;
    fault("twin", "already here as 'leaf'").await;
    fault("broken", "current-context").await;
    fault("greedy", "never cross clusters").await;

    // Content that became bad keeps the rows, out of sight; a restart changes nothing.
    put("one", "leaf", BTreeMap::from([("kubeconfig", "{}".to_owned())])).await;
    for name in ["two", "three", "four", "five"] {
        secrets.delete(name, &DeleteParams::default()).await.unwrap();
    }
    fault("leaf", "current-context").await;
    assert_eq!(rows(&explorer, "leaf", &maps.namespace), 5);
    explorer.close().await;
    let explorer = open().await;
    assert_eq!(rows(&explorer, "leaf", &maps.namespace), 5, "kept until it is known which Secrets there are");
    eventually(LIMIT, || async { report(&explorer, "leaf").is_some() }).await;
    assert_eq!(rows(&explorer, "leaf", &maps.namespace), 5);
    put("one", "leaf", BTreeMap::from([("kubeconfig", reader(leaf).yaml())])).await;
    synced(&explorer, "leaf", 1).await;
    assert_eq!(explorer.faults(), [""; 0]);

    // As long as nobody knows which Secrets there are, what came from one stays.
    explorer.close().await;
    let mut options = place.options(&["v1/ConfigMap"]).await;
    options.secrets = Some(unreadable(home));
    let explorer = Explorer::open(options).await.unwrap();
    eventually(LIMIT, || async { !explorer.faults().is_empty() }).await;
    assert_eq!(rows(&explorer, "leaf", &maps.namespace), 5);
    explorer.close().await;
    let explorer = open().await;
    synced(&explorer, "leaf", 1).await;

    // Gone while nobody looked: everything of it goes with the first look.
    explorer.close().await;
    secrets.delete("one", &DeleteParams::default()).await.unwrap();
    let explorer = open().await;
    eventually(LIMIT, || async { !explorer.read(Index::known_clusters).contains("leaf") }).await;
    assert!(report(&explorer, "leaf").is_none());
    explorer.close().await;
}
