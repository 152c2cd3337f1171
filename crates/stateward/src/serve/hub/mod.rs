//! The hub of this server: what it stands on, and how it is asked.

mod policy;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use backends::{Client, ClientTls, Code, Driver, Failure, Pem};
use db::Db;
use hub::graphql::QueryLimits;
use hub::guard::Limits;
use hub::http::Http;
use hub::types::Type;
use hub::{Connect, Encoding, Endpoint, Hub, Times};
use keys::{Key, Keyring, Sharing, key_file};
use tokio::sync::watch;

use crate::config::lists;
use crate::config::settings::{self, Settings};

/// The name of the key that is made here, where none is given.
const OWN_KEY: &str = "hub";

/// Opens the hub, unless it is switched off or has no key that it could share.
pub(crate) async fn open(settings: &Settings, db: &Db, keyring: Keyring) -> Result<Option<Hub>> {
    let set = &settings.hub;
    if !set.enabled {
        return Ok(None);
    }
    let (keyring, encryption_key) = match &set.encryption_key {
        Some(key) => (keyring, key.clone()),
        None if settings.database.url.is_some() => {
            tracing::warn!(
                "there is no hub: the database may be shared, and hub.encryption_key names no key; set it, or hub.enabled: false"
            );
            return Ok(None);
        }
        None => (own_keyring(&settings.data_dir.join("hub.key")).await?, OWN_KEY.to_owned()),
    };
    let mut behaviour = hub::Settings::new(&set.namespace, encryption_key);
    behaviour.require_types = set.require_types;
    behaviour.allowed_urls = lists::allowed_urls(settings)?;
    behaviour.policy = set.policy_file.as_deref().map_or(Ok(Vec::new()), policy::read)?;
    behaviour.times = Times::of_call(set.call_time);
    behaviour.times.read = set.read_time;
    behaviour.times.lock_question = set.lock_question_time;
    behaviour.times.changes = set.changes_age;
    behaviour.changes = set.changes_records;
    let wire = Arc::new(Wire { tls: tls(set) });
    let hub = Hub::open(db.clone(), keyring, behaviour, wire).await.context("failed to open the hub")?;
    // Nobody else has the database of a data directory: whoever began something before has ended.
    if settings.database.url.is_none() {
        let count = hub.inherit().await.context("failed to take over what was begun before")?;
        if count > 0 {
            tracing::info!(count, "what was begun with storage backends before the last end is settled");
        }
    }
    if let Some(directory) = &set.types_dir {
        let types = types_below(directory)?;
        let count = types.len();
        hub.apply_types(types).await.context("hub.types_dir has a Type that cannot be applied")?;
        tracing::info!(count, "the Types of hub.types_dir are applied");
    }
    Ok(Some(hub))
}

/// The hub as callers meet it.
pub(crate) fn http(hub: Hub, set: &settings::Hub, stop: watch::Receiver<bool>) -> Result<Http> {
    let settings = hub::http::Settings {
        graphql: hub::graphql::Settings {
            query: QueryLimits { depth: set.query_depth, fields: set.query_fields },
            answer_records: set.answer_records,
            answer_bytes: usize::try_from(set.answer_bytes).unwrap_or(usize::MAX),
        },
        limits: Limits { list: set.list_records, batch: set.batch_records },
        body_bytes: usize::try_from(set.body_bytes).unwrap_or(usize::MAX),
        followers: set.followers,
        stop,
    };
    Http::new(hub, settings).context("failed to read the hub's own schema")
}

/// Calls storage backends over gRPC.
#[derive(Debug)]
struct Wire {
    tls: Option<ClientTls>,
}

impl Connect for Wire {
    fn connect(&self, endpoint: &Endpoint) -> std::result::Result<Arc<dyn Driver>, Failure> {
        let mut calls = backends::Endpoint::new(&endpoint.url, endpoint.mode);
        // A socket of this machine takes no TLS.
        calls.tls = self.tls.clone().filter(|_| !endpoint.url.starts_with("unix:"));
        calls.encoding = match endpoint.encoding {
            Encoding::Json => backends::Encoding::Strict,
            Encoding::Legacy => backends::Encoding::Legacy,
        };
        let client = Client::new(&calls).map_err(|error| Failure::new(Code::Unavailable, error.to_string()))?;
        Ok(Arc::new(client))
    }
}

fn tls(set: &settings::Hub) -> Option<ClientTls> {
    let identity = set.backend_cert_file.clone().zip(set.backend_key_file.clone());
    let authorities = set.backend_ca_file.clone();
    let given = identity.is_some() || authorities.is_some();
    given.then(|| ClientTls {
        authorities: authorities.map(Pem::File),
        identity: identity.map(|(certificate, key)| (Pem::File(certificate), Pem::File(key))),
        server_name: None,
    })
}

/// A key file that is made when it is first needed.
async fn own_keyring(path: &Path) -> Result<Keyring> {
    if !path.exists() {
        let path = path.to_owned();
        tokio::task::spawn_blocking(move || key_file::create(&path))
            .await?
            .context("failed to make the key of the hub")?;
    }
    let key = Key::file(path, Sharing::Private);
    Ok(Keyring::new([(OWN_KEY.to_owned(), key)], keys::Settings::default())?)
}

/// The Types in the manifests below a directory, those of other kinds left out.
fn types_below(directory: &Path) -> Result<Vec<Type>> {
    let mut types = Vec::new();
    for file in manifests_below(directory)? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
        if kind_of(&text).is_none_or(|kind| kind == "Type") {
            types.push(Type::parse(&text).with_context(|| format!("hub.types_dir: {}", file.display()))?);
        }
    }
    Ok(types)
}

fn kind_of(text: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Manifest {
        kind: String,
    }
    serde_saphyr::from_str(text).ok().map(|manifest: Manifest| manifest.kind)
}

/// In the order of their paths, so that every start does the same.
fn manifests_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let entries =
            std::fs::read_dir(&directory).with_context(|| format!("failed to list {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            let is_manifest = path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
            if path.is_dir() {
                open.push(path);
            } else if is_manifest {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
