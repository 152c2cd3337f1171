//! The control plane answers, and manifests, kubectl and the audit log do what they say.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::discovery::ApiResource;
use serde_json::json;
use testbed::{Cluster, Scope, rule, subject};

#[tokio::test]
async fn the_api_server_publishes_the_authorities_of_clients_and_front_proxies() {
    let cluster = Cluster::shared().await;
    let published: Api<ConfigMap> = Api::namespaced(cluster.client(), "kube-system");
    let published = published.get("extension-apiserver-authentication").await.expect("the published authorities");
    let data = published.data.expect("data");
    assert_eq!(data["client-ca-file"], cluster.client_ca().certificate_pem());
    assert_eq!(data["requestheader-client-ca-file"], cluster.front_proxy_ca().certificate_pem());
    assert_eq!(data["requestheader-allowed-names"], r#"["front-proxy-client"]"#);
}

#[tokio::test]
async fn a_definition_with_a_cel_rule_is_served_when_applied_and_refuses_what_breaks_the_rule() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("cel").await;
    let manifest = format!("{BOX}---\n{}", box_of(&namespace, 3));
    let applied = cluster.apply(&manifest).await;
    assert_eq!(applied.len(), 2, "{applied:?}");

    let boxes = boxes(cluster, &namespace);
    let parse = |yaml: &str| serde_saphyr::from_str::<DynamicObject>(yaml).expect("an object");
    let mut heavy = parse(&box_of(&namespace, 11));
    heavy.metadata.name = Some("heavy".to_owned());
    let refused = boxes.create(&PostParams::default(), &heavy).await.expect_err("the rule refuses it");
    assert!(refused.to_string().contains("a box holds ten at most"), "{refused}");
    assert_eq!(boxes.list(&ListParams::default()).await.expect("list").items.len(), 1);
}

#[tokio::test]
async fn server_side_apply_keeps_the_fields_of_others_and_reports_conflicts() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("apply").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let patch = |data: serde_json::Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data}))
    };
    let one = PatchParams::apply("one");
    maps.patch("shared", &one, &patch(json!({"a": "1"}))).await.expect("apply as one");
    let two = PatchParams::apply("two");
    let both = maps.patch("shared", &two, &patch(json!({"b": "2"}))).await.expect("apply as two");
    assert_eq!(both.data.expect("data").len(), 2);
    let conflict = maps.patch("shared", &two, &patch(json!({"a": "9"}))).await.expect_err("the field is one's");
    assert!(matches!(&conflict, kube::Error::Api(status) if status.code == 409), "{conflict}");
}

#[tokio::test]
async fn kubectl_talks_to_the_cluster_as_whoever_it_is_told_to_be() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("kubectl").await;
    let made = cluster.kubectl(["create", "configmap", "made", "--from-literal=a=1", "-n", &namespace]).await;
    assert!(made.status.success(), "{made:?}");

    let reader = cluster.user("kubectl-reader", &[]);
    let get = ["get", "configmap", "made", "-o", "jsonpath={.data.a}", "-n", &namespace];
    let forbidden = cluster.kubectl_as(reader.kubeconfig(), get).await;
    assert!(!forbidden.status.success());
    assert!(String::from_utf8_lossy(&forbidden.stderr).contains("Forbidden"), "{forbidden:?}");

    let rules = [rule(&["get"], &[""], &["configmaps"])];
    cluster.grant(Scope::Namespace(&namespace), &[subject::user("kubectl-reader")], &rules).await;
    let read = cluster.kubectl_as(reader.kubeconfig(), get).await;
    assert_eq!(String::from_utf8_lossy(&read.stdout), "1", "{read:?}");
}

#[tokio::test]
async fn the_audit_log_counts_reviews_and_tells_who_used_which_verbs() {
    let cluster = Cluster::shared().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let client = cluster.client_as(&delegator.kubeconfig);
    let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "garbage"}});
    for _ in 0..3 {
        let request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews");
        let request = request.header("content-type", "application/json").body(ask.to_string().into_bytes());
        let review: serde_json::Value = client.request(request.expect("a request")).await.expect("review a token");
        assert_eq!(review["status"]["authenticated"], serde_json::Value::Null, "{review}");
    }
    let maps: Api<ConfigMap> = Api::namespaced(client, "kube-system");
    maps.get("extension-apiserver-authentication").await.expect("read the published authorities");

    let mine = |event: &testbed::AuditEvent| event.user == delegator.username;
    let reviews = cluster.audit_events(|event| mine(event) && event.is_token_review()).await;
    assert_eq!(reviews.len(), 3, "{reviews:?}");
    assert!(reviews.iter().all(|event| event.status == 201), "{reviews:?}");
    assert!(cluster.audit_events(|event| mine(event) && event.is_subject_access_review()).await.is_empty());
    assert_eq!(cluster.verbs_used_by(&delegator.username).await, ["create tokenreviews", "get configmaps"]);
}

fn boxes(cluster: &Cluster, namespace: &str) -> Api<DynamicObject> {
    let kind = kube::core::GroupVersionKind::gvk("testbed.stateward.dev", "v1", "Box");
    let resource = ApiResource::from_gvk_with_plural(&kind, "boxes");
    Api::namespaced_with(cluster.client(), namespace, &resource)
}

fn box_of(namespace: &str, count: u32) -> String {
    format!(
        r"
apiVersion: testbed.stateward.dev/v1
kind: Box
metadata: {{name: light, namespace: {namespace}}}
spec: {{count: {count}}}
"
    )
}

const BOX: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.testbed.stateward.dev}
spec:
  group: testbed.stateward.dev
  names: {kind: Box, plural: boxes, singular: box, listKind: BoxList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {count: {type: integer}}
            x-kubernetes-validations:
            - {rule: self.count <= 10, message: a box holds ten at most}
";
