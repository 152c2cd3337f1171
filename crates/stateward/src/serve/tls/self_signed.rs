//! A certificate of our own, made on demand and kept in the data directory: for a start without a CA at hand.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::Pair;
use crate::config::Settings;
use crate::serve::data_dir::write_private;

const LIFE: Duration = Duration::from_secs(397 * 24 * 3600);
/// Made anew at a start within this time of its end.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The self-signed pair in the data directory; made when it is missing, about to end or for other names.
pub(super) fn ensure(settings: &Settings) -> Result<Pair> {
    let directory = settings.data_dir.join("tls");
    fs::create_dir_all(&directory).with_context(|| format!("failed to create {}", directory.display()))?;
    let cert_file = directory.join("self-signed.crt");
    let key_file = directory.join("self-signed.key");
    let names = names(settings);
    if !key_file.exists() || !is_good(&cert_file, &names) {
        let mut params = CertificateParams::new(names).context("tls.self_signed_names has an impossible name")?;
        params.distinguished_name.push(DnType::CommonName, "stateward (self-signed)");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let now = std::time::SystemTime::now();
        params.not_before = (now - Duration::from_secs(300)).into();
        params.not_after = (now + LIFE).into();
        let key = KeyPair::generate().context("failed to generate a key")?;
        let certificate = params.self_signed(&key).context("failed to sign the certificate")?;
        // The certificate last: it is what the next start looks at.
        write_private(&key_file, key.serialize_pem().as_bytes())?;
        write_private(&cert_file, certificate.pem().as_bytes())?;
        tracing::info!(file = %cert_file.display(), "made a self-signed certificate");
    }
    Ok(Pair { cert_file, key_file, names: Vec::new() })
}

fn names(settings: &Settings) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !settings.listen.ip().is_unspecified() {
        names.push(settings.listen.ip().to_string());
    }
    names.extend(settings.tls.self_signed_names.iter().cloned());
    names.sort();
    names.dedup();
    names
}

fn is_good(file: &Path, wanted: &[String]) -> bool {
    let Some(certificate) = CertificateDer::from_pem_file(file).ok() else { return false };
    let Ok((_, parsed)) = X509Certificate::from_der(&certificate) else { return false };
    let left = parsed.validity().time_to_expiration();
    let Ok(Some(present)) = parsed.subject_alternative_name() else { return false };
    let mut present: Vec<String> = present.value.general_names.iter().filter_map(name_of).collect();
    present.sort();
    left.is_some_and(|left| left.whole_seconds().unsigned_abs() > RENEW_BEFORE.as_secs()) && present == wanted
}

fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()),
        },
        _ => None,
    }
}
