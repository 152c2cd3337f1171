//! How rows end, and what is said about many of them at once: kinds, clusters, tenants.

use std::collections::HashSet;

use super::namespaces::Heir;
use super::rows::{Index, Slot, Uid};
use super::scopes::FamilyKey;
use crate::row::Key;

/// What became of a row whose object is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It is gone too.
    Removed(Slot),
    /// It stays for a while, marked.
    Retained(Slot),
    /// It was not there, is marked already, or belongs to an object that was made later under the same name.
    Nothing,
}

/// What comparing with the objects that are known to exist brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    pub deletions: Vec<Deletion>,
    /// Objects without a row.
    pub missing: Vec<Key>,
}

impl Index {
    /// An object is gone. With a uid, only if it is that of the row: a later object may have the name.
    pub fn delete(&mut self, key: &Key, uid: Option<&str>, at: i64) -> Deletion {
        let Some(slot) = self.find(key) else { return Deletion::Nothing };
        let record = &self.records[slot.0 as usize];
        if uid.is_some_and(|uid| record.uid != Uid::new(uid)) || record.deleted_at.is_some() {
            return Deletion::Nothing;
        }
        if self.settings.retention.of(&key.group, &key.kind) == 0 {
            self.remove(slot.0);
            return Deletion::Removed(slot);
        }
        self.records[slot.0 as usize].deleted_at = Some(at);
        self.deleted.insert(slot.0);
        self.expiring.insert((at, slot.0));
        let (row, heir) = (self.row(slot), self.heir(slot.0));
        if row.orphaned || heir == Heir::Itself {
            self.tell(slot, &row, false);
        } else {
            if heir == Heir::Unknown {
                self.doubtful.insert(slot.0);
            }
            self.orphan(slot, row, true);
        }
        Deletion::Retained(slot)
    }

    /// Removes the rows of objects that have been gone for longer than their kind is kept.
    pub fn expire(&mut self, now: i64) -> Vec<Slot> {
        let over = |(at, slot): &(i64, u32)| *at < now.saturating_sub(self.kept(*slot));
        let over: Vec<Slot> = self.expiring.iter().filter(|entry| over(entry)).map(|(_, slot)| Slot(*slot)).collect();
        self.remove_all(over)
    }

    /// When the next row is to be removed, if one is kept.
    pub fn expires_at(&self) -> Option<i64> {
        let end = |(at, slot): &(i64, u32)| at.saturating_add(self.kept(*slot)).saturating_add(1);
        self.expiring.iter().map(end).min()
    }

    /// Removes everything of a cluster.
    pub fn remove_cluster(&mut self, cluster: &str) -> Vec<Slot> {
        self.stale.retain(|(other, _), _| other != cluster);
        self.namespaces.retain(|(other, _), _| other != cluster);
        let tenants: Vec<String> = self
            .scopes
            .tenants()
            .filter(|(of, ..)| *of == cluster)
            .map(|(_, namespace, _)| namespace.to_owned())
            .collect();
        for namespace in tenants {
            self.scopes.set_tenant(&self.hashes, cluster, &namespace, None);
        }
        self.remove_where(|index, family| index.scopes.text(family.cluster) == cluster)
    }

    /// Removes everything of a kind in a cluster.
    pub fn remove_kind(&mut self, cluster: &str, group: &str, kind: &str) -> Vec<Slot> {
        self.stale.remove(&(cluster.to_owned(), Some((group.to_owned(), kind.to_owned()))));
        self.remove_where(|index, family| index.is_kind(family, cluster, group, kind))
    }

    /// Compares the rows of a kind with the objects that are known to exist, by namespace and name: rows without an
    /// object are deleted, objects without a row are named.
    pub fn reconcile(
        &mut self,
        cluster: &str,
        group: &str,
        kind: &str,
        known: &HashSet<(String, String)>,
        at: i64,
    ) -> Reconciled {
        let mut rows = HashSet::new();
        let mut ghosts = Vec::new();
        for family in self.scopes.families().filter(|family| self.is_kind(&family.key, cluster, group, kind)) {
            for slot in (&family.rows - &self.deleted).iter().map(Slot) {
                let key = self.key(slot);
                let place = (key.namespace.clone(), key.name.clone());
                if known.contains(&place) {
                    rows.insert(place);
                } else {
                    ghosts.push(key);
                }
            }
        }
        let deletions = ghosts.iter().map(|key| self.delete(key, None, at)).collect();
        let missing = known.iter().filter(|place| !rows.contains(*place)).map(|(namespace, name)| Key {
            cluster: cluster.to_owned(),
            namespace: namespace.clone(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            name: name.clone(),
        });
        let missing = missing.collect();
        Reconciled { deletions, missing }
    }

    /// Since when the rows of a cluster, or of one kind (group, kind) in it, may be out of date; `None`: they are not.
    pub fn set_stale(&mut self, cluster: &str, kind: Option<(&str, &str)>, since: Option<i64>) {
        let key = (cluster.to_owned(), kind.map(|(group, kind)| (group.to_owned(), kind.to_owned())));
        match since {
            Some(since) => self.stale.insert(key, since),
            None => self.stale.remove(&key),
        };
    }

    /// Which tenant a namespace belongs to. Tells whether that is new.
    pub fn set_tenant(&mut self, cluster: &str, namespace: &str, tenant: Option<&str>) -> bool {
        let tenant = tenant.filter(|tenant| !tenant.is_empty());
        let is_new = self.scopes.set_tenant(&self.hashes, cluster, namespace, tenant);
        if is_new {
            for row in self.rows_of_namespace(cluster, namespace, |_, _| true) {
                if let Some(slot) = self.find(&row.key) {
                    self.tell(slot, &row, false);
                }
            }
        }
        is_new
    }

    /// For how long a row stays when its object is gone.
    fn kept(&self, slot: u32) -> i64 {
        let (_, family) = self.scopes.at(self.scope[slot as usize]);
        self.settings.retention.of(self.scopes.text(family.group), self.scopes.text(family.kind))
    }

    fn remove_all(&mut self, slots: Vec<Slot>) -> Vec<Slot> {
        for slot in &slots {
            self.remove(slot.0);
        }
        slots
    }

    fn remove_where(&mut self, is_it: impl Fn(&Index, &FamilyKey) -> bool) -> Vec<Slot> {
        let families = self.scopes.families().filter(|family| is_it(self, &family.key));
        let slots = families.flat_map(|family| family.rows.iter().map(Slot)).collect();
        self.remove_all(slots)
    }

    fn is_kind(&self, family: &FamilyKey, cluster: &str, group: &str, kind: &str) -> bool {
        let text = |id: u32| self.scopes.text(id);
        text(family.cluster) == cluster && text(family.group) == group && text(family.kind) == kind
    }
}
