//! A key in a Kubernetes Secret: every entry of its data is a version, 32 bytes or their base64.
//!
//! The newest version is the one that the entry `current` names or, without it, the highest in the order of people
//! (v2 before v10). The Secret is read again after a few seconds, and at once when somebody needs a version that was
//! not there: another process may have rotated the key in the meantime.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use zeroize::Zeroize as _;

use super::Answer;
use super::local::{Source, Wanted};
use crate::error::Error;
use crate::versions::{Version, Versions, is_version_id};

/// How long what was read counts: a rotation reaches every process within this time.
const TIME_TO_LIVE: Duration = Duration::from_secs(5);
/// For all attempts together.
const DEADLINE: Duration = Duration::from_secs(5);
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// The entry that names the version that wraps.
const CURRENT: &str = "current";

#[derive(Debug)]
pub(super) struct KeySecret {
    secrets: Api<Secret>,
    namespace: String,
    secret: String,
    /// Locked while the API server is asked, so that one question answers all who wait.
    read: Mutex<Option<(Instant, Arc<Versions>)>>,
}

impl KeySecret {
    pub(super) fn new(client: kube::Client, namespace: &str, secret: &str) -> KeySecret {
        KeySecret {
            secrets: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            read: Mutex::default(),
        }
    }

    async fn fetch(&self, name: &str) -> Result<Versions, Error> {
        let attempts = async {
            for pause in PAUSES {
                match self.secrets.get_opt(&self.secret).await {
                    Err(kube::Error::Api(status)) if status.code != 429 && status.code < 500 => {
                        return Err(kube::Error::Api(status));
                    }
                    Err(_) => sleep(pause).await,
                    answer => return answer,
                }
            }
            self.secrets.get_opt(&self.secret).await
        };
        let place = format!("the Secret {}/{}", self.namespace, self.secret);
        match timeout(DEADLINE, attempts).await {
            Ok(Ok(Some(secret))) => versions(secret.data.unwrap_or_default())
                .map_err(|fault| Error::refused(name, format!("{place} {fault}"))),
            Ok(Ok(None)) => Err(Error::refused(name, format!("{place} is not there"))),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
                Err(Error::refused(name, format!("{place} may not be read: this process needs `get` on it")))
            }
            // The text of such an error may quote what was sent.
            Ok(Err(_)) => Err(Error::unavailable(name, format!("the API server does not answer for {place}"))),
            Err(_) => Err(Error::unavailable(name, format!("the API server does not answer in time for {place}"))),
        }
    }
}

impl Source for KeySecret {
    fn versions<'a>(&'a self, name: &'a str, wanted: Wanted<'a>) -> Answer<'a, Arc<Versions>> {
        async move {
            let asked = Instant::now();
            let mut read = self.read.lock().await;
            if let Some((at, versions)) = &*read {
                let there = match wanted {
                    Wanted::Newest => true,
                    Wanted::Version(version) => versions.has(version),
                };
                let waited_for = *at >= asked;
                if waited_for || (there && at.elapsed() < TIME_TO_LIVE) {
                    return Ok(versions.clone());
                }
            }
            let versions = Arc::new(self.fetch(name).await?);
            *read = Some((Instant::now(), versions.clone()));
            Ok(versions)
        }
        .boxed()
    }
}

/// The error is the rest of a sentence that begins with the Secret; it names an entry and never what it holds.
fn versions(mut data: BTreeMap<String, ByteString>) -> Result<Versions, String> {
    let current = data.remove(CURRENT);
    let mut all = Vec::new();
    for (id, mut value) in data {
        let version = is_version_id(&id).then(|| Version::read(&id, &value.0)).flatten();
        value.0.zeroize();
        all.push(version.ok_or(format!("has an entry '{id}' that is neither 32 bytes nor their base64"))?);
    }
    all.sort_by(|one, other| by_number(&one.id, &other.id));
    let newest = match &current {
        None => all.len().wrapping_sub(1),
        Some(ByteString(named)) => {
            let named = named.trim_ascii();
            let found = all.iter().position(|version| version.id.as_bytes() == named);
            found.ok_or(format!("has an entry '{CURRENT}' that names none of its versions"))?
        }
    };
    Versions::new(all, newest).ok_or_else(|| "has no entry, so that there is no version of the key".to_owned())
}

/// Runs of digits as numbers, everything else as it is: v2 before v10.
fn by_number(one: &str, other: &str) -> Ordering {
    // Equal numbers may be written differently: then the text decides, so that the order is always the same.
    parts(one).cmp(&parts(other)).then_with(|| one.cmp(other))
}

/// Each word with the number that follows it.
fn parts(text: &str) -> Vec<(&str, u128)> {
    let mut parts = Vec::new();
    let mut left = text;
    while !left.is_empty() {
        let (word, rest) = left.split_at(left.find(|letter: char| letter.is_ascii_digit()).unwrap_or(left.len()));
        let (digits, rest) = rest.split_at(rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len()));
        let none = if digits.is_empty() { 0 } else { u128::MAX };
        parts.push((word, digits.parse().unwrap_or(none)));
        left = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    type Entries<'a> = &'a [(&'a str, &'a [u8])];

    fn data(entries: Entries<'_>) -> BTreeMap<String, ByteString> {
        entries.iter().map(|(id, value)| ((*id).to_owned(), ByteString(value.to_vec()))).collect()
    }

    #[test]
    fn the_newest_is_the_current_one_or_the_highest_by_number() {
        let raw: &[u8] = &[7; 32];
        let base64: &[u8] = b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";
        let table: &[(Entries<'_>, &str)] = &[
            (&[("v1", raw)], "v1"),
            (&[("v10", raw), ("v9", base64)], "v10"),
            (&[("2", raw), ("10", raw)], "10"),
            (&[("2026-11-16", raw), ("2026-2-1", raw)], "2026-11-16"),
            (&[("v1-b", raw), ("v2-a", raw)], "v2-a"),
            (&[("v1", raw), ("v2", raw), ("current", b"v1\n")], "v1"),
        ];
        for (entries, newest) in table {
            assert_eq!(versions(data(entries)).unwrap().newest(), *newest);
        }
    }

    #[test]
    fn a_bad_entry_is_named_and_not_repeated() {
        let raw: &[u8] = &[7; 32];
        for (entries, expected) in [
            (data(&[]), "no entry"),
            (data(&[("current", b"v1")]), "names none"),
            (data(&[("v1", raw), ("current", b"canary")]), "names none"),
            (data(&[("v1", b"canary")]), "'v1'"),
            (data(&[("v1", raw), ("v2", b"")]), "'v2'"),
        ] {
            let fault = versions(entries).map(|versions| format!("{versions:?}")).unwrap_err();
            assert!(fault.contains(expected) && !fault.contains("canary"), "{fault}");
        }
    }
}
