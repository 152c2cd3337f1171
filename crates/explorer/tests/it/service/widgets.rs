//! A kind of its own, whose definition comes and goes.

use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use testbed::Cluster;

use super::world::LIMIT;

pub(crate) struct Widgets {
    cluster: &'static Cluster,
    pub(crate) group: String,
    pub(crate) namespace: String,
}

impl Widgets {
    pub(crate) async fn new(cluster: &'static Cluster) -> Widgets {
        let namespace = cluster.namespace("widgets").await;
        let group = format!("{namespace}.example.com");
        Widgets { cluster, group, namespace }
    }

    /// How the configuration names it.
    pub(crate) fn kind(&self) -> String {
        format!("Widget.{}", self.group)
    }

    pub(crate) async fn define(&self, version: &str) {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let one = |name: &str| {
            let current = name == version;
            json!({"name": name, "served": current, "storage": current, "schema": schema})
        };
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{}", self.group)},
            "spec": {
                "group": self.group,
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
                "scope": "Namespaced",
                "versions": [one("v1"), one("v2")],
            },
        });
        self.cluster.apply(&definition.to_string()).await;
    }

    pub(crate) async fn create(&self, version: &str, count: usize) {
        for number in 0..count {
            self.make(version, &format!("w{number}"), json!({})).await;
        }
    }

    /// One of them, with this beside its metadata.
    pub(crate) async fn make(&self, version: &str, name: &str, data: Value) {
        let (api, resource) = self.api(version);
        let widget = DynamicObject::new(name, &resource).data(data);
        api.create(&PostParams::default(), &widget).await.unwrap();
    }

    pub(crate) async fn delete(&self, version: &str, name: &str) {
        self.api(version).0.delete(name, &DeleteParams::default()).await.unwrap();
    }

    fn api(&self, version: &str) -> (Api<DynamicObject>, ApiResource) {
        let kind = GroupVersionKind::gvk(&self.group, version, "Widget");
        let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
        (Api::namespaced_with(self.cluster.client(), &self.namespace, &resource), resource)
    }

    pub(crate) async fn remove_definition(&self) {
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let api: Api<DynamicObject> = Api::all_with(self.cluster.client(), &ApiResource::from_gvk(&kind));
        let name = format!("widgets.{}", self.group);
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        testbed::wait_until_gone(&api, &name, LIMIT).await;
    }
}
