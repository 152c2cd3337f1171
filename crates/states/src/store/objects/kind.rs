//! The two kinds of objects that can hold a state.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::ByteString;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Resource;
use kube::api::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
    /// As routes of the configuration name the store.
    const STORE: &'static str;
    /// As RBAC names the kind.
    const RESOURCE: &'static str;
    /// The field that holds bytes.
    const DATA: &'static str;

    fn new(metadata: ObjectMeta, data: BTreeMap<String, ByteString>) -> Self;

    fn data_mut(&mut self) -> &mut BTreeMap<String, ByteString>;

    fn set_immutable(&mut self);
}

impl Kind for ConfigMap {
    const STORE: &'static str = "configmap";
    const RESOURCE: &'static str = "configmaps";
    const DATA: &'static str = "binaryData";

    fn new(metadata: ObjectMeta, data: BTreeMap<String, ByteString>) -> ConfigMap {
        ConfigMap { metadata, binary_data: Some(data), ..ConfigMap::default() }
    }

    fn data_mut(&mut self) -> &mut BTreeMap<String, ByteString> {
        self.binary_data.get_or_insert_default()
    }

    fn set_immutable(&mut self) {
        self.immutable = Some(true);
    }
}

impl Kind for Secret {
    const STORE: &'static str = "secret";
    const RESOURCE: &'static str = "secrets";
    const DATA: &'static str = "data";

    fn new(metadata: ObjectMeta, data: BTreeMap<String, ByteString>) -> Secret {
        Secret { metadata, data: Some(data), ..Secret::default() }
    }

    fn data_mut(&mut self) -> &mut BTreeMap<String, ByteString> {
        self.data.get_or_insert_default()
    }

    fn set_immutable(&mut self) {
        self.immutable = Some(true);
    }
}
