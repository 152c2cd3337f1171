//! The bucket of this server, if it has one: opened, tried and watched.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use states::store::{AccessKey, Addressing, Identity, S3Settings, S3Store, Transport};

use super::aws;
use super::ready::Readiness;
use crate::config::{Environment, S3, S3Identity};

/// The store s3, if a bucket is set. A bucket that cannot keep states safe keeps the server from starting.
pub(crate) async fn open(settings: &S3, environment: &Environment, ready: &Readiness) -> Result<Option<Arc<S3Store>>> {
    let Some(bucket) = &settings.bucket else { return Ok(None) };
    let read =
        |path: &Path| std::fs::read(path).with_context(|| format!("failed to read s3.ca_file, {}", path.display()));
    let authorities = settings.ca_file.as_deref().map(read).transpose()?;
    let identity = match settings.identity {
        S3Identity::Keys => keys(settings)?,
        S3Identity::Aws => aws::identity(environment)?,
    };
    let settings = S3Settings {
        bucket: bucket.clone(),
        prefix: settings.prefix.clone().unwrap_or_default(),
        endpoint: settings.endpoint.clone(),
        region: settings.region.clone(),
        addressing: if settings.path_style { Addressing::Path } else { Addressing::Host },
        identity,
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

/// The keys of the settings; the file is read again, because the one of a Secret changes while the server runs.
fn keys(settings: &S3) -> Result<Identity> {
    let id = settings.access_key_id.clone().context("s3.bucket has no access key: set s3.access_key_id")?;
    match (&settings.secret_access_key, &settings.secret_access_key_file) {
        (Some(secret), _) => Ok(Identity::keys(&id, secret.expose())),
        (None, Some(path)) => {
            let path = path.clone();
            let ask = move || {
                let secret = std::fs::read_to_string(&path);
                let secret = secret.map_err(|error| format!("failed to read s3.secret_access_key_file: {error}"))?;
                Ok(AccessKey { id: id.clone(), secret: secret.trim().to_owned().into(), session_token: None })
            };
            // A file that cannot be read keeps the server from starting, with its name.
            ask().map_err(anyhow::Error::msg)?;
            Ok(Identity::Keys(Arc::new(ask)))
        }
        (None, None) => anyhow::bail!("s3.bucket has no access key: set s3.secret_access_key_file"),
    }
}
