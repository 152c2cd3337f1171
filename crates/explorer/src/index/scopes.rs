//! Where rows are: families (a kind in a cluster) and scopes (a family in a namespace), each once, with its rows.
//!
//! Grants are about scopes, so that what somebody may see is a union of these sets; and so are most filters and facets.

use std::collections::HashMap;

use roaring::RoaringBitmap;

use super::dictionary::{Counted, Hashes};
use super::posting::{Posting, bitmap_bytes};
use super::slab::put;
use crate::row::Row;

#[derive(Debug, Default)]
pub(super) struct Scopes {
    /// Names of clusters, namespaces, groups, kinds, resources, categories, tenants, versions.
    pub(super) texts: Counted,
    families: Vec<Family>,
    family_ids: HashMap<FamilyKey, u32>,
    free_families: Vec<u32>,
    places: Vec<Scope>,
    place_ids: HashMap<ScopeKey, u32>,
    free_places: Vec<u32>,
    by_namespace: HashMap<u32, Vec<u32>>,
    /// By cluster and namespace.
    tenants: HashMap<(u32, u32), u32>,
}

/// Numbers of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FamilyKey {
    pub(super) cluster: u32,
    pub(super) group: u32,
    pub(super) kind: u32,
    pub(super) resource: u32,
    pub(super) category: u32,
}

#[derive(Debug)]
pub(super) struct Family {
    pub(super) key: FamilyKey,
    pub(super) rows: RoaringBitmap,
    /// Its scopes by namespace: those of today, and of a namespace that is gone.
    pub(super) scopes: HashMap<(u32, bool), u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ScopeKey {
    pub(super) family: u32,
    pub(super) namespace: u32,
    pub(super) orphaned: bool,
}

#[derive(Debug)]
pub(super) struct Scope {
    pub(super) key: ScopeKey,
    pub(super) tenant: Option<u32>,
    pub(super) rows: Posting,
}

impl Scopes {
    /// The scope of a row with the row in it.
    pub(super) fn insert(&mut self, hashes: &Hashes, row: &Row, slot: u32) -> u32 {
        let mut take = |text: &str| self.texts.take(hashes, text);
        let key = FamilyKey {
            cluster: take(&row.key.cluster),
            group: take(&row.key.group),
            kind: take(&row.key.kind),
            resource: take(&row.resource),
            category: take(&row.category),
        };
        let namespace = take(&row.key.namespace);
        let family = self.family(key);
        let scope = self.scope(ScopeKey { family, namespace, orphaned: row.orphaned });
        self.families[family as usize].rows.insert(slot);
        self.places[scope as usize].rows.insert(slot);
        scope
    }

    /// Takes a row out of its scope, and the scope away when it was the last.
    pub(super) fn remove(&mut self, scope: u32, slot: u32) {
        let Scope { key, rows, .. } = &mut self.places[scope as usize];
        rows.remove(slot);
        let (key, scope_is_empty) = (*key, rows.is_empty());
        let family = &mut self.families[key.family as usize];
        family.rows.remove(slot);
        let (family_key, family_is_empty) = (family.key, family.rows.is_empty());
        if scope_is_empty {
            family.scopes.remove(&(key.namespace, key.orphaned));
            self.place_ids.remove(&key);
            self.free_places.push(scope);
            if let Some(scopes) = self.by_namespace.get_mut(&key.namespace) {
                scopes.retain(|other| *other != scope);
                if scopes.is_empty() {
                    self.by_namespace.remove(&key.namespace);
                }
            }
        }
        if family_is_empty {
            self.family_ids.remove(&family_key);
            self.free_families.push(key.family);
        }
        let FamilyKey { cluster, group, kind, resource, category } = family_key;
        for text in [cluster, group, kind, resource, category, key.namespace] {
            self.texts.release(text);
        }
    }

    /// Moves a row to where it is now.
    pub(super) fn change(&mut self, hashes: &Hashes, scope: u32, row: &Row, slot: u32) -> u32 {
        if self.is_at(scope, row) {
            return scope;
        }
        // Out before in: the family may be the same, and a set has a row once.
        self.remove(scope, slot);
        self.insert(hashes, row, slot)
    }

    /// Whether a row is of this scope.
    pub(super) fn is_at(&self, scope: u32, row: &Row) -> bool {
        let Scope { key, .. } = &self.places[scope as usize];
        let family = self.families[key.family as usize].key;
        key.orphaned == row.orphaned
            && self.text(key.namespace) == row.key.namespace
            && self.text(family.cluster) == row.key.cluster
            && self.text(family.group) == row.key.group
            && self.text(family.kind) == row.key.kind
            && self.text(family.resource) == row.resource
            && self.text(family.category) == row.category
    }

    pub(super) fn text(&self, id: u32) -> &str {
        self.texts.texts.text(id)
    }

    pub(super) fn at(&self, scope: u32) -> (&Scope, &FamilyKey) {
        let found = &self.places[scope as usize];
        (found, &self.families[found.key.family as usize].key)
    }

    /// More than any number of a scope.
    pub(super) fn end(&self) -> usize {
        self.places.len()
    }

    /// Scopes that have rows.
    pub(super) fn live(&self) -> impl Iterator<Item = (u32, &Scope)> {
        (0..).zip(&self.places).filter(|(_, scope)| !scope.rows.is_empty())
    }

    pub(super) fn posting(&self, scope: u32) -> &Posting {
        &self.places[scope as usize].rows
    }

    /// Families that have rows.
    pub(super) fn families(&self) -> impl Iterator<Item = &Family> {
        self.family_ids.values().map(|id| &self.families[*id as usize])
    }

    /// Namespaces that have rows, with their scopes.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.by_namespace.iter().map(|(namespace, scopes)| (*namespace, scopes.as_slice()))
    }

    pub(super) fn of_namespace(&self, namespace: u32) -> &[u32] {
        self.by_namespace.get(&namespace).map_or(&[], Vec::as_slice)
    }

    /// Says which tenant a namespace belongs to; `None` for nobody's. Tells whether that is new.
    pub(super) fn set_tenant(&mut self, hashes: &Hashes, cluster: &str, namespace: &str, tenant: Option<&str>) -> bool {
        let known = self.texts.find(hashes, cluster).zip(self.texts.find(hashes, namespace));
        let before = known.and_then(|key| self.tenants.get(&key)).copied();
        if before.map(|tenant| self.text(tenant)) == tenant {
            return false;
        }
        if let Some(((cluster, namespace), old)) = known.zip(before) {
            self.tenants.remove(&(cluster, namespace));
            self.mark_tenant(cluster, namespace, None);
            for text in [cluster, namespace, old] {
                self.texts.release(text);
            }
        }
        if let Some(tenant) = tenant {
            let mut take = |text: &str| self.texts.take(hashes, text);
            let (cluster, namespace, tenant) = (take(cluster), take(namespace), take(tenant));
            self.tenants.insert((cluster, namespace), tenant);
            self.mark_tenant(cluster, namespace, Some(tenant));
        }
        true
    }

    /// Namespaces of a cluster that belong to somebody.
    pub(super) fn tenants(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.tenants
            .iter()
            .map(|((cluster, namespace), tenant)| (self.text(*cluster), self.text(*namespace), self.text(*tenant)))
    }

    /// The same as numbers of texts.
    pub(super) fn tenant_ids(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        self.tenants.iter().map(|((cluster, namespace), tenant)| (*cluster, *namespace, *tenant))
    }

    pub(super) fn bytes(&self) -> (usize, usize) {
        let scopes: usize = self.places.iter().map(|scope| scope.rows.heap_bytes()).sum();
        let families: usize =
            self.families.iter().map(|family| bitmap_bytes(&family.rows) + family.scopes.len() * 16).sum();
        let tables = self.places.capacity() * size_of::<Scope>() + self.place_ids.capacity() * 20;
        (self.texts.bytes(), scopes + families + tables + self.by_namespace.len() * 64 + self.place_ids.len() * 4)
    }

    /// For the audit: how often each text is used, and that no empty scope or family is left.
    pub(super) fn check(&self, versions: impl Iterator<Item = u32>) -> Result<(), String> {
        let mut uses: HashMap<u32, u32> = HashMap::new();
        let mut rows = 0;
        for (id, scope) in self.live() {
            let (_, family) = self.at(id);
            let length = u32::try_from(scope.rows.len()).expect("rows are numbered by u32");
            rows += scope.rows.len();
            for text in
                [family.cluster, family.group, family.kind, family.resource, family.category, scope.key.namespace]
            {
                *uses.entry(text).or_default() += length;
            }
            let mut within = true;
            scope.rows.for_each(|slot| within &= self.families[scope.key.family as usize].rows.contains(slot));
            if !within || !self.of_namespace(scope.key.namespace).contains(&id) {
                return Err("a scope is not in its family or its namespace".to_owned());
            }
        }
        if self.families().map(|family| family.rows.len()).sum::<u64>() != rows {
            return Err("a family has rows that are in no scope of it".to_owned());
        }
        if self.live().count() != self.place_ids.len() {
            return Err("a scope is left without rows".to_owned());
        }
        let namespaces: usize = self.by_namespace.values().map(Vec::len).sum();
        let of_families: usize = self.families().map(|family| family.scopes.len()).sum();
        if namespaces != self.place_ids.len() || of_families != self.place_ids.len() {
            return Err("a scope that is gone is still listed".to_owned());
        }
        let tenants = self.tenants.iter().flat_map(|((cluster, namespace), tenant)| [*cluster, *namespace, *tenant]);
        for text in versions.chain(tenants) {
            *uses.entry(text).or_default() += 1;
        }
        let same =
            uses.len() == self.texts.texts.len() && uses.iter().all(|(text, uses)| self.texts.uses(*text) == *uses);
        if same { Ok(()) } else { Err("names of clusters, kinds and the like are not counted right".to_owned()) }
    }

    fn mark_tenant(&mut self, cluster: u32, namespace: u32, tenant: Option<u32>) {
        for scope in self.by_namespace.get(&namespace).into_iter().flatten() {
            let scope = &mut self.places[*scope as usize];
            if self.families[scope.key.family as usize].key.cluster == cluster {
                scope.tenant = tenant;
            }
        }
    }

    fn family(&mut self, key: FamilyKey) -> u32 {
        if let Some(id) = self.family_ids.get(&key) {
            return *id;
        }
        let family = Family { key, rows: RoaringBitmap::new(), scopes: HashMap::new() };
        let id = put(&mut self.families, &mut self.free_families, family);
        self.family_ids.insert(key, id);
        id
    }

    fn scope(&mut self, key: ScopeKey) -> u32 {
        if let Some(id) = self.place_ids.get(&key) {
            return *id;
        }
        let family = &mut self.families[key.family as usize];
        let tenant = self.tenants.get(&(family.key.cluster, key.namespace)).copied();
        let id = put(&mut self.places, &mut self.free_places, Scope { key, tenant, rows: Posting::new() });
        family.scopes.insert((key.namespace, key.orphaned), id);
        self.place_ids.insert(key, id);
        self.by_namespace.entry(key.namespace).or_default().push(id);
        id
    }
}
