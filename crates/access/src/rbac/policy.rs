//! All RBAC objects of one cluster, with bindings found by their subjects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::object::{Binding, Kept, RbacKey, RbacKind, RbacObject};
use super::request::{Request, Who};
use super::rule::{Rule, Rules};
use super::subject::{Principal, Subject};

/// The RBAC objects of one cluster. Changing one costs what that one holds, not what all of them do.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    epoch: u64,
    /// Also those without rules: a role that lost its rules must not keep them.
    roles: HashMap<RbacKey, Rules>,
    /// Every list of rules once, with how many roles have it: roles are mostly copies of one another.
    distinct: HashMap<Rules, usize>,
    bindings: HashMap<RbacKey, Arc<Binding>>,
    by_principal: HashMap<Principal, Vec<Arc<Binding>>>,
}

impl Policy {
    pub fn new() -> Policy {
        Policy::default()
    }

    /// Another number after every change that could change an answer: what was compiled before counts no more.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Takes an object as it is now, in place of what it was.
    pub fn upsert(&mut self, object: impl Into<RbacObject>) {
        match object.into().keep() {
            Kept::Role(key, rules) => self.upsert_role(key, &rules),
            Kept::Binding(binding) => self.upsert_binding(binding),
        }
    }

    /// Forgets an object that is gone; one that was not there is nothing.
    pub fn remove(&mut self, key: &RbacKey) {
        let role = self.roles.remove(key).map(|rules| self.forget_rules(&rules));
        let binding = self.bindings.remove(key).map(|binding| self.forget_subjects(&binding));
        if role.is_some() || binding.is_some() {
            self.epoch += 1;
        }
    }

    /// Takes the whole list of one kind: what is not in it is gone.
    pub fn replace<O: Into<RbacObject>>(&mut self, kind: RbacKind, objects: impl IntoIterator<Item = O>) {
        let objects: Vec<RbacObject> = objects.into_iter().map(Into::into).collect();
        let listed: HashSet<RbacKey> = objects.iter().map(RbacObject::key).collect();
        let known = self.roles.keys().chain(self.bindings.keys());
        let gone: Vec<_> = known.filter(|key| key.kind == kind && !listed.contains(*key)).cloned().collect();
        for key in &gone {
            self.remove(key);
        }
        for object in objects {
            self.upsert(object);
        }
    }

    /// Whether somebody may do this.
    pub fn allows(&self, who: &Who, request: &Request<'_>) -> bool {
        let place = request.place();
        let bindings = self.bindings_of(who).filter(|binding| binding.counts_in(place));
        who.is_master() || bindings.flat_map(|binding| self.rules_of(binding)).any(|rule| rule.allows(request))
    }

    /// Whether somebody may use a path that is no resource, such as `/metrics`. Only ClusterRoleBindings count.
    pub fn allows_path(&self, who: &Who, verb: &str, path: &str) -> bool {
        let bindings = self.bindings_of(who).filter(|binding| binding.counts_in(""));
        who.is_master() || bindings.flat_map(|binding| self.rules_of(binding)).any(|rule| rule.allows_path(verb, path))
    }

    /// Every binding of the user and of the groups; one with several of them comes several times.
    pub(super) fn bindings_of(&self, who: &Who) -> impl Iterator<Item = &Arc<Binding>> {
        let groups = who.groups.iter().map(|group| Principal::Group(group.clone()));
        let principals = std::iter::once(Principal::User(who.user.clone())).chain(groups);
        principals.filter_map(|principal| self.by_principal.get(&principal)).flatten()
    }

    pub(super) fn bindings(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.bindings.values()
    }

    /// The rules of a binding's role; none if there is no such role.
    pub(super) fn rules_of(&self, binding: &Binding) -> &[Rule] {
        self.shared_rules_of(binding).map_or(&[], |rules| rules)
    }

    pub(super) fn shared_rules_of(&self, binding: &Binding) -> Option<&Rules> {
        self.roles.get(binding.role.as_ref()?)
    }

    fn upsert_role(&mut self, key: RbacKey, rules: &[Rule]) {
        if self.roles.get(&key).is_some_and(|known| **known == *rules) {
            return;
        }
        let shared = match self.distinct.get_key_value(rules) {
            Some((shared, _)) => shared.clone(),
            None => Rules::from(rules),
        };
        *self.distinct.entry(shared.clone()).or_default() += 1;
        if let Some(old) = self.roles.insert(key, shared) {
            self.forget_rules(&old);
        }
        self.epoch += 1;
    }

    fn upsert_binding(&mut self, binding: Binding) {
        if self.bindings.get(&binding.key).is_some_and(|known| **known == binding) {
            return;
        }
        let binding = Arc::new(binding);
        if let Some(old) = self.bindings.insert(binding.key.clone(), binding.clone()) {
            self.forget_subjects(&old);
        }
        for principal in principals(&binding) {
            self.by_principal.entry(principal).or_default().push(binding.clone());
        }
        self.epoch += 1;
    }

    fn forget_rules(&mut self, rules: &Rules) {
        let Some(users) = self.distinct.get_mut(rules) else { return };
        *users -= 1;
        if *users == 0 {
            self.distinct.remove(rules);
        }
    }

    fn forget_subjects(&mut self, binding: &Arc<Binding>) {
        for principal in principals(binding) {
            let Some(bindings) = self.by_principal.get_mut(&principal) else { continue };
            bindings.retain(|known| !Arc::ptr_eq(known, binding));
            if bindings.is_empty() {
                self.by_principal.remove(&principal);
            }
        }
    }
}

fn principals(binding: &Binding) -> HashSet<Principal> {
    binding.subjects.iter().map(Subject::principal).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

    use super::super::fixtures::{binding, policy, request, role, who};
    use super::*;

    #[test]
    fn bindings_count_where_they_are_and_roles_are_found_where_they_may_be() {
        let policy = policy([
            role("reader", &["get core pods"]),
            role("a/reader", &["get core secrets"]),
            role("b/reader", &["get core configmaps"]),
            role("b/only-b", &["get core secrets"]),
            role("empty", &[]),
            binding("global", "ClusterRole/reader", &["User:jane"]),
            binding("a/own", "Role/reader", &["User:jim"]),
            binding("a/borrowed", "ClusterRole/reader", &["User:joe"]),
            binding("a/foreign", "Role/only-b", &["User:jim"]),
            binding("a/dangling", "Role/nowhere", &["User:jim", "User:joe"]),
            binding("wrong", "Role/reader", &["User:jack"]),
            binding("a/odd", "Something/reader", &["User:jack"]),
            binding("nothing", "ClusterRole/empty", &["User:jack"]),
            binding("/homeless", "ClusterRole/reader", &["User:jack"]),
        ]);
        let cases = [
            // A ClusterRoleBinding counts everywhere.
            ("jane", "get core pods a x", true),
            ("jane", "get core pods - x", true),
            ("jane", "get core secrets a x", false),
            // A Role is of the binding's namespace, whatever has the same name elsewhere.
            ("jim", "get core secrets a x", true),
            ("jim", "get core secrets b x", false),
            ("jim", "get core secrets - x", false),
            ("jim", "get core configmaps a x", false),
            ("jim", "get core pods a x", false),
            // A ClusterRole in a RoleBinding stays in its namespace.
            ("joe", "get core pods a x", true),
            ("joe", "get core pods b x", false),
            ("joe", "get core pods - x", false),
            // References to other kinds, roles without rules and RoleBindings of no namespace are nothing.
            ("jack", "get core pods a x", false),
            ("jack", "get core pods - x", false),
            ("jack", "get core secrets a x", false),
            // The masters need none of it, by exactly that group.
            ("jill system:masters", "delete any thing - x", true),
            ("jill system:Masters", "delete any thing - x", false),
            ("system:masters", "delete any thing - x", false),
        ];
        for (user, asked, expected) in cases {
            assert_eq!(policy.allows(&who(user), &request(asked)), expected, "{user}: {asked}");
        }
    }

    #[test]
    fn a_namespace_is_read_in_itself_and_listed_in_the_cluster() {
        let policy = policy([
            role("look", &["get,list core namespaces"]),
            role("a/named", &["get core namespaces a,b"]),
            binding("a/look", "ClusterRole/look", &["User:jane"]),
            binding("a/named", "Role/named", &["User:jim"]),
        ]);
        let cases = [
            ("jane", "get core namespaces - a", true),
            ("jane", "get core namespaces - b", false),
            ("jane", "list core namespaces - a", false),
            ("jane", "list core namespaces - -", false),
            ("jim", "get core namespaces - a", true),
            ("jim", "get core namespaces - b", false),
            ("jim", "get core namespaces a b", true),
        ];
        for (user, asked, expected) in cases {
            let (who, request) = (who(user), request(asked));
            assert_eq!(policy.allows(&who, &request), expected, "{user}: {asked}");
            let scope = policy.grants(&who, &[request.verb]).scope("", "namespaces");
            assert_eq!(scope.contains(request.namespace, request.name), expected, "compiled, {user}: {asked}");
        }
    }

    #[test]
    fn paths_are_granted_for_the_cluster_only() {
        let metrics = |kind: &str| {
            let mut role = ClusterRole::default();
            role.metadata.name = Some(kind.to_owned());
            let paths = Some(vec!["/metrics".to_owned()]);
            let rule = PolicyRule { verbs: vec!["get".to_owned()], non_resource_urls: paths, ..PolicyRule::default() };
            role.rules = Some(vec![rule]);
            RbacObject::from(role)
        };
        let policy = policy([
            metrics("metrics"),
            binding("global", "ClusterRole/metrics", &["User:jane"]),
            binding("a/local", "ClusterRole/metrics", &["User:jim"]),
        ]);
        assert!(policy.allows_path(&who("jane"), "get", "/metrics"));
        assert!(!policy.allows_path(&who("jane"), "post", "/metrics"));
        assert!(!policy.allows_path(&who("jim"), "get", "/metrics"));
        assert!(policy.allows_path(&who("jill system:masters"), "get", "/anything"));
    }

    #[test]
    fn every_change_counts_at_once_and_only_changes_move_the_epoch() {
        let (jane, get) = (who("jane"), request("get core pods a x"));
        let mut policy = Policy::new();
        let steps: Vec<(&str, Change, bool, bool)> = vec![
            // what, the change, whether it moves the epoch, whether jane may afterwards
            ("dangling", upsert(binding("a/read", "Role/reader", &["User:jane"])), true, false),
            ("resolved", upsert(role("a/reader", &["get core pods"])), true, true),
            ("again", upsert(role("a/reader", &["get core pods"])), false, true),
            ("bound again", upsert(binding("a/read", "Role/reader", &["User:jane"])), false, true),
            ("emptied", upsert(role("a/reader", &[])), true, false),
            ("refilled", upsert(role("a/reader", &["* * *"])), true, true),
            ("another subject", upsert(binding("a/read", "Role/reader", &["User:jim"])), true, false),
            ("back", upsert(binding("a/read", "Role/reader", &["User:jim", "User:jane"])), true, true),
            ("another role", upsert(binding("a/read", "Role/other", &["User:jane"])), true, false),
            ("back again", upsert(binding("a/read", "Role/reader", &["User:jane"])), true, true),
            ("role gone", remove(role("a/reader", &[])), true, false),
            ("gone already", remove(role("a/reader", &[])), false, false),
            ("role back", upsert(role("a/reader", &["get core pods"])), true, true),
            ("binding gone", remove(binding("a/read", "Role/reader", &[])), true, false),
            ("listed", list(RbacKind::RoleBinding, vec![binding("a/two", "Role/reader", &["User:jane"])]), true, true),
            (
                "same list",
                list(RbacKind::RoleBinding, vec![binding("a/two", "Role/reader", &["User:jane"])]),
                false,
                true,
            ),
            ("other kind", list(RbacKind::ClusterRoleBinding, vec![]), false, true),
            ("empty list", list(RbacKind::Role, vec![]), true, false),
            ("empty list of bindings", list(RbacKind::RoleBinding, vec![]), true, false),
        ];
        for (what, change, moves, allowed) in steps {
            let epoch = policy.epoch();
            change(&mut policy);
            assert_eq!(policy.epoch() != epoch, moves, "{what}");
            assert_eq!(policy.allows(&jane, &get), allowed, "{what}");
            assert_eq!(policy.grants(&jane, &["get"]).scope("", "pods").contains("a", "x"), allowed, "{what}");
        }
        let left = (policy.roles.len(), policy.distinct.len(), policy.bindings.len(), policy.by_principal.len());
        assert_eq!(left, (0, 0, 0, 0), "nothing is kept of what is gone");
    }

    type Change = Box<dyn Fn(&mut Policy)>;

    fn upsert(object: RbacObject) -> Change {
        Box::new(move |policy| policy.upsert(object.clone()))
    }

    fn remove(object: RbacObject) -> Change {
        Box::new(move |policy| policy.remove(&object.key()))
    }

    fn list(kind: RbacKind, objects: Vec<RbacObject>) -> Change {
        Box::new(move |policy| policy.replace(kind, objects.clone()))
    }
}
