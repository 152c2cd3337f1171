//! Certificates that follow their files. The files are read again every second, because that sees every way to
//! replace them (rename, symbolic links of a mounted Secret, write in place) and costs nothing at this size. A pair
//! that cannot be used, or whose halves do not fit because only one has been written yet, leaves the last good one; one
//! that stays so is warned about.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{Pair, provider};

const EVERY: Duration = Duration::from_secs(1);

/// The certificates of the listener, as they are on disk now.
#[derive(Clone, Debug)]
pub(crate) struct Certificates(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    default: Followed,
    by_name: Vec<Followed>,
}

#[derive(Debug)]
struct Followed {
    pair: Pair,
    current: ArcSwap<Loaded>,
    refused: Mutex<Refused>,
}

/// What was on disk when it could last not be used. Once may be a pair of which one half is written already; the same
/// twice in a row is what somebody should know, once.
#[derive(Debug, Default)]
struct Refused {
    seen: Option<u64>,
    told: bool,
}

/// Files that cannot be used, and whether that is worth a warning.
struct Unusable {
    error: anyhow::Error,
    tell: Tell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tell {
    Operator,
    Nobody,
}

impl Refused {
    fn again(&mut self, seen: u64) -> Tell {
        if self.seen != Some(seen) {
            *self = Refused { seen: Some(seen), told: false };
            return Tell::Nobody;
        }
        if std::mem::replace(&mut self.told, true) { Tell::Nobody } else { Tell::Operator }
    }
}

/// Tells contents apart without keeping a second copy of a key.
fn digest(contents: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    hasher.finish()
}

#[derive(Debug)]
struct Loaded {
    files: (Vec<u8>, Vec<u8>),
    key: Arc<CertifiedKey>,
    names: Vec<String>,
    from: NamesFrom,
}

/// Where the names of a pair come from; those that somebody chose come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NamesFrom {
    Operator,
    Certificate,
}

/// How well a pair fits a name, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    wildcards: usize,
    from: NamesFrom,
}

impl Certificates {
    pub(super) fn load(default: Pair, by_name: Vec<Pair>) -> Result<Certificates> {
        let by_name = by_name.into_iter().map(Followed::load).collect::<Result<_>>()?;
        Ok(Certificates(Arc::new(Inner { default: Followed::load(default)?, by_name })))
    }

    pub(super) fn resolver(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::new(Resolver(self.clone()))
    }

    /// Follows the files for ever.
    pub(crate) async fn follow(self) {
        loop {
            tokio::time::sleep(EVERY).await;
            let certificates = self.clone();
            // Reading files blocks; a task that failed to start is tried again in a second.
            let _ = tokio::task::spawn_blocking(move || certificates.reload()).await;
        }
    }

    fn reload(&self) {
        for followed in std::iter::once(&self.0.default).chain(&self.0.by_name) {
            match followed.reload() {
                Ok(false) => {}
                Ok(true) => tracing::info!(file = %followed.pair.cert_file.display(), "took a new certificate"),
                Err(Unusable { error, tell }) => {
                    let (file, error) = (followed.pair.cert_file.display(), format!("{error:#}"));
                    match tell {
                        Tell::Operator => tracing::warn!(%file, error, "kept the last certificate"),
                        Tell::Nobody => tracing::debug!(%file, error, "kept the last certificate"),
                    }
                }
            }
        }
    }
}

impl Followed {
    fn load(pair: Pair) -> Result<Followed> {
        let loaded = Loaded::read(&pair, read(&pair)?)?;
        Ok(Followed { pair, current: ArcSwap::from_pointee(loaded), refused: Mutex::default() })
    }

    /// Whether the files had something new.
    fn reload(&self) -> Result<bool, Unusable> {
        let files = read(&self.pair);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = match &files {
            Ok(files) => digest(files),
            Err(error) => digest(&format!("{error:#}")),
        };
        let unusable = |refused: &mut Refused, error| Unusable { error, tell: refused.again(seen) };
        let files = files.map_err(|error| unusable(&mut refused, error))?;
        let is_new = self.current.load().files != files;
        if is_new {
            let loaded = Loaded::read(&self.pair, files).map_err(|error| unusable(&mut refused, error))?;
            self.current.store(Arc::new(loaded));
        }
        *refused = Refused::default();
        Ok(is_new)
    }
}

fn read(pair: &Pair) -> Result<(Vec<u8>, Vec<u8>)> {
    let read = |path: &std::path::Path| fs::read(path).with_context(|| format!("failed to read {}", path.display()));
    Ok((read(&pair.cert_file)?, read(&pair.key_file)?))
}

impl Loaded {
    fn read(pair: &Pair, files: (Vec<u8>, Vec<u8>)) -> Result<Loaded> {
        let cert_file = pair.cert_file.display();
        let key_file = pair.key_file.display();
        let chain = CertificateDer::pem_slice_iter(&files.0).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.with_context(|| format!("{cert_file} holds no PEM certificate"))?;
        // The text of a key error could quote the file: only the path is told.
        let key = PrivateKeyDer::from_pem_slice(&files.1).ok();
        let key = key.with_context(|| format!("{key_file} holds no PEM private key"))?;
        let (names, from) = match pair.names.as_slice() {
            [] => (names_in(&chain[0]), NamesFrom::Certificate),
            chosen => (chosen.to_vec(), NamesFrom::Operator),
        };
        let key = CertifiedKey::from_der(chain, key, &provider());
        let key =
            key.ok().with_context(|| format!("the key in {key_file} is not of the certificate in {cert_file}"))?;
        ensure!(!key.cert.is_empty(), "{cert_file} holds no certificate");
        let names = names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        Ok(Loaded { files, key: Arc::new(key), names, from })
    }

    fn fit(&self, name: &str) -> Option<Fit> {
        let wildcards = self.names.iter().filter_map(|pattern| wildcards(pattern, name)).min()?;
        Some(Fit { wildcards, from: self.from })
    }
}

/// How many labels of a name the wildcards of a pattern stand for, if the pattern fits at all. Only the first labels
/// of a pattern may be wildcards, each for exactly one label.
fn wildcards(pattern: &str, name: &str) -> Option<usize> {
    match (pattern.strip_prefix("*."), name.split_once('.')) {
        (Some(pattern), Some((first, rest))) if !first.is_empty() => Some(wildcards(pattern, rest)? + 1),
        _ => (pattern == name).then_some(0),
    }
}

/// The DNS names of a certificate.
fn names_in(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return Vec::new() };
    let dns = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    dns.collect()
}

#[derive(Debug)]
struct Resolver(Certificates);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let inner = &self.0.0;
        let name = hello.server_name().map(str::to_ascii_lowercase);
        let named = name.and_then(|name| {
            let loaded = inner.by_name.iter().map(|followed| followed.current.load());
            let fitting = loaded.filter_map(|loaded| Some((loaded.fit(&name)?, loaded)));
            // Of equals the first one counts.
            fitting.min_by_key(|(fit, _)| *fit).map(|(_, loaded)| loaded.key.clone())
        });
        Some(named.unwrap_or_else(|| inner.default.current.load().key.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Refused, Tell, wildcards};

    #[test]
    fn what_cannot_be_used_is_told_once_when_it_is_seen_again() {
        let mut refused = Refused::default();
        let seen = [1, 2, 2, 2, 3, 2, 2].map(|seen| refused.again(seen) == Tell::Operator);
        assert_eq!(seen, [false, false, true, false, false, false, true]);
    }

    #[test]
    fn wildcards_stand_for_one_label_each_and_only_at_the_front() {
        let table = [
            ("a.test", "a.test", Some(0)),
            ("*.test", "a.test", Some(1)),
            ("*.*.test", "b.a.test", Some(2)),
            ("*.a.test", "b.a.test", Some(1)),
            ("*.test", "b.a.test", None),
            ("*.test", "test", None),
            ("*.test", ".test", None),
            ("a.*.test", "a.b.test", None),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(wildcards(pattern, name), expected, "{pattern} {name}");
        }
    }
}
