//! A kind that goes takes its objects with it; a kind that cannot be found does not.

use http::StatusCode;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;
use testbed::faults::{Fault, Rule};
use testbed::{Cluster, eventually, scale, seed};
use watch::{Health, Keys, Source, Why};

use crate::consumer::{Consumer, LIMIT, keys, known, sqlite};
use crate::mirror::Mirror;
use crate::objects::{admin, proxied};

/// A kind of its own.
struct Widgets {
    cluster: &'static Cluster,
    group: String,
    resource: ApiResource,
    namespace: String,
}

impl Widgets {
    async fn new() -> Widgets {
        let cluster = Cluster::shared().await;
        let namespace = cluster.namespace("widgets").await;
        let group = format!("{namespace}.example.com");
        let kind = GroupVersionKind::gvk(&group, "v1", "Widget");
        let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
        let widgets = Widgets { cluster, group, resource, namespace };
        widgets.define(true).await;
        widgets
    }

    fn name(&self) -> String {
        format!("widgets.{}", self.group)
    }

    async fn define(&self, served: bool) {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name()},
            "spec": {
                "group": self.group,
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
                "scope": "Namespaced",
                "versions": [
                    {"name": "v1", "served": served, "storage": false, "schema": schema},
                    {"name": "v2", "served": true, "storage": true, "schema": schema},
                ],
            },
        });
        self.cluster.apply(&definition.to_string()).await;
    }

    async fn create(&self, count: usize) {
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client(), &self.namespace, &self.resource);
        for number in 0..count {
            let widget = DynamicObject::new(&format!("w{number}"), &self.resource);
            api.create(&PostParams::default(), &widget).await.unwrap();
        }
    }

    async fn remove_definition(&self) {
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let api: Api<DynamicObject> = Api::all_with(self.cluster.client(), &ApiResource::from_gvk(&kind));
        api.delete(&self.name(), &DeleteParams::default()).await.unwrap();
        testbed::wait_until_gone(&api, &self.name(), LIMIT).await;
    }

    fn source(&self) -> Source {
        Source::new("here", admin(self.cluster), self.resource.clone())
    }
}

async fn absent(consumer: &Consumer) {
    eventually(LIMIT, || async {
        let health = consumer.health();
        if matches!(health, Health::Absent { .. }) { Ok(()) } else { Err(health) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_deleted_takes_every_object_with_it_and_comes_back() {
    let mut random = fastrand::Rng::with_seed(seed("watch absent"));
    for _ in 0..scale().of(2, 20) {
        let widgets = Widgets::new().await;
        widgets.create(20).await;
        let (keys, mirror) = (Keys::new(sqlite().await, "test"), Mirror::default());
        let consumer = Consumer::start(&keys, widgets.source(), &mirror).await;
        eventually(LIMIT, || async { mirror.rows().len() == 20 }).await;
        // In half of the runs nobody follows when it happens.
        let consumer = if random.bool() {
            widgets.remove_definition().await;
            consumer
        } else {
            consumer.stop().await;
            widgets.remove_definition().await;
            Consumer::start(&keys, widgets.source(), &mirror).await
        };
        absent(&consumer).await;
        eventually(LIMIT, || async { mirror.rows().is_empty() && known(&keys).await == 0 }).await;
        assert_eq!(mirror.seen().deleted.len(), 20);
        assert_eq!(mirror.seen().absent, 1);

        widgets.define(true).await;
        widgets.create(3).await;
        consumer.synced().await;
        eventually(LIMIT, || async { mirror.rows().len() == 3 }).await;
        mirror.nothing_is_wrong();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_no_longer_served_is_gone() {
    let widgets = Widgets::new().await;
    widgets.create(3).await;
    let (keys, mirror) = (keys().await, Mirror::default());
    let consumer = Consumer::start(&keys, widgets.source(), &mirror).await;
    eventually(LIMIT, || async { mirror.rows().len() == 3 }).await;
    widgets.define(false).await;
    absent(&consumer).await;
    eventually(LIMIT, || async { mirror.rows().is_empty() }).await;
    // The objects are the same ones in the other version, under the same name of the stream.
    let kind = GroupVersionKind::gvk(&widgets.group, "v2", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
    let newer = Source { resource, ..widgets.source() };
    let _newer = Consumer::start(&keys, newer, &mirror).await;
    eventually(LIMIT, || async { mirror.rows().len() == 3 && known(&keys).await == 3 }).await;
    consumer.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_404_that_the_cluster_does_not_confirm_deletes_nothing() {
    let widgets = Widgets::new().await;
    widgets.create(5).await;
    let (proxy, client) = proxied(widgets.cluster);
    let source = Source { client, ..widgets.source() };
    let (keys, mirror) = (keys().await, Mirror::default());
    let consumer = Consumer::start(&keys, source, &mirror).await;
    eventually(LIMIT, || async { mirror.rows().len() == 5 }).await;
    // First the kind alone is not found, although its definition is there; then a proxy knows nothing at all.
    for path in ["/widgets?", ""] {
        proxy.add(Rule::new(Fault::status(StatusCode::NOT_FOUND)).path(path));
        let lost = || async {
            let health = consumer.health();
            if matches!(health, Health::Lost { why: Why::NotServed, .. }) { Ok(()) } else { Err(health) }
        };
        eventually(LIMIT, lost).await;
        let looks = consumer.handle.figures().faults;
        eventually(LIMIT, || async { consumer.handle.figures().faults > looks + 2 }).await;
        assert_eq!(mirror.rows().len(), 5);
        proxy.clear();
        consumer.synced().await;
    }
    let seen = mirror.seen();
    assert_eq!((seen.deleted.len(), seen.absent), (0, 0));
}
