//! Sources in a cluster: Terraform's `kubernetes` backend as the real clients write it, and the original's ConfigMaps.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::Value;
use testbed::Cluster;

use super::elsewhere::{Workspace, resource};
use crate::run::Run;
use crate::server::{PATIENCE, Start};
use crate::state_commands::{Person, a_state, lock_of};

const STATE: &str = "team-a/app";

fn kubernetes(client: &Path, namespace: &str, kubeconfig: &str) -> Workspace {
    let backend = format!(
        "  backend \"kubernetes\" {{\n    secret_suffix = \"app\"\n    namespace = \"{namespace}\"\n    config_path = \"{kubeconfig}\"\n  }}"
    );
    let workspace = Workspace::new(client, &backend);
    workspace.configure(&resource("one"));
    workspace.ok(&["init"]);
    workspace.ok(&["apply", "-auto-approve"]);
    workspace
}

/// What the client itself says that its state is; its bytes are not the stored ones, its content is.
fn pulled(workspace: &Workspace) -> Value {
    serde_json::from_str(&workspace.ok(&["state", "pull"])).unwrap()
}

#[tokio::test]
async fn the_kubernetes_backend_is_locked_by_its_lease_and_copied() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    let cluster = Cluster::shared().await;
    let kubeconfig = cluster.admin_kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let namespace = cluster.namespace("tofu").await;
    let place = format!("kubernetes://{namespace}/app");
    let migrate = ["migrate", STATE, "--from", &place, "--source-kubeconfig", kubeconfig];
    me.fails(3, "there is no state", &migrate);
    let tofu = testbed::peer("tofu").expect("tofu");
    let workspace = kubernetes(&tofu, &namespace, kubeconfig);

    // The client holds its Lease: it is named.
    let busy = workspace.busy_apply().await;
    me.fails(8, "OperationTypeApply", &migrate);
    busy.end();

    // We hold it: the client names us.
    let mut slow = me.command(&migrate);
    slow.env("STATEWARD_FAILPOINTS", "migrate.both_locked=delay(5000)");
    let copying = std::thread::spawn(move || Run::of(&mut slow));
    testbed::eventually(PATIENCE, || async { lock_of(&me, STATE).is_some() }).await;
    let refused = workspace.run(&["apply", "-auto-approve"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("migration"), "{said}");
    assert!(copying.join().unwrap().ok().contains("copied"));
    let leases: Api<Lease> = Api::namespaced(cluster.client(), &namespace);
    let lease = leases.get("lock-tfstate-default-app").await.unwrap();
    assert_eq!(lease.spec.and_then(|spec| spec.holder_identity), None);
    let copied: Value = serde_json::from_str(&me.ok(&["pull", STATE])).unwrap();
    assert_eq!(copied, pulled(&workspace));
    assert!(me.ok(&migrate).contains("already there"));
    workspace.ok(&["plan"]);

    me.fails(
        3,
        "tfstate-other-app",
        &["migrate", STATE, "--from", &format!("{place}?workspace=other"), "--source-kubeconfig", kubeconfig],
    );
    me.fails(2, "kubeconfig", &["migrate", STATE, "--from", &place, "--source-kubeconfig", "/nowhere"]);
    me.fails(
        2,
        "context",
        &["migrate", STATE, "--from", &format!("{place}?context=none"), "--source-kubeconfig", kubeconfig],
    );
    me.fails(2, "not known", &["migrate", STATE, "--from", &format!("{place}?x=y"), "--source-kubeconfig", kubeconfig]);
}

#[tokio::test]
async fn a_state_in_several_secrets_is_put_together() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    let cluster = Cluster::shared().await;
    let kubeconfig = cluster.admin_kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let namespace = cluster.namespace("terraform").await;
    let workspace = kubernetes(Path::new("/usr/local/bin/terraform"), &namespace, kubeconfig);
    // Hexadecimal digits compress to half; the resource has them as its input and its output.
    let mut random = fastrand::Rng::with_seed(testbed::seed("parts"));
    let large: Vec<String> = (0..60_000).map(|_| format!("{:032x}", random.u128(..))).collect();
    fs::write(workspace.directory.join("large"), large.concat()).unwrap();
    workspace.configure("resource \"terraform_data\" \"it\" {\n  input = file(\"large\")\n}\n");
    workspace.ok(&["apply", "-auto-approve"]);
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), &namespace);
    secrets.get("tfstate-default-app-part-1").await.expect("a second part");
    let place = format!("kubernetes://{namespace}/app?workspace=default");
    assert!(me.ok(&["migrate", STATE, "--from", &place, "--source-kubeconfig", kubeconfig]).contains("copied"));
    let copied: Value = serde_json::from_str(&me.ok(&["pull", STATE])).unwrap();
    assert!(copied == pulled(&workspace), "the same content");
}

#[tokio::test]
async fn a_part_that_a_larger_state_left_behind_is_none_of_it() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("stale").await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), &namespace);
    let state = a_state(1, "small");
    for (name, bytes) in [("tfstate-default-app", gzip(&state)), ("tfstate-default-app-part-1", vec![7; 1000])] {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let data = Some([("tfstate".to_owned(), ByteString(bytes))].into());
        let secret = Secret { metadata, data, ..Secret::default() };
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let (place, kubeconfig) = (format!("kubernetes://{namespace}/app"), cluster.admin_kubeconfig());
    let migrate = ["migrate", STATE, "--from", &place, "--source-kubeconfig", kubeconfig.to_str().unwrap()];
    assert!(me.ok(&migrate).contains("copied"));
    assert_eq!(me.ok(&["pull", STATE]), state);
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

const LOCK: &str = "tf-kubernetes-configmap-backend.jimmidyson.github.com/lock-";

#[tokio::test]
async fn config_maps_of_the_original_are_locked_by_annotations_and_copied() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    let cluster = Cluster::shared().await;
    let kubeconfig = cluster.admin_kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let namespace = cluster.namespace("original").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let create = async |name: &str, bytes: Vec<u8>, lock: Option<&str>| {
        let annotations = lock.map(|id| {
            let fields = [("id", id), ("operation", "apply"), ("info", ""), ("who", "ann@laptop")];
            fields.into_iter().map(|(field, value)| (format!("{LOCK}{field}"), value.to_owned())).collect()
        });
        let metadata = ObjectMeta { name: Some(name.to_owned()), annotations, ..ObjectMeta::default() };
        let binary_data = Some([("tfstate".to_owned(), ByteString(bytes))].into());
        let map = ConfigMap { metadata, binary_data, ..ConfigMap::default() };
        maps.create(&PostParams::default(), &map).await.unwrap();
    };
    create("plain", a_state(1, "plain").into_bytes(), None).await;
    create("gzip", gzip(&a_state(2, "gzip")), None).await;
    create("locked", a_state(3, "locked").into_bytes(), Some("held")).await;
    let from = |name: &str| format!("configmap://{namespace}/{name}");
    for (name, expected) in [("plain", a_state(1, "plain")), ("gzip", a_state(2, "gzip"))] {
        let state = format!("team-a/{name}");
        let out = me.ok(&["migrate", &state, "--from", &from(name), "--source-kubeconfig", kubeconfig]);
        assert!(out.contains("copied"), "{out}");
        assert_eq!(me.ok(&["pull", &state]), expected);
        let map = maps.get(name).await.unwrap();
        assert!(map.metadata.annotations.unwrap_or_default().is_empty(), "unlocked again");
    }
    let locked = ["migrate", "team-a/locked", "--from", &from("locked"), "--source-kubeconfig", kubeconfig];
    me.fails(8, "locked by ann@laptop, for apply", &locked);
    let out = me.ok(&[&locked[..], &["--no-source-lock"]].concat());
    assert!(out.contains("copied"), "{out}");
    let map = maps.get("locked").await.unwrap();
    assert_eq!(map.metadata.annotations.unwrap()[&format!("{LOCK}id")], "held");
    me.fails(3, "", &["migrate", STATE, "--from", &from("missing"), "--source-kubeconfig", kubeconfig]);

    let mut slow =
        me.command(&["migrate", "team-a/again", "--from", &from("plain"), "--source-kubeconfig", kubeconfig]);
    slow.env("STATEWARD_FAILPOINTS", "migrate.both_locked=delay(2000)");
    let copying = std::thread::spawn(move || Run::of(&mut slow));
    testbed::eventually(PATIENCE, || async { lock_of(&me, "team-a/again").is_some() }).await;
    let annotations = maps.get("plain").await.unwrap().metadata.annotations.unwrap_or_default();
    assert_eq!(annotations[&format!("{LOCK}operation")], "migration");
    assert!(copying.join().unwrap().ok().contains("copied"));
}
