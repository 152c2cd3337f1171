//! A certificate of our own, made on demand and kept: for a start without a CA at hand.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::Pair;
use crate::config::Settings;
use crate::serve::data_dir::write_private;

const COMMON_NAME: &str = "stateward (self-signed)";
const LIFE: Duration = Duration::from_secs(397 * 24 * 3600);
/// Made anew at a start within this time of its end.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The self-signed pair in the data directory; made when it is missing, about to end or for other names.
pub(super) fn ensure(settings: &Settings) -> Result<Pair> {
    let pair = pair(&settings.data_dir.join("tls"), "self-signed")?;
    let names = names(Some(settings.listen.ip()), &settings.tls.self_signed_names);
    if !pair.key_file.exists() || !is_good(&pair.cert_file, &names) {
        make(&pair, names)?;
    }
    Ok(pair)
}

/// The pair of this name in a directory, whoever put it there; a self-signed one is made where there is none, and in
/// place of one that we made and that is about to end.
pub(crate) fn in_directory(directory: &Path, name: &str, address: Option<IpAddr>) -> Result<Pair> {
    let pair = pair(directory, name)?;
    match (pair.cert_file.exists(), pair.key_file.exists()) {
        (false, false) => make(&pair, names(address, &[]))?,
        (true, true) if is_ours_and_old(&pair.cert_file) => make(&pair, names(address, &[]))?,
        (true, true) => {}
        _ => bail!("{} has only one of {name}.crt and {name}.key: add the other, or remove it", directory.display()),
    }
    Ok(pair)
}

fn pair(directory: &Path, name: &str) -> Result<Pair> {
    fs::create_dir_all(directory).with_context(|| format!("failed to create {}", directory.display()))?;
    let file = |ending: &str| directory.join(format!("{name}.{ending}"));
    Ok(Pair { cert_file: file("crt"), key_file: file("key"), names: Vec::new() })
}

fn make(pair: &Pair, names: Vec<String>) -> Result<()> {
    let mut params = CertificateParams::new(names).context("tls.self_signed_names has an impossible name")?;
    params.distinguished_name.push(DnType::CommonName, COMMON_NAME);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = std::time::SystemTime::now();
    params.not_before = (now - Duration::from_secs(300)).into();
    params.not_after = (now + LIFE).into();
    let key = KeyPair::generate().context("failed to generate a key")?;
    let certificate = params.self_signed(&key).context("failed to sign the certificate")?;
    // The certificate last: it is what the next start looks at.
    write_private(&pair.key_file, key.serialize_pem().as_bytes())?;
    write_private(&pair.cert_file, certificate.pem().as_bytes())?;
    tracing::info!(file = %pair.cert_file.display(), "made a self-signed certificate");
    Ok(())
}

fn names(address: Option<IpAddr>, more: &[String]) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    names.extend(address.filter(|address| !address.is_unspecified()).map(|address| address.to_string()));
    names.extend(more.iter().cloned());
    names.sort();
    names.dedup();
    names
}

fn is_ours_and_old(file: &Path) -> bool {
    let Some(certificate) = CertificateDer::from_pem_file(file).ok() else { return false };
    let Ok((_, parsed)) = X509Certificate::from_der(&certificate) else { return false };
    let ours = parsed.subject().iter_common_name().any(|name| name.as_str() == Ok(COMMON_NAME));
    ours && !is_fresh(&parsed)
}

fn is_fresh(certificate: &X509Certificate<'_>) -> bool {
    let left = certificate.validity().time_to_expiration();
    left.is_some_and(|left| left.whole_seconds().unsigned_abs() > RENEW_BEFORE.as_secs())
}

fn is_good(file: &Path, wanted: &[String]) -> bool {
    let Some(certificate) = CertificateDer::from_pem_file(file).ok() else { return false };
    let Ok((_, parsed)) = X509Certificate::from_der(&certificate) else { return false };
    let Ok(Some(present)) = parsed.subject_alternative_name() else { return false };
    let mut present: Vec<String> = present.value.general_names.iter().filter_map(name_of).collect();
    present.sort();
    is_fresh(&parsed) && present == wanted
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
