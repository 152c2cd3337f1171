//! A ConfigMap as tf-kubernetes-configmap-backend keeps it: plain or gzip, locked by annotations.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::cluster::failure;
use super::gunzip::unpacked;
use super::side::{Doing, Locking, Side, Source, id, whole};
use crate::cli::failure::{Exit, Failure};
use crate::client::holder;
use crate::client::transfer::Pieces;

const PREFIX: &str = "tf-kubernetes-configmap-backend.jimmidyson.github.com/lock-";
/// The annotations of a lock, and where in a LockInfo their values are.
const FIELDS: [(&str, &str); 4] = [("id", "ID"), ("operation", "Operation"), ("info", "Info"), ("who", "Who")];

pub struct ConfigMapSide {
    maps: Api<ConfigMap>,
    namespace: String,
    name: String,
}

impl ConfigMapSide {
    pub fn new(client: Client, namespace: &str, name: &str) -> ConfigMapSide {
        let maps = Api::namespaced(client, namespace);
        ConfigMapSide { maps, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    async fn get(&self, doing: &str) -> Result<ConfigMap, Failure> {
        self.maps.get(&self.name).await.map_err(|error| failure(doing, &self.place(), &error))
    }
}

/// The lock of a ConfigMap, as a LockInfo.
fn lock_of(map: &ConfigMap) -> Option<Value> {
    let annotations = map.metadata.annotations.as_ref()?;
    annotations.get(&format!("{PREFIX}id"))?;
    let mut info = json!({});
    for (annotation, field) in FIELDS {
        info[field] = json!(annotations.get(&format!("{PREFIX}{annotation}")).map_or("", String::as_str));
    }
    Some(info)
}

impl Side for ConfigMapSide {
    fn place(&self) -> String {
        format!("configmap://{}/{}", self.namespace, self.name)
    }

    fn lock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, Locking> {
        Box::pin(async {
            let mut map = self.get("lock").await?;
            if let Some(held) = lock_of(&map) {
                if held["ID"] == info["ID"] {
                    return Ok(Locking::Locked);
                }
                let said = holder(held.to_string().as_bytes()).unwrap_or_else(|| "locked".to_owned());
                return Err(
                    Failure::new(Exit::Locked, format!("{} is {said}", self.place()), "wait for its holder").into()
                );
            }
            let annotations = map.metadata.annotations.get_or_insert_default();
            for (annotation, field) in FIELDS {
                annotations
                    .insert(format!("{PREFIX}{annotation}"), info[field].as_str().unwrap_or_default().to_owned());
            }
            // With the resourceVersion that was read: who was faster has the lock.
            let written = self.maps.replace(&self.name, &PostParams::default(), &map).await;
            written.map_err(|error| failure("lock", &self.place(), &error))?;
            Ok(Locking::Locked)
        })
    }

    fn unlock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, ()> {
        Box::pin(async {
            let mut map = self.get("unlock").await?;
            if lock_of(&map).is_none_or(|held| held["ID"].as_str() != Some(id(info))) {
                return Ok(());
            }
            let annotations = map.metadata.annotations.get_or_insert_default();
            annotations.retain(|name, _| !name.starts_with(PREFIX));
            let written = self.maps.replace(&self.name, &PostParams::default(), &map).await;
            written.map_err(|error| failure("unlock", &self.place(), &error))?;
            Ok(())
        })
    }
}

impl Source for ConfigMapSide {
    fn open(&mut self) -> Doing<'_, Pieces> {
        Box::pin(async {
            let bytes = self.get("read").await?.binary_data.and_then(|mut data| data.remove("tfstate"));
            let bytes = bytes.ok_or_else(|| {
                let message = format!("the ConfigMap {} holds no state", self.place());
                Failure::new(Exit::NotFound, message, "check the namespace and the name")
            })?;
            Ok(unpacked(&self.place(), whole(bytes.0.into())))
        })
    }
}
