//! Certificate authorities for tests, and the pairs that they sign.
//!
//! The door is [`Authority`]. Everything is made in memory and fresh; no key is ever read from the machine.

mod subject;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority with a key of its own.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
}

/// A certificate with its private key, both as PEM.
#[derive(Clone)]
pub struct Pair {
    pub certificate_pem: String,
    pub key_pem: String,
}

impl Authority {
    pub fn new(common_name: &str) -> Authority {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, common_name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("make a key");
        let certificate_pem = parameters.self_signed(&key).expect("sign the authority").pem();
        Authority { issuer: Issuer::new(parameters, key), certificate_pem }
    }

    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A server certificate for DNS names and IP addresses.
    pub fn server(&self, names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let common_name = names.first().cloned().unwrap_or_default();
        let mut parameters = CertificateParams::new(names).expect("names that a certificate can hold");
        parameters.distinguished_name.push(DnType::CommonName, common_name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let (certificate, key) = self.sign(parameters);
        Pair { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() }
    }

    /// A client certificate: to Kubernetes the common name is the user, the organizations are the groups.
    pub fn client(&self, common_name: &str, organizations: &[&str]) -> Pair {
        self.sign_client(CertificateParams::default(), common_name, organizations)
    }

    /// A client certificate that is valid in that time only, which may be over or yet to come.
    pub fn client_with(&self, common_name: &str, organizations: &[&str], validity: Range<SystemTime>) -> Pair {
        let mut parameters = CertificateParams::default();
        parameters.not_before = validity.start.into();
        parameters.not_after = validity.end.into();
        self.sign_client(parameters, common_name, organizations)
    }

    fn sign_client(&self, mut parameters: CertificateParams, common_name: &str, organizations: &[&str]) -> Pair {
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let (certificate, key) = self.sign(parameters);
        let certificate = subject::replace(certificate.der(), common_name, organizations, self.issuer.key());
        Pair { certificate_pem: subject::pem(&certificate), key_pem: key.serialize_pem() }
    }

    fn sign(&self, mut parameters: CertificateParams) -> (Certificate, KeyPair) {
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("make a key");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("sign a certificate");
        (certificate, key)
    }
}

impl Pair {
    /// Writes `<name>.crt` and `<name>.key`.
    pub fn write(&self, directory: &Path, name: &str) -> Result<()> {
        write(&directory.join(format!("{name}.crt")), &self.certificate_pem)?;
        write(&directory.join(format!("{name}.key")), &self.key_pem)
    }
}

/// Writes a file that only this user may read.
pub(crate) fn write(path: &Path, content: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(content.as_bytes()));
    written.with_context(|| format!("failed to write {}", path.display()))
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pair").finish_non_exhaustive()
    }
}
