//! What a caller may see, cluster by cluster. Whatever is not granted is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::row::Key;

/// What a caller may see. A cluster that is not in it is not seen at all.
#[derive(Clone, Debug, Default)]
pub struct Visibility {
    clusters: BTreeMap<String, View>,
}

/// What a caller may see of one cluster.
#[derive(Clone)]
pub enum View {
    /// Nothing, because nobody can tell now what is allowed; answers say so.
    Withheld(String),
    /// Rows and bodies of all kinds.
    Everything,
    /// Rows where the one grants, and their bodies where the other does too.
    Granted { rows: Arc<dyn Grants>, bodies: Arc<dyn Grants> },
}

/// What somebody may do in a cluster with the objects of each kind.
pub trait Grants: Send + Sync {
    /// What is granted of one resource, by its group and its plural.
    fn scope(&self, group: &str, resource: &str) -> Scope;
}

/// Where something is granted. The default is nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// In all namespaces, and for objects of the whole cluster.
    pub everywhere: bool,
    /// Namespaces in which all objects are granted. Objects of the whole cluster are in none.
    pub namespaces: BTreeSet<String>,
    /// Single objects; without a namespace, those of that name in every one and of the whole cluster. A namespace without a name
    /// is none.
    pub names: BTreeSet<(Option<String>, String)>,
}

/// A cluster of which nothing is shown for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    pub cluster: String,
    pub reason: String,
}

impl Visibility {
    #[must_use]
    pub fn with(mut self, cluster: impl Into<String>, view: View) -> Visibility {
        self.clusters.insert(cluster.into(), view);
        self
    }

    pub fn of(&self, cluster: &str) -> Option<&View> {
        self.clusters.get(cluster)
    }

    /// The clusters of which nothing is shown for now.
    pub fn withheld(&self) -> Vec<Withheld> {
        let withheld = self.clusters.iter().filter_map(|(cluster, view)| match view {
            View::Withheld(reason) => Some(Withheld { cluster: cluster.clone(), reason: reason.clone() }),
            View::Everything | View::Granted { .. } => None,
        });
        withheld.collect()
    }

    /// Whether a single row is seen.
    pub(super) fn sees(&self, key: &Key, resource: &str, orphaned: bool) -> bool {
        match self.of(&key.cluster) {
            None | Some(View::Withheld(_)) => false,
            Some(View::Everything) => true,
            Some(View::Granted { rows, .. }) => rows.scope(&key.group, resource).covers(key, orphaned),
        }
    }
}

impl Scope {
    /// Whether an object is granted. One that is left of a namespace that is gone needs a grant that is not of that
    /// namespace: one of the same name may belong to others now.
    pub fn covers(&self, key: &Key, orphaned: bool) -> bool {
        let in_namespace = !orphaned && !key.namespace.is_empty();
        let named = |namespace: Option<&String>| self.names.contains(&(namespace.cloned(), key.name.clone()));
        self.everywhere
            || (in_namespace && self.namespaces.contains(&key.namespace))
            || named(None)
            || (in_namespace && named(Some(&key.namespace)))
    }
}

impl fmt::Debug for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            View::Withheld(_) => "Withheld",
            View::Everything => "Everything",
            View::Granted { .. } => "Granted",
        })
    }
}
