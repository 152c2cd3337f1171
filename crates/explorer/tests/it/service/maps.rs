//! What happens in a cluster, and whether the explorer shows it.

use std::collections::BTreeMap;
use std::ops::Deref;

use explorer::Explorer;
use explorer::query::Query;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::ListParams;
use testbed::{Cluster, eventually};

use super::world::{LIMIT, master};

/// The ConfigMaps of a fresh namespace, and what should be known of them.
#[derive(Clone)]
pub(crate) struct Maps {
    maps: testbed::Maps,
    /// What the cluster is called in the explorer.
    pub(crate) cluster: String,
}

impl Deref for Maps {
    type Target = testbed::Maps;

    fn deref(&self) -> &testbed::Maps {
        &self.maps
    }
}

impl Maps {
    pub(crate) async fn new(cluster: &Cluster, name: &str, prefix: &str) -> Maps {
        Maps { maps: testbed::Maps::new(cluster, prefix).await, cluster: name.to_owned() }
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
