//! What people see by a policy, as the index takes it, kept only for as long as nothing changed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use access::rbac::{self, Policy, Who};

use crate::index::{Grants, Scope, View};

/// How many people's grants are kept.
const MOST_KEPT: usize = 1000;

/// The views that were compiled from one policy at its present epoch. Begin anew with another policy: epochs of two tell nothing.
#[derive(Debug, Default)]
pub struct Compiled {
    epoch: u64,
    by_person: HashMap<Who, View>,
}

impl Compiled {
    /// What somebody sees: rows by any of the verbs, bodies by `get`. The verbs are the same each time.
    pub fn view(&mut self, policy: &Policy, who: &Who, row_verbs: &[String]) -> View {
        if self.epoch != policy.epoch() || self.by_person.len() >= MOST_KEPT {
            *self = Compiled { epoch: policy.epoch(), by_person: HashMap::new() };
        }
        if let Some(view) = self.by_person.get(who) {
            return view.clone();
        }
        let verbs: Vec<&str> = row_verbs.iter().map(String::as_str).collect();
        let rows: Arc<dyn Grants> = Arc::new(ByRbac(policy.grants(who, &verbs)));
        let bodies: Arc<dyn Grants> = Arc::new(ByRbac(policy.grants(who, &["get"])));
        let view = View::Granted { rows, bodies };
        self.by_person.insert(who.clone(), view.clone());
        view
    }
}

/// Grants of RBAC as the index takes them.
struct ByRbac(rbac::Grants);

impl Grants for ByRbac {
    fn scope(&self, group: &str, resource: &str) -> Scope {
        match self.0.scope(group, resource) {
            rbac::Scope::Nothing => Scope::default(),
            rbac::Scope::Everything => Scope { everywhere: true, ..Scope::default() },
            rbac::Scope::Some { namespaces, names } => {
                // Of the cluster only: a kind of the cluster has no other objects. Where the kind may have some in
                // namespaces the name alone would grant those too, so that such a grant is left out.
                let of_cluster = group.is_empty() && resource == "namespaces";
                let named = |named: rbac::Named| {
                    let namespace = named.namespace.map(|namespace| namespace.to_string());
                    match namespace {
                        Some(namespace) if namespace.is_empty() => of_cluster.then(|| (None, named.name.to_string())),
                        namespace => Some((namespace, named.name.to_string())),
                    }
                };
                let namespaces: BTreeSet<String> = namespaces.iter().map(ToString::to_string).collect();
                Scope { everywhere: false, namespaces, names: names.into_iter().filter_map(named).collect() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use access::rbac::{RbacKey, RbacKind};
    use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn views_are_kept_until_the_policy_changes_and_no_longer() {
        let role = json!({
            "metadata": {"name": "view"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
        });
        let binding = json!({
            "metadata": {"name": "jane", "namespace": "a"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": "jane"}],
        });
        let mut policy = Policy::new();
        policy.upsert(from_value::<ClusterRole>(role).unwrap());
        policy.upsert(from_value::<RoleBinding>(binding).unwrap());
        let jane = Who { user: "jane".to_owned(), groups: Vec::new() };
        let mut compiled = Compiled::default();
        let mut rows = |policy: &Policy| match compiled.view(policy, &jane, &["list".to_owned()]) {
            View::Granted { rows, .. } => rows,
            other => panic!("{other:?}"),
        };
        let first = rows(&policy);
        assert_eq!(first.scope("", "pods").namespaces, BTreeSet::from(["a".to_owned()]));
        assert!(Arc::ptr_eq(&first, &rows(&policy)), "compiled again without a change");
        policy.remove(&RbacKey { kind: RbacKind::RoleBinding, namespace: "a".to_owned(), name: "jane".to_owned() });
        assert_eq!(rows(&policy).scope("", "pods"), Scope::default());
    }
}
