//! What all clusters of a service share: rows, keys, settings, and which cluster is which.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use db::{Db, Migrations, params};
use watch::{Keys, Scope};

use super::error::Error;
use super::member::Member;
use super::metrics::Metrics;
use super::options::Settings;
use super::report::Source;
use crate::durable::Store;
use crate::failpoints::Step;
use crate::index::Kept;
use crate::kinds::KindSpec;

/// In the copy: to which cluster the rows under a name belong, and where that came from.
pub(crate) const COPY_MIGRATIONS: Migrations = Migrations {
    set: "explorer_service",
    steps: &[
        "CREATE TABLE explorer_seen (cluster TEXT PRIMARY KEY, uid TEXT NOT NULL);",
        // Where the cluster came from; empty for those of before, of which nobody knows.
        "ALTER TABLE explorer_seen ADD COLUMN source TEXT NOT NULL DEFAULT '';",
    ],
};

/// The name of a cluster, and where it came from, if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    name: String,
    source: Option<Source>,
}

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
    claims: Mutex<HashMap<String, Claim>>,
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
        let seen = copy.read(|tx| tx.query("SELECT uid, cluster, source FROM explorer_seen", &[])).await?;
        let claim = |row: &db::Row| {
            let claim = Claim { name: row.get(1)?, source: Source::read(&row.get::<String>(2)?) };
            Ok((row.get(0)?, claim))
        };
        let claims = seen.iter().map(claim).collect::<Result<_, db::Error>>()?;
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
        self.claims().get(uid).map(|claim| claim.name.clone())
    }

    /// The names of which anything is known here: rows, marks, or which cluster it is.
    pub(crate) fn known_names(&self) -> BTreeSet<String> {
        let mut names = self.store.read().known_clusters();
        names.extend(self.claims().values().map(|claim| claim.name.clone()));
        names
    }

    /// Whether a cluster that is known here may be that of a Secret.
    pub(crate) fn may_be_of_a_secret(&self, name: &str) -> bool {
        let of_secret = |claim: &Claim| claim.source.is_none_or(|source| source == Source::Secret);
        self.claims().values().any(|claim| claim.name == name && of_secret(claim))
    }

    /// Says that the cluster of this name is the one with this uid. Rows under the name that belong to another go first, with
    /// their keys.
    pub(crate) async fn adopt(&self, name: &str, uid: &str, source: Source) -> Result<(), Error> {
        let claim = Claim { name: name.to_owned(), source: Some(source) };
        let before = {
            let mut claims = self.claims();
            let before = claims.get(uid).cloned();
            match &before {
                Some(known) if *known == claim => return Ok(()),
                Some(other) if other.name != name => {
                    return Err(Error::SameCluster { name: other.name.clone(), uid: uid.to_owned() });
                }
                // Claimed before anything is waited for: nobody else can in the meantime.
                Some(_) | None => {
                    claims.retain(|_, known| known.name != name);
                    claims.insert(uid.to_owned(), claim);
                }
            }
            before
        };
        let adopted = match &before {
            // The same cluster, from elsewhere: its rows stay.
            Some(_) => self.remember(name, uid, source).await,
            None => self.clear(name, Some((uid, source))).await,
        };
        if adopted.is_err() {
            let mut claims = self.claims();
            claims.remove(uid);
            claims.extend(before.map(|before| (uid.to_owned(), before)));
        }
        adopted
    }

    async fn remember(&self, name: &str, uid: &str, source: Source) -> Result<(), Error> {
        let (cluster, uid) = (name.to_owned(), uid.to_owned());
        let remember = move |tx: &mut db::Tx<'_>| {
            let put = "INSERT INTO explorer_seen (cluster, uid, source) VALUES ($1, $2, $3) \
                ON CONFLICT (cluster) DO UPDATE SET uid = excluded.uid, source = excluded.source";
            tx.execute(put, params![&cluster, &uid, source.word()]).map(drop)
        };
        self.copy.write::<_, db::Error, _>(remember).await?;
        Ok(())
    }

    /// Removes everything of a cluster: keys, rows, tenants, marks. Nothing follows it any more.
    pub(crate) async fn purge(&self, name: &str) -> Result<(), Error> {
        self.clear(name, None).await?;
        self.claims().retain(|_, known| known.name != name);
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
    async fn clear(&self, name: &str, owner: Option<(&str, Source)>) -> Result<(), Error> {
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
        if let Some((uid, source)) = owner {
            self.remember(name, uid, source).await?;
        }
        self.changed.bump();
        Ok(())
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<String, Claim>> {
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
