//! Client certificates: which authorities count, and who a certificate says its holder is (CN = user, O = groups).
//!
//! The TLS layer lets any certificate through and proves only that the peer has its key; here it is decided whether
//! an authority that counts has signed it. A certificate of nobody's is as if there were none.

use std::collections::HashSet;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::front_proxy::{FrontProxy, Said};
use crate::identity::{Identity, Source};

/// The chain that a peer presented, its own certificate first; empty when it presented none.
pub type Certificates = Arc<[CertificateDer<'static>]>;

/// Whether certificates of an authority may speak of `system:` users and groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The cluster's own authority, or one that the operator marked.
    System,
    /// Any other: `system:` names in its certificates are dropped.
    Ordinary,
}

/// A set of CA certificates whose client certificates count.
#[derive(Clone, Debug)]
pub struct ClientAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Key and subject of each CA certificate: the same authority, also when its certificate was renewed.
    fingerprints: HashSet<Vec<u8>>,
    trust: Trust,
}

/// Every authority that counts for this server.
#[derive(Clone, Debug, Default)]
pub struct Authorities {
    pub clients: Vec<ClientAuthority>,
    pub front_proxies: Vec<FrontProxy>,
}

#[derive(Debug, Error)]
pub enum AuthorityError {
    #[error("{field} holds no usable PEM certificate")]
    Pem { field: String },
    #[error("{field} holds a certificate that cannot be an authority")]
    Authority { field: String },
    #[error(
        "the client CA and the front-proxy CA overlap while no front-proxy names are allowed: any client could then \
         pose as anybody; set front_proxy.allowed_names or use a CA of its own for the front proxy"
    )]
    Overlap,
    #[error("failed to look up the cluster's authorities")]
    Lookup(#[from] Box<kube::Error>),
    #[error("the cluster's extension-apiserver-authentication has a damaged field '{field}'")]
    Damaged { field: &'static str },
}

impl ClientAuthority {
    /// Reads CA certificates in PEM; `field` names where they came from, for errors.
    pub fn from_pem(field: &str, pem: &[u8], trust: Trust) -> Result<ClientAuthority, AuthorityError> {
        let unusable = || AuthorityError::Pem { field: field.to_owned() };
        let certificates: Vec<_> =
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| unusable())?;
        if certificates.is_empty() {
            return Err(unusable());
        }
        let not_an_authority = || AuthorityError::Authority { field: field.to_owned() };
        let mut roots = RootCertStore::empty();
        let mut fingerprints = HashSet::new();
        for certificate in certificates {
            let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|_| unusable())?;
            fingerprints.insert(fingerprint(&parsed));
            roots.add(certificate).map_err(|_| not_an_authority())?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        Ok(ClientAuthority { verifier: verifier.map_err(|_| not_an_authority())?, fingerprints, trust })
    }

    pub(crate) fn overlaps(&self, other: &ClientAuthority) -> bool {
        !self.fingerprints.is_disjoint(&other.fingerprints)
    }

    /// Whether this is a certificate of this authority itself, by whomever it is signed.
    pub(crate) fn owns(&self, certificate: &CertificateDer<'_>) -> bool {
        X509Certificate::from_der(certificate)
            .is_ok_and(|(_, parsed)| self.fingerprints.contains(&fingerprint(&parsed)))
    }

    pub(crate) fn trust(&self) -> Trust {
        self.trust
    }

    /// Whether this authority signed the chain, for client authentication, and it is in its time.
    pub(crate) fn signed(&self, chain: &[CertificateDer<'static>]) -> bool {
        chain.split_first().is_some_and(|(leaf, intermediates)| {
            self.verifier.verify_client_cert(leaf, intermediates, UnixTime::now()).is_ok()
        })
    }
}

impl Authorities {
    /// Refuses a set in which a plain client could pose as a front proxy.
    pub fn check(&self) -> Result<(), AuthorityError> {
        let open = self.front_proxies.iter().filter(|proxy| proxy.allowed_names.is_empty());
        for proxy in open {
            if self.clients.iter().any(|client| client.overlaps(&proxy.authority)) {
                return Err(AuthorityError::Overlap);
            }
        }
        Ok(())
    }

    /// Who the peer's certificate, or the proxy behind it, says that the caller is.
    pub(crate) fn identify(&self, headers: &http::HeaderMap, chain: &[CertificateDer<'static>]) -> Said {
        if chain.is_empty() {
            return Said::Nothing;
        }
        let mut said = Said::Nothing;
        for proxy in &self.front_proxies {
            match proxy.identify(headers, chain, &self.clients) {
                Said::Nothing => {}
                Said::Nobody => said = Said::Nobody,
                somebody @ Said::Somebody(_) => return somebody,
            }
        }
        if matches!(said, Said::Nobody) {
            return said;
        }
        let mut clients = self.clients.iter();
        clients.find_map(|authority| by_certificate(authority, chain)).map_or(Said::Nothing, Said::Somebody)
    }
}

fn fingerprint(certificate: &X509Certificate<'_>) -> Vec<u8> {
    [certificate.subject().as_raw(), certificate.public_key().raw].concat()
}

fn by_certificate(authority: &ClientAuthority, chain: &[CertificateDer<'static>]) -> Option<Identity> {
    if !authority.signed(chain) {
        return None;
    }
    let subject = Subject::of(chain.first()?)?;
    let mut identity = Identity::new(Source::Certificate, subject.common_name);
    identity.groups = subject.organizations;
    let fingerprint = crate::hex(digest(&SHA256, chain.first()?).as_ref());
    let credential = vec![format!("X509SHA256={fingerprint}")];
    identity.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), credential);
    admit(identity, authority.trust)
}

pub(crate) fn admit(identity: Identity, trust: Trust) -> Option<Identity> {
    let identity = match trust {
        Trust::System => identity,
        Trust::Ordinary => identity.without_system()?,
    };
    identity.admitted()
}

/// What a certificate says of its holder.
pub(crate) struct Subject {
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
}

impl Subject {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Subject> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let subject = parsed.subject();
        let common_name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let organizations =
            subject.iter_organization().filter_map(|name| Some(name.as_str().ok()?.to_owned())).collect();
        Some(Subject { common_name, organizations })
    }
}

/// The provider is passed on explicitly: a library must not depend on what the process has installed.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

    use super::super::front_proxy::HeaderNames;
    use super::*;

    struct Signer {
        issuer: Issuer<'static, KeyPair>,
        certificate: rcgen::Certificate,
    }

    impl Signer {
        fn new(name: &str, above: Option<&Signer>) -> Signer {
            let mut parameters = CertificateParams::default();
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let certificate = match above {
                Some(above) => parameters.signed_by(&key, &above.issuer).unwrap(),
                None => parameters.self_signed(&key).unwrap(),
            };
            Signer { issuer: Issuer::new(parameters, key), certificate }
        }

        fn sign(&self, name: &str) -> CertificateDer<'static> {
            let mut parameters = CertificateParams::default();
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            parameters.signed_by(&KeyPair::generate().unwrap(), &self.issuer).unwrap().der().clone()
        }

        fn der(&self) -> CertificateDer<'static> {
            self.certificate.der().clone()
        }

        fn authority(&self) -> ClientAuthority {
            ClientAuthority::from_pem("ca", self.certificate.pem().as_bytes(), Trust::Ordinary).unwrap()
        }
    }

    #[test]
    fn a_client_whose_authority_is_below_that_of_the_proxies_is_no_proxy() {
        let root = Signer::new("root", None);
        let [below, other] = ["below", "other"].map(|name| Signer::new(name, Some(&root)));
        let deep = Signer::new("deep", Some(&below));
        let headers = HeaderMap::from_iter([("x-remote-user".parse().unwrap(), "admin".parse().unwrap())]);
        // The authorities of clients and of proxies, a chain, and whether it is that of a proxy.
        let table = [
            (&below, &root, vec![below.sign("jane"), below.der()], false),
            (&below, &root, vec![below.sign("jane"), below.der(), root.der()], false),
            (&deep, &root, vec![deep.sign("jane"), deep.der(), below.der()], false),
            (&below, &root, vec![deep.sign("jane"), deep.der(), below.der()], false),
            (&below, &root, vec![root.sign("jane")], true),
            (&below, &root, vec![other.sign("jane"), other.der()], true),
            (&root, &below, vec![below.sign("jane")], true),
            (&root, &below, vec![below.sign("jane"), below.der(), root.der()], true),
            (&root, &below, vec![other.sign("jane"), other.der()], false),
        ];
        for (number, (clients, proxies, chain, is_proxy)) in table.into_iter().enumerate() {
            let allowed_names = Vec::new();
            let front_proxy =
                FrontProxy { authority: proxies.authority(), allowed_names, headers: HeaderNames::default() };
            let authorities = Authorities { clients: vec![clients.authority()], front_proxies: vec![front_proxy] };
            authorities.check().unwrap();
            let Said::Somebody(identity) = authorities.identify(&headers, &chain) else {
                panic!("nobody, row {number}")
            };
            assert_eq!(identity.user, if is_proxy { "admin" } else { "jane" }, "row {number}");
        }
    }
}
