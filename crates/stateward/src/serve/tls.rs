//! TLS of the server: certificates that are reloaded while connections go on, pairs by server name, and client
//! certificates that are proved here but judged by the gate.

mod client;
mod reload;
pub(crate) mod self_signed;
pub(crate) mod suites;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};

use crate::config::Settings;
use crate::config::settings::TlsVersion;

pub(crate) use reload::Certificates;

/// A certificate chain and its key on disk.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) cert_file: PathBuf,
    pub(crate) key_file: PathBuf,
    /// Server names that this pair is for; empty: those in the certificate.
    pub(crate) names: Vec<String>,
}

/// Whether callers are asked for a certificate: only where some authority could count, since browsers then ask people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    Asked,
    NotAsked,
}

/// The TLS side of the main listener; `None` when it speaks plain HTTP (loopback only).
pub(crate) fn configure(
    settings: &Settings,
    clients: ClientCertificates,
) -> Result<Option<(Arc<ServerConfig>, Certificates)>> {
    let tls = &settings.tls;
    let default = match (&tls.cert_file, &tls.key_file) {
        (Some(cert), Some(key)) => Some(Pair { cert_file: cert.clone(), key_file: key.clone(), names: Vec::new() }),
        (None, None) if tls.self_signed => Some(self_signed::ensure(settings)?),
        (None, None) => None,
        _ => bail!("tls.cert_file and tls.key_file go together: set both or none"),
    };
    let Some(default) = default else {
        if !tls.sni.is_empty() {
            bail!("tls.sni needs a default certificate: set tls.cert_file and tls.key_file too");
        }
        if !settings.listen.ip().is_loopback() {
            bail!(
                "listen is {}, which others can reach, and there is no TLS: set tls.cert_file and tls.key_file, or \
                 tls.self_signed, or listen on 127.0.0.1",
                settings.listen
            );
        }
        return Ok(None);
    };
    let pairs = tls.sni.iter().map(|pair| Pair {
        cert_file: pair.cert_file.clone(),
        key_file: pair.key_file.clone(),
        names: pair.names.clone(),
    });
    let wanted = Wanted { default, by_name: pairs.collect(), min_version: tls.min_version, provider: provider() };
    wanted.configure(clients).map(Some)
}

/// What a listener with TLS shows and accepts.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) default: Pair,
    pub(crate) by_name: Vec<Pair>,
    pub(crate) min_version: TlsVersion,
    /// With the cipher suites that count.
    pub(crate) provider: Arc<CryptoProvider>,
}

impl Wanted {
    pub(crate) fn configure(self, clients: ClientCertificates) -> Result<(Arc<ServerConfig>, Certificates)> {
        let certificates = Certificates::load(self.default, self.by_name)?;
        let versions: &[_] = match self.min_version {
            TlsVersion::Tls12 => &[&TLS13, &TLS12],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(self.provider);
        let builder = builder.with_protocol_versions(versions).context("failed to choose TLS versions")?;
        let builder = match clients {
            ClientCertificates::Asked => {
                builder.with_client_cert_verifier(Arc::new(client::AnyCertificate::new(&provider())))
            }
            ClientCertificates::NotAsked => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(certificates.resolver());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok((Arc::new(config), certificates))
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
