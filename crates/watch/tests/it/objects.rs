//! What happens in the cluster: ConfigMaps of a namespace that are made, changed and deleted at random.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use testbed::{Cluster, Kubeconfig, eventually};
use watch::{Key, Source};

use crate::consumer::{LIMIT, erased};
use crate::mirror::{Mirror, Rows};

/// The ConfigMaps of a fresh namespace.
#[derive(Clone)]
pub(crate) struct Maps {
    pub(crate) api: Api<ConfigMap>,
    pub(crate) namespace: String,
}

impl Maps {
    pub(crate) async fn new(cluster: &Cluster, prefix: &str) -> Maps {
        let namespace = cluster.namespace(prefix).await;
        let api = Api::namespaced(cluster.client(), &namespace);
        // The controller-manager makes one in each namespace; it must not come in the middle of a comparison.
        eventually(LIMIT, || async { api.get_opt("kube-root-ca.crt").await.unwrap().is_some() }).await;
        Maps { api, namespace }
    }

    pub(crate) fn source(&self, client: Client) -> Source {
        Source { namespace: Some(self.namespace.clone()), ..Source::new("here", client, erased::<ConfigMap>()) }
    }

    pub(crate) async fn create(&self, name: &str) {
        let object = json!({"metadata": {"name": name, "labels": {"keep": "yes"}}, "data": {"n": "0"}});
        let object: ConfigMap = serde_json::from_value(object).unwrap();
        // Another writer may have been first.
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

    /// Moves it into or out of `keep=yes`.
    pub(crate) async fn label(&self, name: &str, keep: &str) {
        let patch = json!({"metadata": {"labels": {"keep": keep}}});
        ignoring_404(self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop));
    }

    pub(crate) async fn delete_all(&self) {
        self.api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("keep")).await.unwrap();
    }

    /// One random thing to one of `names` objects.
    pub(crate) async fn step(&self, random: &mut fastrand::Rng, names: usize) {
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

    pub(crate) async fn steps(&self, random: &mut fastrand::Rng, names: usize, count: usize) {
        let seeds: Vec<u64> = (0..count).map(|_| random.u64(..)).collect();
        let one = |seed| async move { self.step(&mut fastrand::Rng::with_seed(seed), names).await };
        futures::stream::iter(seeds).for_each_concurrent(8, one).await;
    }

    pub(crate) async fn truth(&self, selector: &str) -> Rows {
        let list = self.api.list(&ListParams::default().labels(selector)).await.unwrap();
        let row = |map: &ConfigMap| {
            let key = Key::new(&map.namespace().unwrap_or_default(), &map.name_any());
            (key, (map.uid().unwrap(), map.resource_version().unwrap()))
        };
        list.iter().map(row).collect()
    }

    /// Waits until the mirror is as the cluster is, and has been told nothing wrong.
    pub(crate) async fn mirrored(&self, mirror: &Mirror) {
        self.mirrored_where(mirror, "").await;
    }

    pub(crate) async fn mirrored_where(&self, mirror: &Mirror, selector: &str) {
        eventually(LIMIT, || async {
            let (rows, truth) = (mirror.rows(), self.truth(selector).await);
            if rows == truth { Ok(()) } else { Err(difference(&rows, &truth)) }
        })
        .await;
        mirror.nothing_is_wrong();
    }
}

fn difference(rows: &Rows, truth: &Rows) -> String {
    let only = |a: &Rows, b: &Rows| {
        let keys: Vec<String> =
            a.iter().filter(|(key, row)| b.get(*key) != Some(row)).map(|(key, _)| key.to_string()).collect();
        format!("{} ({:?})", keys.len(), keys.iter().take(5).collect::<Vec<_>>())
    };
    format!("mirror alone: {}; cluster alone: {}", only(rows, truth), only(truth, rows))
}

fn ignoring_404(done: kube::Result<()>) {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => other.unwrap(),
    }
}

/// A client that tells of faults when they happen, as the product's does.
pub(crate) fn client(kubeconfig: &Kubeconfig) -> Client {
    let mut config = kubeconfig.config();
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    Client::try_from(config).unwrap()
}

/// An administrator's client of that kind.
pub(crate) fn admin(cluster: &Cluster) -> Client {
    client(cluster.user("watch-admin", &["system:masters"]).kubeconfig())
}
