//! The floors under the stores of states: what a lock, a write and an unlock cost without us.
//!
//! The door is [`Floor`]. A floor keeps one record of the payload per client, and reads and rewrites it by the bare
//! client of its store, with as many connections, the same TLS and the same durability as the server has: three
//! read-modify-writes and a read are a cycle of LOCK, GET, POST, UNLOCK.

mod bucket;
mod objects;
mod postgres;
mod sqlite;

use std::path::Path;

use anyhow::Result;
use bytes::Bytes;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use testbed::{Postgres, Weed};

use crate::states::Payload;

pub(crate) use bucket::open as open_bucket;

pub(crate) enum Floor {
    Sqlite(sqlite::Table),
    Postgres(postgres::Table),
    ConfigMaps(objects::Objects<ConfigMap>),
    Secrets(objects::Objects<Secret>),
    Bucket(bucket::Bucket),
}

impl Floor {
    pub(crate) fn sqlite(path: &Path, clients: usize, payload: &Bytes) -> Result<Floor> {
        Ok(Floor::Sqlite(sqlite::Table::new(path, clients, payload)?))
    }

    pub(crate) async fn postgres(server: &Postgres, clients: usize, payload: &Bytes) -> Result<Floor> {
        Ok(Floor::Postgres(postgres::Table::new(server, clients, payload).await?))
    }

    pub(crate) async fn config_maps(
        client: kube::Client,
        namespace: &str,
        clients: usize,
        payload: &Bytes,
    ) -> Result<Floor> {
        Ok(Floor::ConfigMaps(objects::Objects::new(client, namespace, clients, payload).await?))
    }

    pub(crate) async fn secrets(
        client: kube::Client,
        namespace: &str,
        clients: usize,
        payload: &Bytes,
    ) -> Result<Floor> {
        Ok(Floor::Secrets(objects::Objects::new(client, namespace, clients, payload).await?))
    }

    pub(crate) async fn bucket(server: &Weed, clients: usize, payload: &Bytes) -> Result<Floor> {
        Ok(Floor::Bucket(bucket::Bucket::new(server, clients, payload).await?))
    }

    /// What one LOCK, GET, POST, UNLOCK comes down to. Every rewrite has other bytes: an API server does not write what
    /// is there already.
    pub(crate) async fn cycle(&self, client: usize, payload: &Payload) -> Result<()> {
        self.rewrite(client, &payload.next()).await?;
        self.read(client).await?;
        self.rewrite(client, &payload.next()).await?;
        self.rewrite(client, &payload.next()).await
    }

    pub(crate) async fn read(&self, client: usize) -> Result<()> {
        match self {
            Floor::Sqlite(table) => table.read(client),
            Floor::Postgres(table) => table.read(client).await,
            Floor::ConfigMaps(objects) => objects.read(client).await.map(drop),
            Floor::Secrets(objects) => objects.read(client).await.map(drop),
            Floor::Bucket(bucket) => bucket.read(client).await.map(drop),
        }
    }

    pub(crate) async fn rewrite(&self, client: usize, payload: &Bytes) -> Result<()> {
        match self {
            Floor::Sqlite(table) => table.rewrite(client, payload).await,
            Floor::Postgres(table) => table.rewrite(client, payload).await,
            Floor::ConfigMaps(objects) => objects.rewrite(client, payload).await,
            Floor::Secrets(objects) => objects.rewrite(client, payload).await,
            Floor::Bucket(bucket) => bucket.rewrite(client, payload).await,
        }
    }
}

/// The name of a client's record.
fn name(client: usize) -> String {
    format!("bench-{client}")
}
