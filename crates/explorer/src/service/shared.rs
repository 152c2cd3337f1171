//! What all clusters of a service share: rows, keys, settings, and which cluster is which.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use db::{Db, Migrations, params};
use watch::{Keys, Scope};

use super::error::Error;
use super::member::Member;
use super::metrics::Metrics;
use super::options::Settings;
use crate::durable::Store;
use crate::failpoints::Step;
use crate::index::Kept;
use crate::kinds::KindSpec;

/// In the copy: to which cluster the rows under a name belong.
pub(crate) const COPY_MIGRATIONS: Migrations = Migrations {
    set: "explorer_service",
    steps: &["CREATE TABLE explorer_seen (cluster TEXT PRIMARY KEY, uid TEXT NOT NULL);"],
};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    copy: Db,
    /// Of the objects that have rows.
    pub(crate) row_keys: Keys,
    /// Of what is followed for the service itself: RBAC, namespaces, Secrets with kubeconfigs.
    pub(crate) own_keys: Keys,
    pub(crate) kinds: Arc<[KindSpec]>,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) changed: Changed,
    /// The name under which each cluster is here, by its uid.
    claims: Mutex<HashMap<String, String>>,
    members: RwLock<BTreeMap<String, Arc<Member>>>,
}

impl Shared {
    /// On a file that is open.
    pub(crate) async fn open(
        copy: Db,
        store: Store,
        kinds: Arc<[KindSpec]>,
        settings: Settings,
        metrics: Metrics,
    ) -> Result<Shared, Error> {
        copy.migrate(&[watch::MIGRATIONS, COPY_MIGRATIONS]).await?;
        let seen = copy.read(|tx| tx.query("SELECT uid, cluster FROM explorer_seen", &[])).await?;
        let claims = seen.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect::<Result<_, db::Error>>()?;
        Ok(Shared {
            store,
            row_keys: Keys::new(copy.clone(), "explorer"),
            own_keys: Keys::new(copy.clone(), "explorer-service"),
            copy,
            kinds,
            settings,
            metrics,
            changed: Changed::default(),
            claims: Mutex::new(claims),
            members: RwLock::default(),
        })
    }

    pub(crate) fn members(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<Member>>> {
        self.members.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn members_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<Member>>> {
        self.members.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn member(&self, name: &str) -> Option<Arc<Member>> {
        self.members().get(name).cloned()
    }

    /// Under which name a cluster is here.
    pub(crate) fn name_of(&self, uid: &str) -> Option<String> {
        self.claims().get(uid).cloned()
    }

    /// The names of which anything is known here: rows, marks, or which cluster it is.
    pub(crate) fn known_names(&self) -> BTreeSet<String> {
        let mut names = self.store.read().known_clusters();
        names.extend(self.claims().values().cloned());
        names
    }

    /// Says that the cluster of this name is the one with this uid. Rows under the name that belong to another go first, with
    /// their keys.
    pub(crate) async fn adopt(&self, name: &str, uid: &str) -> Result<(), Error> {
        {
            let mut claims = self.claims();
            match claims.get(uid) {
                Some(known) if known == name => return Ok(()),
                Some(other) => return Err(Error::SameCluster { name: other.clone(), uid: uid.to_owned() }),
                None => {
                    // Claimed before anything is waited for: nobody else can in the meantime.
                    claims.retain(|_, known| known != name);
                    claims.insert(uid.to_owned(), name.to_owned());
                }
            }
        }
        let adopted = self.clear(name, Some(uid)).await;
        if adopted.is_err() {
            self.claims().remove(uid);
        }
        adopted
    }

    /// Removes everything of a cluster: keys, rows, tenants, marks. Nothing follows it any more.
    pub(crate) async fn purge(&self, name: &str) -> Result<(), Error> {
        self.clear(name, None).await?;
        self.claims().retain(|_, known| known != name);
        Ok(())
    }

    /// Removes what is left of kinds that are not collected any more.
    pub(crate) async fn forget_unwanted_kinds(&self) -> Result<(), Error> {
        let inventory = self.store.read().inventory();
        let is_wanted = |kept: &Kept| self.kinds.iter().any(|spec| spec.is(&kept.group, &kept.kind));
        for kept in inventory.keys().filter(|kept| !is_wanted(kept)) {
            self.forget_kind(kept).await?;
        }
        Ok(())
    }

    /// Removes everything of a kind in a cluster that nothing follows: keys, then rows.
    pub(crate) async fn forget_kind(&self, kept: &Kept) -> Result<(), Error> {
        let kind = watch::Kind { group: kept.group.clone(), plural: kept.resource.clone() };
        let scope = Scope::Kind(watch::StreamName { cluster: kept.cluster.clone(), kind });
        self.row_keys.remove(&scope, |_| Ok(())).await?;
        self.store.remove_kind(&kept.cluster, &kept.group, &kept.kind).wait().await?;
        self.changed.bump();
        Ok(())
    }

    /// Keys go first, together with the word whose the rows are: rows without that word are nobody's, and a crash in between
    /// leaves them to whoever adopts the name next, or to the sweep at the start.
    async fn clear(&self, name: &str, owner: Option<&str>) -> Result<(), Error> {
        let scope = Scope::Cluster(name.to_owned());
        self.own_keys.remove(&scope, |_| Ok(())).await?;
        let cluster = name.to_owned();
        let forget = move |tx: &mut db::Tx<'_>| {
            tx.execute("DELETE FROM explorer_seen WHERE cluster = $1", params![&cluster]).map(drop)
        };
        self.row_keys.remove(&scope, forget).await?;
        Step::KeysPurged.hit();
        self.store.remove_cluster(name).wait().await?;
        Step::RowsPurged.hit();
        if let Some(uid) = owner {
            let (cluster, uid) = (name.to_owned(), uid.to_owned());
            let remember = move |tx: &mut db::Tx<'_>| {
                tx.execute("INSERT INTO explorer_seen (cluster, uid) VALUES ($1, $2)", params![&cluster, &uid])
                    .map(drop)
            };
            self.copy.write::<_, db::Error, _>(remember).await?;
        }
        self.changed.bump();
        Ok(())
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells those who follow that something changed.
#[derive(Clone, Debug)]
pub(crate) struct Changed(tokio::sync::watch::Sender<u64>);

impl Default for Changed {
    fn default() -> Changed {
        Changed(tokio::sync::watch::channel(0).0)
    }
}

impl Changed {
    pub(crate) fn bump(&self) {
        self.0.send_modify(|number| *number += 1);
    }

    pub(crate) fn subscribe(&self) -> tokio::sync::watch::Receiver<u64> {
        self.0.subscribe()
    }
}
