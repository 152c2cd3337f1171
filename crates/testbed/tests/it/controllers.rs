//! The controllers of the control plane are at work: namespaces end, owned objects go, roles are aggregated.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::json;
use testbed::{Cluster, wait_for, wait_until_gone};

const LIMIT: Duration = Duration::from_mins(2);

#[tokio::test]
async fn a_finalizer_of_a_custom_resource_holds_a_namespace_and_lets_it_go() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("held").await;
    cluster.apply(&format!("{ANCHOR}---\n{}", anchor(&namespace))).await;

    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces.delete(&namespace, &DeleteParams::default()).await.expect("delete the namespace");
    let held =
        wait_for(&namespaces, &namespace, LIMIT, |namespace| condition(namespace, "NamespaceFinalizersRemaining"));
    let held = held.await;
    assert_eq!(held.status.and_then(|status| status.phase).as_deref(), Some("Terminating"));

    let kind = GroupVersionKind::gvk("testbed.stateward.dev", "v1", "Anchor");
    let anchors: Api<DynamicObject> = Api::namespaced_with(cluster.client(), &namespace, &ApiResource::from_gvk(&kind));
    let anchor = anchors.get("anchor").await.expect("the anchor is still there");
    assert!(anchor.metadata.deletion_timestamp.is_some(), "{anchor:?}");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    anchors.patch("anchor", &PatchParams::default(), &release).await.expect("remove the finalizer");
    wait_until_gone(&namespaces, &namespace, LIMIT).await;
}

#[tokio::test]
async fn what_an_object_owns_is_collected_with_it() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("owned").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let map =
        |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\n");
    let owner = cluster.apply(&map("owner")).await.remove(0);
    let uid = owner.uid().expect("a uid");
    let reference = format!("  ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}}}]\n");
    cluster.apply(&format!("{}{reference}---\n{}", map("owned"), map("bystander"))).await;

    maps.delete("owner", &DeleteParams::background()).await.expect("delete the owner");
    wait_until_gone(&maps, "owned", LIMIT).await;
    assert!(maps.get_opt("bystander").await.expect("read").is_some());
}

#[tokio::test]
async fn an_aggregated_role_gets_the_rules_of_the_roles_it_selects() {
    let cluster = Cluster::shared().await;
    let manifests = testbed::process::scratch("manifests").expect("make a directory").join("roles.yaml");
    std::fs::write(&manifests, AGGREGATED).expect("write the manifests");
    cluster.apply_file(&manifests).await;
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let has_rules = |role: &ClusterRole| role.rules.as_ref().is_some_and(|rules| !rules.is_empty());
    let role = wait_for(&roles, "testbed-aggregate", LIMIT, has_rules).await;
    let rules = role.rules.expect("rules");
    assert_eq!(rules.len(), 1, "{rules:?}");
    assert_eq!(rules[0].resources.as_deref(), Some(&["widgets".to_owned()][..]));
}

#[tokio::test]
async fn a_namespace_gets_its_default_service_account_and_the_root_certificate() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("furnished").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), &namespace);
    wait_for(&accounts, "default", LIMIT, |_| true).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let root = wait_for(&maps, "kube-root-ca.crt", LIMIT, |_| true).await;
    assert_eq!(root.data.expect("data")["ca.crt"], cluster.client_ca().certificate_pem());
}

fn condition(namespace: &Namespace, kind: &str) -> bool {
    let conditions = namespace.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == kind && condition.status == "True")
}

fn anchor(namespace: &str) -> String {
    format!(
        r"
apiVersion: testbed.stateward.dev/v1
kind: Anchor
metadata:
  name: anchor
  namespace: {namespace}
  finalizers: [testbed.stateward.dev/hold]
"
    )
}

const ANCHOR: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: anchors.testbed.stateward.dev}
spec:
  group: testbed.stateward.dev
  names: {kind: Anchor, plural: anchors, singular: anchor, listKind: AnchorList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
";

const AGGREGATED: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: testbed-aggregate}
aggregationRule:
  clusterRoleSelectors: [{matchLabels: {testbed.stateward.dev/aggregate: "true"}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: testbed-selected
  labels: {testbed.stateward.dev/aggregate: "true"}
rules: [{apiGroups: [testbed.stateward.dev], resources: [widgets], verbs: [get]}]
"#;
