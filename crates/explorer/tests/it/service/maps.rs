//! What happens in a cluster: ConfigMaps of a fresh namespace that are made, changed and deleted, at random too.

use std::collections::BTreeMap;

use explorer::Explorer;
use explorer::query::Query;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use testbed::{Cluster, eventually};

use super::world::{LIMIT, master};

#[derive(Clone)]
pub(crate) struct Maps {
    pub(crate) api: Api<ConfigMap>,
    pub(crate) namespace: String,
    /// What the cluster is called in the explorer.
    pub(crate) cluster: String,
}

impl Maps {
    pub(crate) async fn new(cluster: &Cluster, name: &str, prefix: &str) -> Maps {
        let namespace = cluster.namespace(prefix).await;
        let api = Api::namespaced(cluster.client(), &namespace);
        // The controller-manager makes one in each namespace; it must not come in the middle of a comparison.
        eventually(LIMIT, || async { api.get_opt("kube-root-ca.crt").await.unwrap().is_some() }).await;
        Maps { api, namespace, cluster: name.to_owned() }
    }

    pub(crate) async fn create(&self, name: &str) {
        let object = json!({"metadata": {"name": name, "labels": {"made": "yes"}}, "data": {"n": "0"}});
        let object: ConfigMap = serde_json::from_value(object).unwrap();
        match self.api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made.unwrap()),
        }
    }

    pub(crate) async fn create_many(&self, count: usize) {
        let names = (0..count).map(|number| format!("many-{number}"));
        futures::stream::iter(names).for_each_concurrent(16, |name| async move { self.create(&name).await }).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        ignoring_404(self.api.delete(name, &DeleteParams::default()).await.map(drop));
    }

    pub(crate) async fn update(&self, name: &str) {
        let patch = json!({"data": {"n": fastrand::u64(..).to_string()}});
        ignoring_404(self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop));
    }

    pub(crate) async fn delete_all(&self) {
        self.api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("made")).await.unwrap();
    }

    /// One random thing to one of `names` objects.
    async fn step(&self, random: &mut fastrand::Rng, names: usize) {
        let name = format!("many-{}", random.usize(..names));
        match random.u32(..10) {
            0..4 => self.create(&name).await,
            4..7 => self.update(&name).await,
            7..9 => self.delete(&name).await,
            _ => {
                self.delete(&name).await;
                self.create(&name).await;
            }
        }
    }

    pub(crate) async fn steps(&self, random: &mut fastrand::Rng, names: usize, count: usize) {
        let seeds: Vec<u64> = (0..count).map(|_| random.u64(..)).collect();
        let one = |seed| async move { self.step(&mut fastrand::Rng::with_seed(seed), names).await };
        futures::stream::iter(seeds).for_each_concurrent(8, one).await;
    }

    /// Uid and version of each, by name.
    pub(crate) async fn truth(&self) -> Versions {
        let list = self.api.list(&ListParams::default()).await.unwrap();
        let row = |map: &ConfigMap| (map.name_any(), (map.uid().unwrap(), map.resource_version().unwrap()));
        list.iter().map(row).collect()
    }

    /// The same of the rows, with the bodies' versions.
    pub(crate) async fn rows(&self, explorer: &Explorer) -> Versions {
        let visibility = explorer.visibility(&master()).await;
        let text = format!("cluster:{} ns:{} kind:ConfigMap", self.cluster, self.namespace);
        let query = Query { limit: 0, ..Query::parse(&text).unwrap() };
        let page = explorer.read(|index| index.query(&query, &visibility));
        assert!(!page.truncated);
        let mut rows = BTreeMap::new();
        for found in page.rows {
            let body = explorer.body(&found.row.key, &visibility).await.unwrap();
            let body: serde_json::Value = serde_json::from_str(&body.unwrap_or_else(|| "{}".to_owned())).unwrap();
            let version = body["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            rows.insert(found.row.key.name, (found.row.uid, version));
        }
        rows
    }

    /// Waits until rows and bodies are as the cluster is.
    pub(crate) async fn mirrored(&self, explorer: &Explorer) {
        eventually(LIMIT, || async {
            let (rows, truth) = (self.rows(explorer).await, self.truth().await);
            if rows == truth { Ok(()) } else { Err(difference(&rows, &truth)) }
        })
        .await;
    }
}

type Versions = BTreeMap<String, (String, String)>;

fn difference(rows: &Versions, truth: &Versions) -> String {
    let only = |a: &Versions, b: &Versions| {
        let names = a.iter().filter(|(name, row)| b.get(*name) != Some(row)).map(|(name, _)| name.clone());
        names.take(5).collect::<Vec<_>>()
    };
    format!("rows alone: {:?}; cluster alone: {:?}", only(rows, truth), only(truth, rows))
}

fn ignoring_404(done: kube::Result<()>) {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => other.unwrap(),
    }
}
