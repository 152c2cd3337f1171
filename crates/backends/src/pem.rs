//! Certificates and keys, from a file or at hand.

use std::fmt;
use std::path::PathBuf;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::Error;

/// Where PEM text is. Files are read anew for every connection, so that what is renewed counts.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    File(PathBuf),
    Text(Vec<u8>),
}

impl Pem {
    pub(crate) fn read(&self) -> Result<Vec<u8>, Error> {
        match self {
            Pem::Text(text) => Ok(text.clone()),
            Pem::File(path) => {
                std::fs::read(path).map_err(|error| Error::Tls(format!("failed to read {}: {error}", path.display())))
            }
        }
    }

    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let found = CertificateDer::pem_slice_iter(&self.read()?).collect::<Result<Vec<_>, _>>();
        let found = found.ok().filter(|chain| !chain.is_empty());
        found.ok_or_else(|| Error::Tls(format!("{} holds no PEM certificate", self.name())))
    }

    pub(crate) fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates()? {
            roots
                .add(certificate)
                .map_err(|error| Error::Tls(format!("{} holds no authority: {error}", self.name())))?;
        }
        Ok(roots)
    }

    /// The text of an error about a key could quote it: only its place is told.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, Error> {
        PrivateKeyDer::from_pem_slice(&self.read()?)
            .map_err(|_| Error::Tls(format!("{} holds no PEM private key", self.name())))
    }

    fn name(&self) -> String {
        match self {
            Pem::File(path) => path.display().to_string(),
            Pem::Text(_) => "the given text".to_owned(),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::File(path) => formatter.debug_tuple("File").field(path).finish(),
            Pem::Text(text) => write!(formatter, "Text({} bytes)", text.len()),
        }
    }
}
