//! Manifests and kubectl, and waiting for objects.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, Scope as KindScope};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;

use super::{Cluster, Kubeconfig};
use crate::eventually;

const LIMIT: Duration = Duration::from_mins(1);

impl Cluster {
    /// Applies manifests (server-side, one or many documents) as field manager `testbed`. What names no namespace goes
    /// to `default`. A CustomResourceDefinition is served when this returns.
    pub async fn apply(&self, yaml: &str) -> Vec<DynamicObject> {
        let client = self.client();
        let documents: Vec<Option<DynamicObject>> = serde_saphyr::from_multiple(yaml).expect("parse the manifests");
        let mut applied = Vec::new();
        for object in documents.into_iter().flatten() {
            applied.push(apply_one(&client, object).await);
        }
        applied
    }

    /// [`Cluster::apply`] of a file.
    pub async fn apply_file(&self, path: impl AsRef<Path>) -> Vec<DynamicObject> {
        let path = path.as_ref();
        let yaml = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
        self.apply(&yaml).await
    }

    /// Applies the kinds of Flux: sources, HelmReleases and Kustomizations. None of its controllers runs.
    pub async fn apply_flux_definitions(&self) {
        for module in ["source-controller", "helm-controller", "kustomize-controller"] {
            self.apply_file(crate::peers::definitions(module).expect("the definitions of Flux")).await;
        }
    }

    /// Runs the pinned kubectl as the administrator.
    pub async fn kubectl<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Output {
        self.run_kubectl(&self.admin_kubeconfig(), arguments).await
    }

    /// Runs the pinned kubectl as somebody else.
    pub async fn kubectl_as<I: IntoIterator<Item: AsRef<OsStr>>>(
        &self,
        kubeconfig: &Kubeconfig,
        arguments: I,
    ) -> Output {
        self.run_kubectl(&kubeconfig.write(), arguments).await
    }

    async fn run_kubectl<I: IntoIterator<Item: AsRef<OsStr>>>(&self, kubeconfig: &Path, arguments: I) -> Output {
        let program = crate::peer("kubectl").expect("the pinned kubectl");
        let mut command = tokio::process::Command::new(program);
        // HOME holds its discovery cache, which must not outlive the cluster.
        command.env("KUBECONFIG", kubeconfig).env("HOME", self.directory()).args(arguments).kill_on_drop(true);
        command.output().await.expect("run kubectl")
    }
}

/// Waits until the object exists and `accepts` it, and returns it.
pub async fn wait_for<K>(api: &Api<K>, name: &str, limit: Duration, accepts: impl Fn(&K) -> bool) -> K
where
    K: Clone + DeserializeOwned + Debug,
{
    let find = || async {
        match api.get_opt(name).await {
            Ok(Some(object)) if accepts(&object) => Ok(object),
            Ok(found) => Err(format!("{name} is {found:?}")),
            Err(error) => Err(format!("{name}: {error}")),
        }
    };
    eventually(limit, find).await
}

/// Waits until the object does not exist.
pub async fn wait_until_gone<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, name: &str, limit: Duration) {
    let look = || async {
        match api.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(object)) => Err(format!("{name} is still {object:?}")),
            Err(error) => Err(format!("{name}: {error}")),
        }
    };
    eventually(limit, look).await;
}

async fn apply_one(client: &Client, object: DynamicObject) -> DynamicObject {
    let name = object.name_any();
    let types = object.types.clone().unwrap_or_else(|| panic!("{name} has no apiVersion and kind"));
    let kind = GroupVersionKind::try_from(&types).expect("an apiVersion");
    let (resource, capabilities) = kube::discovery::pinned_kind(client, &kind)
        .await
        .unwrap_or_else(|error| panic!("the API server does not know {types:?}: {error}"));
    let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
    let api: Api<DynamicObject> = match capabilities.scope {
        KindScope::Cluster => Api::all_with(client.clone(), &resource),
        KindScope::Namespaced => Api::namespaced_with(client.clone(), &namespace, &resource),
    };
    let patch = PatchParams::apply("testbed").force();
    let applied = api.patch(&name, &patch, &Patch::Apply(&object)).await;
    let applied = applied.unwrap_or_else(|error| panic!("apply {} {name}: {error}", types.kind));
    if types.kind == "CustomResourceDefinition" {
        wait_until_served(client, &api, &name).await;
    }
    applied
}

/// `Established` comes a moment before the API server really serves the kind: a list in every version tells.
async fn wait_until_served(client: &Client, definitions: &Api<DynamicObject>, name: &str) {
    let definition = wait_for(definitions, name, LIMIT, is_established).await;
    let spec = &definition.data["spec"];
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    for version in spec["versions"].as_array().into_iter().flatten() {
        if version["served"] != true {
            continue;
        }
        let (group, version) = (text(&spec["group"]), text(&version["name"]));
        let kind = GroupVersionKind { group, version, kind: text(&spec["names"]["kind"]) };
        let resource = ApiResource::from_gvk_with_plural(&kind, &text(&spec["names"]["plural"]));
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        eventually(LIMIT, || async { objects.list(&ListParams::default().limit(1)).await }).await;
        eventually(LIMIT, || async { kube::discovery::pinned_kind(client, &kind).await }).await;
    }
}

fn is_established(definition: &DynamicObject) -> bool {
    let conditions = definition.data["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}
