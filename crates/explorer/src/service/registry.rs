//! The clusters that were added: their kubeconfigs, sealed, in the database that all processes share.

use std::io::{Read, Write};
use std::path::Path;

use db::{Db, Row, params};
use keys::{Key, Keyring, Sharing, key_file};
use tokio::sync::OnceCell;
use zeroize::Zeroizing;

use super::error::Error;
use super::options::{Rules, Sealing};

/// The name of the key in a keyring of its own.
const OWN_KEY: &str = "clusters";

#[derive(Debug)]
pub(crate) struct Registry {
    db: Db,
    sealing: Sealing,
    own: OnceCell<Keyring>,
}

/// A cluster as it is in the database.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) revision: String,
    pub(crate) rules: Rules,
    sealed: Vec<u8>,
}

impl Registry {
    pub(crate) fn new(db: Db, sealing: Sealing) -> Registry {
        Registry { db, sealing, own: OnceCell::new() }
    }

    pub(crate) async fn list(&self) -> Result<Vec<Record>, Error> {
        let rows = self.db.read(|tx| tx.query(LIST, &[])).await?;
        rows.iter().map(record).collect()
    }

    /// Adds a cluster, or replaces what is known of the one with this name. Another name for the same cluster is refused.
    pub(crate) async fn put(&self, name: &str, uid: &str, rules: &Rules, kubeconfig: &str) -> Result<(), Error> {
        let sealed = self.seal(name, kubeconfig).await?;
        let rules = serde_json::to_string(rules).map_err(|error| Error::Seal(error.to_string()))?;
        let revision = uuid::Uuid::new_v4().to_string();
        let now = jiff::Timestamp::now().as_millisecond();
        let (name, uid) = (name.to_owned(), uid.to_owned());
        let put = move |tx: &mut db::Tx<'_>| {
            if let Some(other) = tx.query_opt(OTHER, params![&uid, &name])? {
                return Err(Error::SameCluster { name: other.get(0)?, uid: uid.clone() });
            }
            tx.execute(PUT, params![&name, &uid, &revision, &rules, sealed.clone(), now])?;
            Ok(())
        };
        self.db.write(put).await
    }

    /// Whether there was one.
    pub(crate) async fn remove(&self, name: &str) -> Result<bool, Error> {
        let name = name.to_owned();
        let removed = self.db.write::<_, db::Error, _>(move |tx| tx.execute(REMOVE, params![&name])).await?;
        Ok(removed > 0)
    }

    /// The kubeconfig of a cluster.
    pub(crate) async fn open(&self, record: &Record) -> Result<Zeroizing<String>, Error> {
        let keyring = self.keyring(Missing::IsAFault).await?;
        let mut opener = keyring.open_stream(&context(&record.name), &record.sealed[..]).await.map_err(seal)?;
        let mut text = Zeroizing::new(String::new());
        opener.read_to_string(&mut text).map_err(seal)?;
        Ok(text)
    }

    async fn seal(&self, name: &str, kubeconfig: &str) -> Result<Vec<u8>, Error> {
        let key = match &self.sealing {
            Sealing::Named { key, .. } => key,
            Sealing::File(_) => OWN_KEY,
        };
        // A second key beside a first that is only out of reach would leave clusters that no key opens.
        let missing = if self.list().await?.is_empty() { Missing::IsMade } else { Missing::IsAFault };
        let keyring = self.keyring(missing).await?;
        let mut sealer = keyring.seal_stream(key, &context(name), Vec::new()).await.map_err(seal)?;
        sealer.write_all(kubeconfig.as_bytes()).map_err(seal)?;
        sealer.finish().map_err(seal)
    }

    async fn keyring(&self, missing: Missing) -> Result<Keyring, Error> {
        match &self.sealing {
            Sealing::Named { keyring, .. } => Ok(keyring.clone()),
            Sealing::File(path) => self.own.get_or_try_init(|| own_keyring(path, missing)).await.cloned(),
        }
    }
}

/// What it means that the key file is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// Nothing was ever sealed by it.
    IsMade,
    /// It is out of reach, and is tried again.
    IsAFault,
}

async fn own_keyring(path: &Path, missing: Missing) -> Result<Keyring, Error> {
    if !path.exists() {
        if missing == Missing::IsAFault {
            let fault = format!("the key file {} is missing: put it back, it is tried again", path.display());
            return Err(Error::Seal(fault));
        }
        let path = path.to_owned();
        let made = tokio::task::spawn_blocking(move || key_file::create(&path)).await;
        made.map_err(seal)?.map_err(seal)?;
    }
    let key = Key::file(path, Sharing::Private);
    Keyring::new([(OWN_KEY.to_owned(), key)], keys::Settings::default()).map_err(seal)
}

/// What is sealed opens only under the name that it was sealed for.
fn context(name: &str) -> Vec<u8> {
    format!("explorer cluster\0{name}").into_bytes()
}

fn seal(error: impl std::fmt::Display) -> Error {
    Error::Seal(error.to_string())
}

fn record(row: &Row) -> Result<Record, Error> {
    let rules: String = row.get(3)?;
    Ok(Record {
        name: row.get(0)?,
        uid: row.get(1)?,
        revision: row.get(2)?,
        rules: serde_json::from_str(&rules).map_err(|error| Error::Seal(format!("its rules are damaged: {error}")))?,
        sealed: row.get(4)?,
    })
}

const LIST: &str = "SELECT name, uid, revision, rules, kubeconfig FROM explorer_clusters ORDER BY name";
const OTHER: &str = "SELECT name FROM explorer_clusters WHERE uid = $1 AND name <> $2";
const PUT: &str = "INSERT INTO explorer_clusters (name, uid, revision, rules, kubeconfig, added_at) \
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO UPDATE SET uid = excluded.uid, revision = excluded.revision, \
    rules = excluded.rules, kubeconfig = excluded.kubeconfig";
const REMOVE: &str = "DELETE FROM explorer_clusters WHERE name = $1";

impl std::fmt::Debug for Record {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Record").field("name", &self.name).field("uid", &self.uid).finish_non_exhaustive()
    }
}
