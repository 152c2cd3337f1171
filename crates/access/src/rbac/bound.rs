//! Everything that is bound to somebody, rule by rule: for people who look for a rule that they miss.

use std::sync::Arc;

use super::MASTERS;
use super::explain::Means;
use super::policy::Policy;
use super::request::Who;
use super::rule::Rule;
use super::subject::Subject;

/// A rule that holds for somebody, and how it comes to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bound {
    pub by: Means,
    /// All whom the binding is for.
    pub subjects: Vec<Subject>,
    pub verbs: Vec<Arc<str>>,
    pub groups: Vec<Arc<str>>,
    pub resources: Vec<Arc<str>>,
    /// None: of any name.
    pub names: Vec<Arc<str>>,
}

impl Policy {
    /// The rules about resources that hold for somebody, sorted; a binding that counts for several reasons comes once. What
    /// `system:masters` needs no binding for comes first.
    pub fn bound(&self, who: &Who) -> Vec<Bound> {
        let mut bound: Vec<Bound> = who.is_master().then(everything).into_iter().collect();
        for binding in self.bindings_of(who) {
            let Some(role) = &binding.role else { continue };
            let rules = self.rules_of(binding).iter().enumerate().filter(|(_, rule)| rule.is_about_resources());
            bound.extend(rules.map(|(number, rule)| {
                let Rule { verbs, groups, resources, names, .. } = rule;
                Bound {
                    by: Means::Binding { binding: binding.key.clone(), role: role.clone(), rule: number },
                    subjects: binding.subjects.clone(),
                    verbs: verbs.to_vec(),
                    groups: groups.to_vec(),
                    resources: resources.to_vec(),
                    names: names.to_vec(),
                }
            }));
        }
        bound.sort();
        bound.dedup();
        bound
    }
}

/// What the members of `system:masters` may do.
fn everything() -> Bound {
    let all = || vec![Arc::from("*")];
    let subjects = vec![Subject::Group { name: MASTERS.to_owned() }];
    Bound { by: Means::Masters, subjects, verbs: all(), groups: all(), resources: all(), names: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::explain::Means;
    use super::super::fixtures::{binding, policy, role, who};

    #[test]
    fn every_rule_that_is_bound_to_somebody_is_told_once() {
        let policy = policy([
            role("view", &["list core pods", "get apps deployments x,y"]),
            role("a/own", &["* * *"]),
            binding("global", "ClusterRole/view", &["Group:viewers", "User:jane"]),
            binding("a/borrowed", "ClusterRole/view", &["User:jim"]),
            binding("a/own", "Role/own", &["User:jane"]),
            binding("a/dangling", "Role/nowhere", &["User:jane"]),
        ]);
        let told = |user: &str| -> Vec<String> {
            let bound = policy.bound(&who(user));
            let tell = |bound: &super::Bound| match &bound.by {
                Means::Masters => format!("masters {:?} {:?} {:?}", bound.verbs, bound.groups, bound.resources),
                Means::Binding { binding, role, rule } => {
                    format!("{binding} {role} {rule} {:?} {:?}", bound.resources, bound.names)
                }
            };
            bound.iter().map(tell).collect()
        };
        // By the user and by the group, and yet once.
        assert_eq!(
            told("jane viewers"),
            [
                "ClusterRoleBinding 'global' ClusterRole 'view' 0 [\"pods\"] []",
                "ClusterRoleBinding 'global' ClusterRole 'view' 1 [\"deployments\"] [\"x\", \"y\"]",
                "RoleBinding 'a/own' Role 'a/own' 0 [\"*\"] []",
            ]
        );
        assert_eq!(told("jim").len(), 2);
        assert!(told("jill").is_empty());
        let master = told("jim system:masters");
        assert_eq!((master.len(), master[0].as_str()), (3, "masters [\"*\"] [\"*\"] [\"*\"]"));
    }
}
