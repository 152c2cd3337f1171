//! An object per client on the API server: GET, then PUT with the resourceVersion that was read.

use std::fmt::Debug;

use anyhow::Result;
use bytes::Bytes;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::{ByteString, NamespaceResourceScope};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::name;

/// What ConfigMaps and Secrets differ in.
pub(crate) trait Kind:
    kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
    fn new(metadata: ObjectMeta) -> Self;
    fn set(&mut self, payload: &Bytes);
}

pub(crate) struct Objects<K> {
    api: Api<K>,
}

const KEY: &str = "tfstate";

impl<K: Kind> Objects<K> {
    pub(super) async fn new(client: Client, namespace: &str, clients: usize, payload: &Bytes) -> Result<Objects<K>> {
        let api = Api::namespaced(client, namespace);
        for client in 0..clients {
            let mut object = K::new(ObjectMeta { name: Some(name(client)), ..ObjectMeta::default() });
            object.set(payload);
            api.create(&PostParams::default(), &object).await?;
        }
        Ok(Objects { api })
    }

    pub(super) async fn read(&self, client: usize) -> Result<K> {
        Ok(self.api.get(&name(client)).await?)
    }

    pub(super) async fn rewrite(&self, client: usize, payload: &Bytes) -> Result<()> {
        let mut object = self.read(client).await?;
        object.set(payload);
        self.api.replace(&name(client), &PostParams::default(), &object).await?;
        Ok(())
    }
}

impl Kind for ConfigMap {
    fn new(metadata: ObjectMeta) -> ConfigMap {
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn set(&mut self, payload: &Bytes) {
        self.binary_data = Some([(KEY.to_owned(), ByteString(payload.to_vec()))].into());
    }
}

impl Kind for Secret {
    fn new(metadata: ObjectMeta) -> Secret {
        Secret { metadata, ..Secret::default() }
    }

    fn set(&mut self, payload: &Bytes) {
        self.data = Some([(KEY.to_owned(), ByteString(payload.to_vec()))].into());
    }
}
