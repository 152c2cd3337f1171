//! The hub of this server: what it stands on, and how it is asked.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use db::Db;
use hub::Hub;
use hub::graphql::QueryLimits;
use hub::guard::Limits;
use hub::http::Http;
use hub::types::Type;
use keys::{Key, Keyring, Sharing, key_file};

use crate::config::Secret;
use crate::config::settings::{self, Settings};

/// The name of the key that is made here, where none is given.
const OWN_KEY: &str = "hub";

/// Opens the hub, unless it is switched off or has no key that it could share.
pub(crate) async fn open(settings: &Settings, db: &Db, keyring: Keyring) -> Result<Option<Hub>> {
    let set = &settings.hub;
    if !set.enabled {
        return Ok(None);
    }
    let url = settings.database.url.as_ref().map(Secret::expose);
    let (keyring, encryption_key) = match &set.encryption_key {
        Some(key) => (keyring, key.clone()),
        None if url.is_some_and(|url| url.starts_with("postgres")) => {
            tracing::warn!(
                "there is no hub: the database may be shared, and hub.encryption_key names no key; set it, or hub.enabled: false"
            );
            return Ok(None);
        }
        None => (own_keyring(&settings.data_dir.join("hub.key")).await?, OWN_KEY.to_owned()),
    };
    let behaviour = hub::Settings { namespace: set.namespace.clone(), encryption_key, require_types: set.require_types };
    let hub = Hub::open(db.clone(), keyring, behaviour).await.context("failed to open the hub")?;
    if let Some(directory) = &set.types_dir {
        let types = types_below(directory)?;
        let count = types.len();
        hub.apply_types(types).await.context("hub.types_dir has a Type that cannot be applied")?;
        tracing::info!(count, "the Types of hub.types_dir are applied");
    }
    Ok(Some(hub))
}

/// The hub as callers meet it.
pub(crate) fn http(hub: Hub, set: &settings::Hub) -> Result<Http> {
    let settings = hub::http::Settings {
        graphql: hub::graphql::Settings {
            query: QueryLimits { depth: set.query_depth, fields: set.query_fields },
            answer_records: set.answer_records,
        },
        limits: Limits { list: set.list_records, batch: set.batch_records },
        body_bytes: usize::try_from(set.body_bytes).unwrap_or(usize::MAX),
    };
    Http::new(hub, settings).context("failed to read the hub's own schema")
}

/// A key file that is made when it is first needed.
async fn own_keyring(path: &Path) -> Result<Keyring> {
    if !path.exists() {
        let path = path.to_owned();
        tokio::task::spawn_blocking(move || key_file::create(&path)).await?.context("failed to make the key of the hub")?;
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
        let entries = std::fs::read_dir(&directory).with_context(|| format!("failed to list {}", directory.display()))?;
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
