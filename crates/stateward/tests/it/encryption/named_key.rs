//! A key of each kind, which can be rotated, lose its oldest version, and be exchanged for another.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::process::scratch;
use testbed::{Cluster, Vault};

use crate::places::Beside;
use crate::run::{Run, stateward};
use crate::server::Start;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Secret,
    Transit,
}

/// Its name is always `main`.
#[derive(Clone)]
pub(crate) enum NamedKey {
    File(PathBuf),
    Secret { namespace: String },
    Transit { vault: Vault, mount: String, token_file: PathBuf },
}

impl NamedKey {
    pub(crate) async fn new(kind: Kind) -> NamedKey {
        match kind {
            Kind::File => {
                let file = scratch("key").unwrap().join("main.key");
                key_command("new", &file);
                NamedKey::File(file)
            }
            Kind::Secret => {
                let namespace = Cluster::shared().await.namespace("keys").await;
                let metadata = ObjectMeta { name: Some("main-key".to_owned()), ..ObjectMeta::default() };
                let secret = Secret { metadata, ..Secret::default() };
                secrets(&namespace).await.create(&PostParams::default(), &secret).await.expect("a Secret");
                let key = NamedKey::Secret { namespace };
                key.change_secret(json!({ "stringData": { "v1": random() } })).await;
                key
            }
            Kind::Transit => NamedKey::in_vault(Vault::shared().await.expect("Vault")).await,
        }
    }

    pub(crate) async fn in_vault(vault: &Vault) -> NamedKey {
        let mount = format!("transit-{:016x}", fastrand::u64(..));
        vault.enable_transit(&mount).await.expect("a transit engine");
        vault.transit_key(&mount, "main-key", json!({})).await.expect("a key");
        let line = |verb: &str| format!("path \"{mount}/{verb}/main-key\" {{ capabilities = [\"update\"] }}\n");
        vault.policy(&mount, &(line("encrypt") + &line("decrypt"))).await.expect("a policy");
        let token_file = scratch("token").unwrap().join("token");
        fs::write(&token_file, vault.token(&[&mount]).await.expect("a token")).unwrap();
        NamedKey::Transit { vault: vault.clone(), mount, token_file }
    }

    /// What a server needs for this key.
    pub(crate) fn beside(&self) -> Beside {
        if matches!(self, NamedKey::Secret { .. }) { Beside::Cluster } else { Beside::Nothing }
    }

    /// Tells a server to seal with this key, to look after its wrappings often, and to talk.
    pub(crate) fn settings(&self) -> impl Fn(Start) -> Start + use<> {
        let key = self.clone();
        move |start| {
            let start = start
                .flag("--states-encryption-key", "main")
                .flag("--states-sweep-every", "1s")
                .flag("--keys-cache-ttl", "250ms")
                .flag("--log-level", "info,stateward=debug,states=debug,keys=debug");
            match &key {
                NamedKey::File(file) => start.flag("--keys-files", format!("main={}", file.display())),
                NamedKey::Secret { namespace } => start.flag("--keys-secrets", format!("main={namespace}/main-key")),
                NamedKey::Transit { vault, mount, token_file } => start
                    .flag("--keys-transit", format!("main={mount}/main-key"))
                    .flag("--keys-vault-address", vault.url())
                    .flag("--keys-vault-token-file", token_file)
                    .flag("--keys-vault-deadline", "3s"),
            }
        }
    }

    /// As docs/keys.md says.
    pub(crate) async fn rotate(&self) {
        match self {
            NamedKey::File(file) => key_command("rotate", file),
            NamedKey::Secret { .. } => self.change_secret(json!({ "stringData": { "v2": random() } })).await,
            NamedKey::Transit { .. } => self.change_transit("/rotate", json!({})).await,
        }
    }

    /// Takes the version away that was there first.
    pub(crate) async fn remove_oldest(&self) {
        match self {
            NamedKey::File(file) => {
                let text = fs::read_to_string(file).unwrap();
                let newest = text.lines().last().expect("a version");
                assert!(text.len() > newest.len() + 1, "there was one before it");
                fs::write(file, format!("{newest}\n")).unwrap();
            }
            NamedKey::Secret { .. } => self.change_secret(json!({ "data": { "v1": null } })).await,
            NamedKey::Transit { .. } => self.change_transit("/config", json!({ "min_decryption_version": 2 })).await,
        }
    }

    /// Another key under the same name and version.
    pub(crate) async fn replace(&self) {
        match self {
            NamedKey::File(file) => {
                let text = fs::read_to_string(file).unwrap();
                let version = text.lines().last().and_then(|line| line.split(' ').next()).expect("a version");
                fs::write(file, format!("{version} {}\n", random())).unwrap();
            }
            NamedKey::Secret { .. } => self.change_secret(json!({ "stringData": { "v1": random() } })).await,
            NamedKey::Transit { vault, mount, .. } => {
                self.change_transit("/config", json!({ "deletion_allowed": true })).await;
                let path = format!("{mount}/keys/main-key");
                vault.ask(reqwest::Method::DELETE, &path, None).await.expect("deleted");
                vault.transit_key(mount, "main-key", json!({})).await.expect("another key");
            }
        }
    }

    async fn change_secret(&self, patch: Value) {
        let NamedKey::Secret { namespace } = self else { unreachable!("a key in a Secret") };
        let parameters = PatchParams::default();
        secrets(namespace).await.patch("main-key", &parameters, &Patch::Merge(patch)).await.expect("a Secret");
    }

    async fn change_transit(&self, what: &str, body: Value) {
        let NamedKey::Transit { vault, mount, .. } = self else { unreachable!("a key in a transit engine") };
        vault.write(&format!("{mount}/keys/main-key{what}"), body).await.expect("a change of the key");
    }
}

fn key_command(what: &str, file: &std::path::Path) {
    let run = Run::of(stateward(&["key", what]).arg(file));
    assert_eq!(run.code, Some(0), "{run:#?}");
}

async fn secrets(namespace: &str) -> Api<Secret> {
    Api::namespaced(Cluster::shared().await.client(), namespace)
}

fn random() -> String {
    BASE64_STANDARD.encode(std::array::from_fn::<u8, 32, _>(|_| fastrand::u8(..)))
}
