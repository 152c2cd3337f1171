//! What there is, whoever may see it: for those who collect, report and ask a cluster's own authorizer.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::Index;

/// A kind of a cluster that has rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    pub cluster: String,
    pub group: String,
    pub kind: String,
    /// The plural.
    pub resource: String,
}

impl Index {
    /// How many rows there are of each kind in each cluster.
    pub fn inventory(&self) -> BTreeMap<Kept, u64> {
        let mut counts = BTreeMap::new();
        for family in self.scopes.families() {
            let text = |id: u32| self.scopes.text(id).to_owned();
            let key = &family.key;
            let kept = Kept {
                cluster: text(key.cluster),
                group: text(key.group),
                kind: text(key.kind),
                resource: text(key.resource),
            };
            // A category that was changed makes two families of one kind.
            *counts.entry(kept).or_default() += family.rows.len();
        }
        counts
    }

    /// The namespaces of a cluster in which there are rows, by group and resource; those of the whole cluster have the empty
    /// one. What is left of namespaces that are gone is not among them.
    pub fn places(&self, cluster: &str) -> BTreeMap<(String, String), BTreeSet<String>> {
        let mut places: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        let text = |id: u32| self.scopes.text(id).to_owned();
        for family in self.scopes.families().filter(|family| self.scopes.text(family.key.cluster) == cluster) {
            let of_kind = places.entry((text(family.key.group), text(family.key.resource))).or_default();
            of_kind
                .extend(family.scopes.keys().filter(|(_, orphaned)| !orphaned).map(|(namespace, _)| text(*namespace)));
        }
        places
    }

    /// The clusters of which anything is known: rows, tenants, marks.
    pub fn known_clusters(&self) -> BTreeSet<String> {
        let families = self.scopes.families().map(|family| self.scopes.text(family.key.cluster).to_owned());
        let tenants = self.scopes.tenants().map(|(cluster, ..)| cluster.to_owned());
        let marks =
            self.stale.keys().map(|(cluster, _)| cluster).chain(self.namespaces.keys().map(|(cluster, _)| cluster));
        families.chain(tenants).chain(marks.cloned()).collect()
    }

    /// The namespaces of a cluster that have rows or a tenant.
    pub fn known_namespaces(&self, cluster: &str) -> BTreeSet<String> {
        let rows = self.places(cluster).into_values().flatten().filter(|namespace| !namespace.is_empty());
        let tenants = self.scopes.tenants().filter(|(of, ..)| *of == cluster);
        rows.chain(tenants.map(|(_, namespace, _)| namespace.to_owned())).collect()
    }
}
