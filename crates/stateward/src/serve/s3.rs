//! The bucket of this server, if it has one: opened, tried and watched.

use std::sync::Arc;

use anyhow::{Context, Result};
use states::store::{Addressing, S3Settings, S3Store, Transport};

use super::ready::Readiness;
use crate::config::{S3, Secret};

/// The store s3, if a bucket is set. A bucket that cannot keep states safe keeps the server from starting.
pub(crate) async fn open(settings: &S3, ready: &Readiness) -> Result<Option<Arc<S3Store>>> {
    let Some(bucket) = &settings.bucket else { return Ok(None) };
    let read = |key: &str, path: &std::path::Path| {
        std::fs::read(path).with_context(|| format!("failed to read {key}, {}", path.display()))
    };
    let secret = match (&settings.secret_access_key, &settings.secret_access_key_file) {
        (Some(secret), _) => secret.clone(),
        (None, Some(path)) => {
            let text = String::from_utf8(read("s3.secret_access_key_file", path)?);
            let text = text.map_err(|_| anyhow::anyhow!("s3.secret_access_key_file does not hold text"))?;
            Secret::new(text.trim())
        }
        (None, None) => anyhow::bail!("s3.bucket has no access key: set s3.secret_access_key_file"),
    };
    let authorities = settings.ca_file.as_deref().map(|path| read("s3.ca_file", path)).transpose()?;
    let settings = S3Settings {
        bucket: bucket.clone(),
        prefix: settings.prefix.clone().unwrap_or_default(),
        endpoint: settings.endpoint.clone(),
        region: settings.region.clone(),
        addressing: if settings.path_style { Addressing::Path } else { Addressing::Host },
        access_key_id: settings.access_key_id.clone().context("s3.bucket has no access key: set s3.access_key_id")?,
        secret_access_key: secret.expose().to_owned().into(),
        authorities,
        transport: if settings.allow_http { Transport::PlainToo } else { Transport::TlsOnly },
        deadline: settings.deadline,
    };
    let store = Arc::new(S3Store::open(&settings).await?);
    let asked = store.clone();
    ready.add("s3", move || {
        let store = asked.clone();
        async move { store.reachable().await.map_err(|error| error.to_string()) }
    });
    Ok(Some(store))
}
