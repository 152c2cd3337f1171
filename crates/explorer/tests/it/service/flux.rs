//! The kinds that are collected by default, as their own definitions have them.

use explorer::kinds::KindSpec;
use explorer::query::Query;
use explorer::service::KindState;
use explorer::{Explorer, Status};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use testbed::{Cluster, eventually};

use super::world::{HOME, LIMIT, Place, local, master, reader, report, synced};

struct Flux {
    client: kube::Client,
    namespace: String,
}

impl Flux {
    fn api(&self, group: &str, version: &str, kind: &str) -> (Api<DynamicObject>, ApiResource) {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        (Api::namespaced_with(self.client.clone(), &self.namespace, &resource), resource)
    }

    /// Makes an object, and gives it a condition as its controller would.
    async fn make(&self, group: &str, version: &str, kind: &str, spec: Value, ready: Option<(&str, &str)>) {
        let (api, resource) = self.api(group, version, kind);
        let name = kind.to_lowercase();
        let object = DynamicObject::new(&name, &resource).data(json!({"spec": spec}));
        api.create(&PostParams::default(), &object).await.unwrap();
        if let Some((status, reason)) = ready {
            let condition = json!({
                "type": "Ready", "status": status, "reason": reason, "message": format!("{kind} says {reason}"),
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            let status =
                json!({"apiVersion": resource.api_version, "kind": kind, "status": {"conditions": [condition]}});
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn default_kinds_are_found_with_status_message_and_category_and_missing_ones_are_waited_for() {
    let cluster = Cluster::shared().await;
    let mut options = Place::new().options(&[]).await;
    options.local = Some(local(&reader(cluster)));
    options.kinds = KindSpec::defaults();
    let explorer = Explorer::open(options).await.unwrap();
    // Events are there in any case; no other kind is disturbed by those that are not.
    synced(&explorer, HOME, 1).await;
    cluster.apply_flux_definitions().await;
    synced(&explorer, HOME, 8).await;

    let flux = Flux { client: cluster.client(), namespace: cluster.namespace("flux").await };
    let (helm, kustomize, source) =
        ("helm.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io", "source.toolkit.fluxcd.io");
    let url = |url: &str| json!({"interval": "1m", "url": url});
    let chart =
        json!({"spec": {"chart": "podinfo", "sourceRef": {"kind": "HelmRepository", "name": "helmrepository"}}});
    let release = json!({"interval": "1m", "chart": chart});
    flux.make(helm, "v2", "HelmRelease", release, Some(("Unknown", "Progressing"))).await;
    let applied = json!({
        "interval": "1m", "prune": true, "suspend": true, "sourceRef": {"kind": "GitRepository", "name": "gitrepository"},
    });
    flux.make(kustomize, "v1", "Kustomization", applied, Some(("True", "Succeeded"))).await;
    flux.make(source, "v1", "GitRepository", url("https://example.com/git"), Some(("False", "GitOperationFailed")))
        .await;
    flux.make(source, "v1", "HelmRepository", url("https://example.com/charts"), Some(("True", "Succeeded"))).await;
    flux.make(source, "v1", "OCIRepository", url("oci://example.com/oci"), None).await;
    let event = json!({
        "metadata": {"name": "told"}, "type": "Warning", "message": "the release failed",
        "involvedObject": {"apiVersion": format!("{helm}/v2"), "kind": "HelmRelease", "name": "helmrelease", "namespace": flux.namespace},
    });
    let events: Api<Event> = Api::namespaced(cluster.client(), &flux.namespace);
    events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();

    let expected = [
        ("Event", "event", Status::Failed, "the release failed"),
        ("GitRepository", "source", Status::Failed, "GitRepository says GitOperationFailed"),
        ("HelmRelease", "automation", Status::Reconciling, "HelmRelease says Progressing"),
        ("HelmRepository", "source", Status::Success, "HelmRepository says Succeeded"),
        ("Kustomization", "automation", Status::Suspended, "Kustomization says Succeeded"),
        ("OCIRepository", "source", Status::Unknown, ""),
    ];
    let expected = expected
        .map(|(kind, category, status, message)| (kind.to_owned(), category.to_owned(), status, message.to_owned()));
    eventually(LIMIT, || async {
        let visibility = explorer.visibility(&master()).await;
        let query = Query { limit: 0, ..Query::parse(&format!("ns:{}", flux.namespace)).unwrap() };
        let page = explorer.read(|index| index.query(&query, &visibility));
        let mut rows: Vec<_> = page.rows.into_iter().map(|found| found.row).collect();
        rows.sort_by(|one, other| one.key.kind.cmp(&other.key.kind));
        let rows: Vec<_> = rows.into_iter().map(|row| (row.key.kind, row.category, row.status, row.message)).collect();
        if rows == expected { Ok(()) } else { Err(format!("{rows:#?}")) }
    })
    .await;
    let kinds = report(&explorer, HOME).unwrap().kinds;
    let waiting: Vec<&str> =
        kinds.iter().filter(|kind| kind.state == KindState::Absent).map(|kind| kind.kind.as_str()).collect();
    assert!(waiting.contains(&"Terraform") && waiting.contains(&"GitOpsSet"), "{waiting:?}");
    assert_eq!(explorer.resource(HOME, helm, "HelmRelease").unwrap().version, "v2", "what the cluster prefers");
    explorer.close().await;
}
