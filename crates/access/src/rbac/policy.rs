//! All RBAC objects of one cluster, with bindings found by their subjects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::object::{Binding, Kept, RbacKey, RbacKind, RbacObject};
use super::request::{Request, Who};
use super::rule::{Rule, Rules};
use super::subject::Principal;

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
    binding.subjects.iter().map(super::subject::Subject::principal).collect()
}
