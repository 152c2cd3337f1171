//! The authorities whose certificates count: from files, and from the cluster; looked up again while serving.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use access::{Authorities, AuthorityError, ClientAuthority, FrontProxy, Gate, HeaderNames, Trust, cluster_authorities};
use anyhow::{Context, Result};
use http::HeaderName;

use super::cluster::Cluster;
use super::tls::ClientCertificates;
use crate::config::Settings;

const EVERY: Duration = Duration::from_secs(10);

/// Where the authorities come from.
#[derive(Clone)]
pub(crate) struct AuthoritySource {
    settings: Settings,
    cluster: Option<Cluster>,
    lookup: Lookup,
    found: Arc<Mutex<Found>>,
}

/// What the cluster said when it last answered, and why it does not now.
#[derive(Default)]
struct Found {
    authorities: Authorities,
    fault: Option<String>,
}

/// What the cluster's authorities are to those in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    Added,
    /// They count only where no file is given, as in Kubernetes.
    InPlaceOfMissing,
}

impl AuthoritySource {
    pub(crate) fn new(settings: &Settings, cluster: Option<&Cluster>) -> AuthoritySource {
        let cluster = cluster.filter(|_| settings.access.lookup_cluster_ca).cloned();
        AuthoritySource { settings: settings.clone(), cluster, lookup: Lookup::Added, found: Arc::default() }
    }

    /// Asks the cluster only for what no file gives.
    #[must_use]
    pub(crate) fn for_missing_only(mut self) -> AuthoritySource {
        let nothing = self.settings.tls.client_ca_file.is_some() && self.settings.front_proxy.ca_file.is_some();
        self.cluster = self.cluster.filter(|_| !nothing);
        self.lookup = Lookup::InPlaceOfMissing;
        self
    }

    /// Asked when some authority could count.
    pub(crate) fn client_certificates(&self) -> ClientCertificates {
        let files = self.settings.tls.client_ca_file.is_some() || self.settings.front_proxy.ca_file.is_some();
        if files || self.cluster.is_some() { ClientCertificates::Asked } else { ClientCertificates::NotAsked }
    }

    /// The authorities as they are now. A cluster that cannot be asked counts as it last answered, and is asked again: its
    /// tokens are refused meanwhile all the same, and what a file says must not wait behind it.
    pub(crate) async fn load(&self) -> Result<Authorities> {
        let authorities = self.in_files()?;
        if let Err(error) = self.look_up().await {
            let fault = error.to_string();
            let before = self.found().fault.replace(fault.clone());
            if before != Some(fault) {
                let error = format!("{:#}", anyhow::Error::from(error));
                tracing::warn!(
                    error,
                    "client certificates of the cluster count as last seen, newer ones do not count until this is mended"
                );
            }
        }
        Ok(self.joined(authorities))
    }

    /// The same for those to whom a cluster that cannot be asked is a failure.
    pub(crate) async fn load_or_fail(&self) -> Result<Authorities> {
        let authorities = self.in_files()?;
        self.look_up().await?;
        Ok(self.joined(authorities))
    }

    /// Asks the cluster, if there is one, and remembers the answer.
    async fn look_up(&self) -> Result<(), AuthorityError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let authorities = cluster_authorities(cluster.client(), self.settings.access.review_deadline).await?;
        let before = std::mem::replace(&mut *self.found(), Found { authorities, fault: None });
        if before.fault.is_some() {
            tracing::info!("the cluster tells its authorities again");
        }
        Ok(())
    }

    fn joined(&self, mut authorities: Authorities) -> Authorities {
        let found = self.found().authorities.clone();
        let counts = |in_files: bool| self.lookup == Lookup::Added || !in_files;
        if counts(self.settings.tls.client_ca_file.is_some()) {
            authorities.clients.extend(found.clients);
        }
        if counts(self.settings.front_proxy.ca_file.is_some()) {
            authorities.front_proxies.extend(found.front_proxies);
        }
        authorities
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks again for ever; files that cannot be used leave the last good set.
    pub(crate) async fn follow(self, gate: Gate) {
        let mut fault: Option<String> = None;
        loop {
            tokio::time::sleep(EVERY).await;
            let loaded = self.load().await;
            let taken = loaded.and_then(|authorities| Ok(gate.set_authorities(authorities)?));
            let now = taken.err().map(|error| format!("{error:#}"));
            if let Some(error) = now.as_ref().filter(|now| fault.as_ref() != Some(*now)) {
                tracing::warn!(error, "kept the last authorities");
            }
            fault = now;
        }
    }

    fn in_files(&self) -> Result<Authorities> {
        let mut authorities = Authorities::default();
        let tls = &self.settings.tls;
        if let Some(file) = &tls.client_ca_file {
            authorities.clients.push(authority("tls.client_ca_file", file, tls.client_ca_trusted)?);
        }
        let proxy = &self.settings.front_proxy;
        if let Some(file) = &proxy.ca_file {
            authorities.front_proxies.push(FrontProxy {
                authority: authority("front_proxy.ca_file", file, proxy.trusted)?,
                allowed_names: proxy.allowed_names.clone(),
                headers: HeaderNames {
                    user: headers("front_proxy.user_headers", &proxy.user_headers)?,
                    uid: headers("front_proxy.uid_headers", &proxy.uid_headers)?,
                    group: headers("front_proxy.group_headers", &proxy.group_headers)?,
                    extra_prefix: headers("front_proxy.extra_prefixes", &proxy.extra_prefixes)?,
                },
            });
        }
        Ok(authorities)
    }
}

fn authority(field: &str, file: &Path, trusted: bool) -> Result<ClientAuthority> {
    let pem = std::fs::read(file).with_context(|| format!("failed to read {field} {}", file.display()))?;
    let trust = if trusted { Trust::System } else { Trust::Ordinary };
    Ok(ClientAuthority::from_pem(field, &pem, trust)?)
}

fn headers(field: &str, names: &[String]) -> Result<Vec<HeaderName>> {
    let parsed = names.iter().map(|name| name.parse()).collect::<Result<_, _>>();
    parsed.with_context(|| format!("{field} has a name that no header can have"))
}
