//! What happens in a cluster: ConfigMaps of a fresh namespace that are made, changed and deleted, at random too.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::{Cluster, eventually};

/// The ConfigMaps of a fresh namespace. Those that are made here have the label `keep`, at first with the value `yes`.
#[derive(Clone, Debug)]
pub struct Maps {
    pub api: Api<ConfigMap>,
    pub namespace: String,
}

impl Maps {
    pub async fn new(cluster: &Cluster, prefix: &str) -> Maps {
        let namespace = cluster.namespace(prefix).await;
        let api = Api::namespaced(cluster.client(), &namespace);
        // The controller-manager makes one in each namespace; it must not come in the middle of a comparison.
        let made = || async { api.get_opt("kube-root-ca.crt").await.is_ok_and(|map| map.is_some()) };
        eventually(Duration::from_mins(2), made).await;
        Maps { api, namespace }
    }

    pub async fn create(&self, name: &str) {
        let object = json!({"metadata": {"name": name, "labels": {"keep": "yes"}}, "data": {"n": "0"}});
        let object: ConfigMap = serde_json::from_value(object).expect("a ConfigMap");
        // Another writer may have been first.
        match self.api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made.expect("create a ConfigMap")),
        }
    }

    /// `many-0` and so on.
    pub async fn create_many(&self, count: usize) {
        let names = (0..count).map(|number| format!("many-{number}"));
        futures::stream::iter(names).for_each_concurrent(16, |name| async move { self.create(&name).await }).await;
    }

    pub async fn delete(&self, name: &str) {
        unless_gone(self.api.delete(name, &DeleteParams::default()).await.map(drop));
    }

    pub async fn update(&self, name: &str) {
        self.patch(name, json!({"data": {"n": fastrand::u64(..).to_string()}})).await;
    }

    /// Moves it into or out of `keep=yes`.
    pub async fn label(&self, name: &str, keep: &str) {
        self.patch(name, json!({"metadata": {"labels": {"keep": keep}}})).await;
    }

    /// All that were made here.
    pub async fn delete_all(&self) {
        let made_here = ListParams::default().labels("keep");
        self.api.delete_collection(&DeleteParams::default(), &made_here).await.expect("delete the ConfigMaps");
    }

    /// Random things to random ones of `names` objects.
    pub async fn steps(&self, random: &mut fastrand::Rng, names: usize, count: usize) {
        let seeds: Vec<u64> = (0..count).map(|_| random.u64(..)).collect();
        let one = |seed| async move { self.step(&mut fastrand::Rng::with_seed(seed), names).await };
        futures::stream::iter(seeds).for_each_concurrent(8, one).await;
    }

    async fn step(&self, random: &mut fastrand::Rng, names: usize) {
        let name = format!("many-{}", random.usize(..names));
        match random.u32(..10) {
            0..3 => self.create(&name).await,
            3..6 => self.update(&name).await,
            6..8 => self.delete(&name).await,
            8 => {
                self.delete(&name).await;
                self.create(&name).await;
            }
            _ => self.label(&name, if random.bool() { "yes" } else { "no" }).await,
        }
    }

    async fn patch(&self, name: &str, patch: serde_json::Value) {
        unless_gone(self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop));
    }
}

fn unless_gone(done: kube::Result<()>) {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => other.expect("change a ConfigMap"),
    }
}
