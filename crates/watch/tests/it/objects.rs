//! What happens in the cluster, who is told of it, and when the two are equal.

use std::ops::Deref;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use testbed::certificates::Pair;
use testbed::faults::Proxy;
use testbed::{Cluster, eventually};
use watch::{Key, Source};

use crate::consumer::{LIMIT, erased};
use crate::mirror::{Mirror, Rows};

/// The ConfigMaps of a fresh namespace, and what should be known of them.
#[derive(Clone)]
pub(crate) struct Maps(testbed::Maps);

impl Deref for Maps {
    type Target = testbed::Maps;

    fn deref(&self) -> &testbed::Maps {
        &self.0
    }
}

impl Maps {
    pub(crate) async fn new(cluster: &Cluster, prefix: &str) -> Maps {
        Maps(testbed::Maps::new(cluster, prefix).await)
    }

    pub(crate) fn source(&self, client: Client) -> Source {
        Source { namespace: Some(self.namespace.clone()), ..Source::new("here", client, erased::<ConfigMap>()) }
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

/// An administrator's client that tells of faults when they happen.
pub(crate) fn admin(cluster: &Cluster) -> Client {
    cluster.user("watch-admin", &["system:masters"]).kubeconfig().plain_client()
}

/// A client of an administrator by way of a proxy that can be told to misbehave.
pub(crate) fn proxied(cluster: &Cluster) -> (Proxy, Client) {
    let user = cluster.user("watch-admin", &["system:masters"]);
    let pair = Pair { certificate_pem: user.certificate_pem.clone(), key_pem: user.key_pem.clone() };
    let authority = cluster.client_ca().certificate_pem();
    let proxy = Proxy::to(cluster.url()).trusting(authority).presenting(&pair).start();
    let client = user.kubeconfig().clone().with_server(proxy.url()).plain_client();
    (proxy, client)
}
