//! What a store keeps of one state, counted in the store itself: its head and its chunks, as they are there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::{ByteString, NamespaceResourceScope};
use kube::Api;
use kube::api::ListParams;
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use serde::de::DeserializeOwned;

use super::{Place, Store};
use crate::floors::open_bucket;
use crate::measure::Bench;
use crate::sqlite;

/// Where a store keeps what it is given.
pub(crate) enum Kept {
    /// The SQLite file.
    File(PathBuf),
    /// A database of the PostgreSQL server.
    Database(String),
    /// The namespace of the states.
    Objects,
    Bucket(String),
}

const CHUNKS: &str = "SELECT COALESCE(SUM(LENGTH(bytes)), 0) FROM state_chunks WHERE name = ";
const HEADS: &str = "SELECT COALESCE(SUM(LENGTH(head)), 0) FROM state_heads WHERE name = ";
/// The label of everything that belongs to a state, and the annotation by which a chunk names it.
const ROLE: &str = "stateward.dev/state-role";
const STATE: &str = "stateward.dev/state-name";

impl Place {
    /// The bytes of one state in the store.
    pub(crate) async fn stored(&self, bench: &Bench, name: &str) -> Result<u64> {
        match &self.kept {
            Kept::File(path) => {
                let database = sqlite::open(path)?;
                let sum = |sql: &str| database.query_row(&format!("{sql}?1"), [name], |row| row.get::<_, i64>(0));
                Ok((sum(CHUNKS)? + sum(HEADS)?).cast_unsigned())
            }
            Kept::Database(database) => {
                let postgres = bench.programs.postgres().await?;
                let sum = |sql: &str| anyhow::Ok(postgres.sql(database, &format!("{sql}'{name}'"))?.parse::<u64>()?);
                Ok(sum(CHUNKS)? + sum(HEADS)?)
            }
            Kept::Objects if self.store == Store::Secret => {
                let api = Api::namespaced(bench.programs.cluster().await.client(), &self.namespace);
                objects(api, name, |secret: Secret| secret.data).await
            }
            Kept::Objects => {
                let api = Api::namespaced(bench.programs.cluster().await.client(), &self.namespace);
                objects(api, name, |map: ConfigMap| map.binary_data).await
            }
            Kept::Bucket(bucket) => {
                let bucket = open_bucket(bench.programs.weed().await?, bucket)?;
                let at = |kind: &str| Path::from_iter([kind, self.namespace.as_str(), name]);
                let mut bytes = bucket.head(&at("heads")).await?.size;
                for upload in bucket.list_with_delimiter(Some(&at("chunks"))).await?.common_prefixes {
                    let chunks = bucket.list_with_delimiter(Some(&upload)).await?.objects;
                    bytes += chunks.iter().map(|chunk| chunk.size).sum::<u64>();
                }
                Ok(bytes)
            }
        }
    }
}

async fn objects<K>(api: Api<K>, name: &str, data: impl Fn(K) -> Option<BTreeMap<String, ByteString>>) -> Result<u64>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let mut bytes = 0;
    for mut object in api.list(&ListParams::default().labels(ROLE)).await?.items {
        let metadata = std::mem::take(object.meta_mut());
        let annotations = metadata.annotations.unwrap_or_default();
        let state = annotations.get(STATE).or(metadata.name.as_ref()).context("an object without a name")?;
        if state == name {
            bytes += annotations.values().map(String::len).sum::<usize>();
            bytes += data(object).unwrap_or_default().values().map(|value| value.0.len()).sum::<usize>();
        }
    }
    Ok(bytes as u64)
}
