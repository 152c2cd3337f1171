//! An index and its copy: every change goes through here, first into the one, then to the other, in the same order.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use db::{Config, Db};

use super::batch::{Tenant, Write};
use super::copy::{Change, Copy, Ticket};
use super::{Error, MIGRATIONS, load};
use crate::failpoints::Step;
use crate::index::{Deletion, Index, Prepared, Preparer, Settings, Slot, Visibility};
use crate::row::{Key, Row};

/// Rows in memory and on disk.
#[derive(Debug)]
pub struct Store {
    index: RwLock<Index>,
    copy: Copy,
    preparer: Preparer,
}

impl Store {
    /// Opens the file, which is made for its owner only where it is missing, and loads what is in it.
    pub async fn open(path: &Path, settings: Settings) -> Result<Store, Error> {
        Store::on(Db::open(Config::sqlite(path)).await?, settings).await
    }

    /// The same on a file that is open and holds more than the rows; [`Store::close`] lets it go.
    pub async fn on(db: Db, settings: Settings) -> Result<Store, Error> {
        db.migrate(&[MIGRATIONS]).await?;
        let mut index = Index::new(settings);
        let bad = load::load(&db, &mut index).await?;
        let copy = Copy::start(db);
        let preparer = index.preparer();
        let store = Store { index: RwLock::new(index), copy, preparer };
        drop(store.copy.push(bad.into_iter().map(|slot| Change::Row(slot, Write::Remove))));
        Ok(store)
    }

    /// For questions. Changes wait for it: ask, and let it go.
    pub fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What works out the words of a row, on any thread.
    pub fn preparer(&self) -> &Preparer {
        &self.preparer
    }

    /// Waits until changes can be brought as fast as they are written.
    pub async fn room(&self) -> Result<(), Error> {
        self.copy.room().await
    }

    /// An object is there, new or changed.
    pub fn upsert(&self, prepared: Prepared) -> Ticket {
        let mut index = self.write();
        let slot = index.upsert(&prepared);
        Step::IndexedBeforeCopy.hit();
        let mut row = prepared.into_row();
        let body = std::mem::take(&mut row.body);
        self.copy.push([Change::Row(slot, Write::Put(Box::new(row), body.into()))])
    }

    /// An object is gone; see [`Index::delete`].
    pub fn delete(&self, key: &Key, uid: Option<&str>, at: i64) -> Ticket {
        let mut index = self.write();
        let deletion = index.delete(key, uid, at);
        Step::IndexedBeforeCopy.hit();
        self.copy.push(written(&index, [deletion]))
    }

    /// Compares the rows of a kind with the objects that are known to exist; names those that have no row. See
    /// [`Index::reconcile`].
    pub fn reconcile(
        &self,
        cluster: &str,
        group: &str,
        kind: &str,
        known: &HashSet<(String, String)>,
        at: i64,
    ) -> (Ticket, Vec<Key>) {
        let mut index = self.write();
        let reconciled = index.reconcile(cluster, group, kind, known, at);
        let ticket = self.copy.push(written(&index, reconciled.deletions));
        (ticket, reconciled.missing)
    }

    /// Removes everything of a cluster, on disk in one transaction.
    pub fn remove_cluster(&self, cluster: &str) -> Ticket {
        let mut index = self.write();
        let removed = index.remove_cluster(cluster);
        let tenants = Change::Tenant(Tenant::ClusterGone { cluster: cluster.to_owned() });
        self.copy.push(removed.into_iter().map(remove).chain([tenants]))
    }

    /// Removes everything of a kind in a cluster, on disk in one transaction.
    pub fn remove_kind(&self, cluster: &str, group: &str, kind: &str) -> Ticket {
        let mut index = self.write();
        let removed = index.remove_kind(cluster, group, kind);
        self.copy.push(removed.into_iter().map(remove))
    }

    /// The cleaner: removes what has been kept long enough. Tells how many rows went.
    pub fn expire(&self, now: i64) -> (Ticket, usize) {
        let mut index = self.write();
        let removed = index.expire(now);
        let count = removed.len();
        (self.copy.push(removed.into_iter().map(remove)), count)
    }

    /// Which tenant a namespace belongs to.
    pub fn set_tenant(&self, cluster: &str, namespace: &str, tenant: Option<&str>) -> Ticket {
        let own = |text: &str| text.to_owned();
        let mut index = self.write();
        let is_new = index.set_tenant(cluster, namespace, tenant);
        let tenant = tenant.filter(|tenant| !tenant.is_empty()).map(own);
        let change = Tenant::Is { cluster: own(cluster), namespace: own(namespace), tenant };
        self.copy.push(is_new.then_some(Change::Tenant(change)))
    }

    /// A namespace is gone; see [`Index::namespace_ended`]. Only this process knows: after a restart whoever follows the
    /// namespaces of the cluster says it again for those that are not there.
    pub fn namespace_ended(&self, cluster: &str, namespace: &str) -> Ticket {
        let mut index = self.write();
        let changed = index.namespace_ended(cluster, namespace);
        self.copy.push(heads(&index, changed))
    }

    /// A namespace is there; see [`Index::namespace_began`].
    pub fn namespace_began(&self, cluster: &str, namespace: &str, at: Option<i64>) -> Ticket {
        let mut index = self.write();
        let changed = index.namespace_began(cluster, namespace, at);
        self.copy.push(heads(&index, changed))
    }

    /// See [`Index::set_stale`].
    pub fn set_stale(&self, cluster: &str, kind: Option<(&str, &str)>, since: Option<i64>) {
        self.write().set_stale(cluster, kind, since);
    }

    /// The body of an object, for somebody who may see it.
    pub async fn body(&self, key: &Key, visibility: &Visibility) -> Result<Option<String>, Error> {
        let found = self.read().get(key, visibility).filter(|found| found.has_body);
        match found {
            Some(found) => self.copy.body(found.slot, key).await,
            None => Ok(None),
        }
    }

    /// A ticket for everything so far.
    pub fn flush(&self) -> Ticket {
        self.copy.push([])
    }

    /// Writes what is waiting and lets the file go.
    pub async fn close(&self) {
        self.copy.close().await;
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn written(index: &Index, deletions: impl IntoIterator<Item = Deletion>) -> Vec<Change> {
    let change = |deletion| match deletion {
        Deletion::Removed(slot) => Some(remove(slot)),
        Deletion::Retained(slot) => Some(head(index, slot)),
        Deletion::Nothing => None,
    };
    deletions.into_iter().filter_map(change).collect()
}

fn remove(slot: Slot) -> Change {
    Change::Row(slot, Write::Remove)
}

fn heads(index: &Index, slots: Vec<Slot>) -> Vec<Change> {
    slots.into_iter().map(|slot| head(index, slot)).collect()
}

fn head(index: &Index, slot: Slot) -> Change {
    let row: Row = index.row(slot);
    Change::Row(slot, Write::Head(Box::new(row)))
}
