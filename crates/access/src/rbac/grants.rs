//! What somebody may do with some verbs, compiled to sets that a query can be limited by.

use std::collections::HashMap;
use std::sync::Arc;

use super::policy::Policy;
use super::request::{Who, is_namespaces, names_in_path};
use super::rule::{Rule, Rules};

/// Everything that somebody may do with any of some verbs, as of one [`Policy::epoch`].
#[derive(Clone, Debug)]
pub struct Grants {
    /// `system:masters`.
    everything: bool,
    /// One per distinct list of rules, however many bindings lead to it.
    parts: Vec<Part>,
}

/// Rules, and where they hold.
#[derive(Clone, Debug)]
struct Part {
    rules: Rules,
    /// Those that have one of the verbs.
    useful: Vec<Useful>,
    everywhere: bool,
    namespaces: Vec<Arc<str>>,
}

#[derive(Clone, Copy, Debug)]
struct Useful {
    rule: usize,
    /// By a verb that names its object in the path: what makes a RoleBinding count for its own namespace object.
    by_path: bool,
}

/// What is granted of one resource. Nothing is nothing, never everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Nothing,
    /// Every object, in every namespace and of the cluster.
    Everything,
    /// Never both empty.
    Some {
        /// Granted whole; sorted, each once.
        namespaces: Vec<Arc<str>>,
        /// Granted one by one; sorted, each once.
        names: Vec<Named>,
    },
}

/// An object granted by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named {
    /// None: in every namespace, and of the cluster. Empty: of the cluster only.
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

impl Policy {
    /// What somebody may do with any of the verbs. Costs what is bound to them, not what is in the cluster.
    pub fn grants(&self, who: &Who, verbs: &[&str]) -> Grants {
        let mut grants = Grants { everything: who.is_master() && !verbs.is_empty(), parts: Vec::new() };
        if grants.everything {
            return grants;
        }
        let mut places: HashMap<*const [Rule], usize> = HashMap::new();
        for binding in self.bindings_of(who) {
            let Some(rules) = self.shared_rules_of(binding) else { continue };
            let at = *places.entry(Arc::as_ptr(rules)).or_insert_with(|| {
                grants.parts.push(Part::new(rules, verbs));
                grants.parts.len() - 1
            });
            let part = &mut grants.parts[at];
            match &binding.namespace {
                None => part.everywhere = true,
                // Of no namespace a RoleBinding is none.
                Some(namespace) if namespace.is_empty() => {}
                Some(namespace) => part.namespaces.push(namespace.clone()),
            }
        }
        grants.parts.retain(|part| !part.useful.is_empty() && (part.everywhere || !part.namespaces.is_empty()));
        for part in &mut grants.parts {
            tidy(&mut part.namespaces);
        }
        grants
    }
}

impl Grants {
    /// What is granted of a resource, `pods`, or of a subresource, `pods/log`.
    pub fn scope(&self, group: &str, resource: &str) -> Scope {
        if self.everything {
            return Scope::Everything;
        }
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (mut namespaces, mut names) = (Vec::new(), Vec::new());
        for part in &self.parts {
            for Useful { rule, by_path } in part.useful.iter().copied() {
                let rule = &part.rules[rule];
                if !rule.covers(group, resource, subresource) {
                    continue;
                }
                if part.everywhere && rule.only_names().is_none() {
                    return Scope::Everything;
                }
                part.add(rule, &mut namespaces, &mut names);
                if by_path && is_namespaces(resource) {
                    part.add_own_namespaces(rule, &mut names);
                }
            }
        }
        tidy(&mut namespaces);
        tidy(&mut names);
        if namespaces.is_empty() && names.is_empty() { Scope::Nothing } else { Scope::Some { namespaces, names } }
    }

    /// Whether nothing at all is granted.
    pub fn is_empty(&self) -> bool {
        !self.everything && self.parts.is_empty()
    }
}

impl Part {
    fn new(rules: &Rules, verbs: &[&str]) -> Part {
        let useful = rules.iter().enumerate().filter_map(|(at, rule)| {
            let mut with = verbs.iter().filter(|verb| rule.has_verb(verb)).peekable();
            with.peek()?;
            Some(Useful { rule: at, by_path: with.any(|verb| names_in_path(verb)) })
        });
        Part { useful: useful.collect(), rules: rules.clone(), everywhere: false, namespaces: Vec::new() }
    }

    fn add(&self, rule: &Rule, namespaces: &mut Vec<Arc<str>>, names: &mut Vec<Named>) {
        let Some(only) = rule.only_names() else {
            namespaces.extend_from_slice(&self.namespaces);
            return;
        };
        if self.everywhere {
            // What holds in every namespace need not be told for single ones.
            names.extend(only.iter().map(|name| Named { namespace: None, name: name.clone() }));
            return;
        }
        for namespace in &self.namespaces {
            names.extend(only.iter().map(|name| Named { namespace: Some(namespace.clone()), name: name.clone() }));
        }
    }

    /// A namespace object is read in its own namespace, see [`super::Request::place`].
    fn add_own_namespaces(&self, rule: &Rule, names: &mut Vec<Named>) {
        let cluster: Arc<str> = Arc::from("");
        let allowed = |namespace: &&Arc<str>| rule.only_names().is_none_or(|names| names.contains(namespace));
        let own = self.namespaces.iter().filter(allowed);
        names.extend(own.map(|namespace| Named { namespace: Some(cluster.clone()), name: namespace.clone() }));
    }
}

impl Scope {
    /// Whether an object is in it; those of the cluster have an empty namespace, collections an empty name.
    pub fn contains(&self, namespace: &str, name: &str) -> bool {
        match self {
            Scope::Nothing => false,
            Scope::Everything => true,
            Scope::Some { namespaces, names } => {
                let named = |place: Option<&str>| {
                    names
                        .binary_search_by(|known| (known.namespace.as_deref(), &*known.name).cmp(&(place, name)))
                        .is_ok()
                };
                namespaces.binary_search_by(|known| (**known).cmp(namespace)).is_ok()
                    || named(None)
                    || named(Some(namespace))
            }
        }
    }
}

fn tidy<T: Ord>(list: &mut Vec<T>) {
    // The lists are joined from sorted ones, which a stable sort takes as they are.
    list.sort();
    list.dedup();
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{binding, policy, role, who};
    use super::*;

    /// `Nothing`, `Everything`, or `namespaces | namespace/name`, with `*` for every namespace.
    fn told(scope: &Scope) -> String {
        match scope {
            Scope::Nothing => "Nothing".to_owned(),
            Scope::Everything => "Everything".to_owned(),
            Scope::Some { namespaces, names } => {
                let name = |named: &Named| format!("{}/{}", named.namespace.as_deref().unwrap_or("*"), named.name);
                format!("{} | {}", namespaces.join(" "), names.iter().map(name).collect::<Vec<_>>().join(" "))
            }
        }
    }

    fn world() -> Policy {
        policy([
            role("view", &["get,list core pods,namespaces", "get core pods/log", "watch apps *"]),
            role("named", &["get core pods x,y", "list core pods z"]),
            role("admin", &["* * *"]),
            role("a/view", &["get,list core pods,namespaces", "get core pods/log", "watch apps *"]),
            role("empty", &[]),
            binding("a/view", "ClusterRole/view", &["Group:viewers"]),
            binding("b/view", "ClusterRole/view", &["Group:viewers", "User:jane"]),
            binding("a/named", "ClusterRole/named", &["User:jim"]),
            binding("named", "ClusterRole/named", &["User:joe"]),
            binding("a/again", "ClusterRole/named", &["User:joe"]),
            binding("admin", "ClusterRole/admin", &["User:root"]),
            binding("a/admin", "ClusterRole/admin", &["User:chief"]),
            binding("a/empty", "ClusterRole/empty", &["User:jack"]),
            binding("a/dangling", "Role/nowhere", &["User:jack"]),
        ])
    }

    #[test]
    fn grants_are_the_sets_that_bindings_and_rules_make() {
        let policy = world();
        let cases = [
            ("jane viewers", "get", "", "pods", "a b | "),
            ("jane", "get", "", "pods", "b | "),
            ("jane", "get", "", "pods/log", "b | "),
            ("jane", "list", "", "pods/log", "Nothing"),
            ("jane", "watch", "apps", "anything", "b | "),
            ("jane", "get", "apps", "pods", "Nothing"),
            ("jane", "delete", "", "pods", "Nothing"),
            ("jane viewers", "get", "", "namespaces", "a b | /a /b"),
            ("jane viewers", "list", "", "namespaces", "a b | "),
            ("jim", "get", "", "pods", " | a/x a/y"),
            ("jim", "list,get", "", "pods", " | a/x a/y a/z"),
            ("joe", "get", "", "pods", " | */x */y"),
            ("root", "get", "any", "thing/part", "Everything"),
            ("chief", "get", "any", "thing", "a | "),
            ("chief", "get", "", "namespaces", "a | /a"),
            ("jack", "get", "", "pods", "Nothing"),
            ("nobody", "get", "", "pods", "Nothing"),
            ("nobody system:masters", "get", "", "pods", "Everything"),
        ];
        for (user, verbs, group, resource, expected) in cases {
            let verbs: Vec<&str> = verbs.split(',').collect();
            let scope = policy.grants(&who(user), &verbs).scope(group, resource);
            assert_eq!(told(&scope), expected, "{user}: {verbs:?} {resource}");
        }
    }

    #[test]
    fn nothing_granted_is_nothing() {
        let policy = world();
        for (user, verbs) in [
            ("nobody", ["get", "*"].as_slice()),
            ("jack", &["get", "*"]),
            ("jane", &["delete"]),
            ("root", &[]),
            ("nobody system:masters", &[]),
        ] {
            let grants = policy.grants(&who(user), verbs);
            assert!(grants.is_empty(), "{user}");
            for (group, resource) in [("", "pods"), ("", ""), ("*", "*"), ("", "namespaces")] {
                let scope = grants.scope(group, resource);
                assert_eq!(scope, Scope::Nothing, "{user}");
                assert!(!scope.contains("", "") && !scope.contains("a", "x"), "{user}");
            }
        }
        assert!(Policy::new().grants(&who(""), &["get"]).is_empty());
        assert!(!policy.grants(&who("root"), &["get"]).is_empty());
        assert!(!policy.grants(&who("nobody system:masters"), &["get"]).is_empty());
    }

    #[test]
    fn a_scope_has_what_its_sets_have() {
        let policy = world();
        // user, verb, namespace, name, whether the pods have it
        let cases = [
            ("jane viewers", "get", "a", "any", true),
            ("jane viewers", "get", "a", "", true),
            ("jane viewers", "get", "c", "any", false),
            ("jane viewers", "get", "", "a", false),
            ("jim", "get", "a", "x", true),
            ("jim", "get", "a", "z", false),
            ("jim", "get", "a", "", false),
            ("jim", "get", "b", "x", false),
            ("joe", "get", "b", "x", true),
            ("joe", "get", "", "x", true),
            ("joe", "get", "b", "z", false),
            ("root", "get", "", "", true),
        ];
        for (user, verb, namespace, name, expected) in cases {
            let scope = policy.grants(&who(user), &[verb]).scope("", "pods");
            assert_eq!(scope.contains(namespace, name), expected, "{user}: '{namespace}/{name}'");
        }
    }

    #[test]
    fn roles_with_the_same_rules_are_compiled_once() {
        let policy = policy([
            role("a/view", &["get core pods"]),
            role("b/view", &["get core pods"]),
            binding("a/view", "Role/view", &["User:jane", "Group:viewers"]),
            binding("b/view", "Role/view", &["User:jane"]),
        ]);
        let grants = policy.grants(&who("jane viewers"), &["get"]);
        assert_eq!(grants.parts.len(), 1);
        assert_eq!(told(&grants.scope("", "pods")), "a b | ");
    }
}
