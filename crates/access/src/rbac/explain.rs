//! Why somebody may, and who may: for people.

use serde::Serialize;

use super::MASTERS;
use super::object::{Binding, RbacKey};
use super::policy::Policy;
use super::request::{Request, Who};
use super::subject::Subject;

/// One of the ways by which something is granted; each would do alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reason {
    pub subject: Subject,
    pub by: Means,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Means {
    /// The group `system:masters`, which needs no binding.
    Masters,
    Binding {
        binding: RbacKey,
        role: RbacKey,
        /// Which of the role's rules, counted from 0.
        rule: usize,
    },
}

impl Policy {
    /// Every way by which somebody may do this, sorted; none if they may not. Of a binding with several subjects that
    /// fit, the first is named.
    pub fn explain(&self, who: &Who, request: &Request<'_>) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = who.is_master().then(masters).into_iter().collect();
        for binding in self.bindings_of(who) {
            let subject = binding.subjects.iter().find(|subject| subject.is(who));
            let Some(subject) = subject else { continue };
            reasons.extend(self.means(binding, request).map(|by| Reason { subject: subject.clone(), by }));
        }
        sorted(reasons)
    }

    /// Every subject that may do this, with the binding and the rule, sorted. `system:masters` always may. Whoever is in
    /// a group that is named may too: a policy knows no members.
    pub fn who_can(&self, request: &Request<'_>) -> Vec<Reason> {
        let mut reasons = vec![masters()];
        for binding in self.bindings() {
            for by in self.means(binding, request) {
                let subjects = binding.subjects.iter().cloned();
                reasons.extend(subjects.map(|subject| Reason { subject, by: by.clone() }));
            }
        }
        sorted(reasons)
    }

    /// The rules by which a binding grants this.
    fn means(&self, binding: &Binding, request: &Request<'_>) -> impl Iterator<Item = Means> {
        let counts = binding.counts_in(request.place());
        let role = binding.role.as_ref().filter(|_| counts);
        role.into_iter().flat_map(move |role| {
            let rules = self.rules_of(binding).iter().enumerate();
            let allowing = rules.filter(|(_, rule)| rule.allows(request));
            allowing.map(|(rule, _)| Means::Binding { binding: binding.key.clone(), role: role.clone(), rule })
        })
    }
}

fn masters() -> Reason {
    Reason { subject: Subject::Group { name: MASTERS.to_owned() }, by: Means::Masters }
}

fn sorted(mut reasons: Vec<Reason>) -> Vec<Reason> {
    reasons.sort();
    reasons.dedup();
    reasons
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{binding, policy, request, role, who};
    use super::*;

    fn told(reasons: &[Reason]) -> Vec<String> {
        let told = |reason: &Reason| match &reason.by {
            Means::Masters => format!("{} needs no binding", reason.subject),
            Means::Binding { binding, role, rule } => format!("{} by {binding}, {role}, rule {rule}", reason.subject),
        };
        reasons.iter().map(told).collect()
    }

    fn world() -> Policy {
        policy([
            role("view", &["list core pods", "get core pods", "* core *"]),
            role("a/own", &["get core pods x"]),
            binding("global", "ClusterRole/view", &["Group:viewers"]),
            binding("a/own", "Role/own", &["ServiceAccount:robot", "User:jim", "User:jane", "Group:viewers"]),
            binding("b/own", "Role/own", &["User:jane"]),
            binding("b/view", "ClusterRole/view", &["User:jane"]),
        ])
    }

    #[test]
    fn each_reason_names_subject_binding_role_and_rule() {
        let policy = world();
        let cases: &[(&str, &str, &[&str])] = &[
            ("jim", "get core pods a x", &["user 'jim' by RoleBinding 'a/own', Role 'a/own', rule 0"]),
            ("jim", "get core pods a y", &[]),
            ("jane", "get core pods - x", &[]),
            // Of the two subjects that are her, the first of the binding.
            (
                "jane viewers",
                "get core pods a x",
                &[
                    "user 'jane' by RoleBinding 'a/own', Role 'a/own', rule 0",
                    "group 'viewers' by ClusterRoleBinding 'global', ClusterRole 'view', rule 1",
                    "group 'viewers' by ClusterRoleBinding 'global', ClusterRole 'view', rule 2",
                ],
            ),
            (
                "system:serviceaccount:a:robot system:masters",
                "get core pods a x",
                &[
                    "group 'system:masters' needs no binding",
                    "ServiceAccount 'a/robot' by RoleBinding 'a/own', Role 'a/own', rule 0",
                ],
            ),
        ];
        for (user, asked, expected) in cases {
            let (who, request) = (who(user), request(asked));
            let reasons = policy.explain(&who, &request);
            assert_eq!(told(&reasons), *expected, "{user}: {asked}");
            assert_eq!(policy.allows(&who, &request), !expected.is_empty(), "{user}: {asked}");
        }
    }

    #[test]
    fn who_can_names_every_subject_and_always_the_masters() {
        let policy = world();
        let masters = "group 'system:masters' needs no binding";
        assert_eq!(told(&policy.who_can(&request("get apps pods a x"))), [masters]);
        assert_eq!(
            told(&policy.who_can(&request("list core pods b y"))),
            [
                "user 'jane' by RoleBinding 'b/view', ClusterRole 'view', rule 0",
                "user 'jane' by RoleBinding 'b/view', ClusterRole 'view', rule 2",
                masters,
                "group 'viewers' by ClusterRoleBinding 'global', ClusterRole 'view', rule 0",
                "group 'viewers' by ClusterRoleBinding 'global', ClusterRole 'view', rule 2",
            ]
        );
        let a = told(&policy.who_can(&request("get core pods a x")));
        assert!(
            a.contains(&"ServiceAccount 'a/robot' by RoleBinding 'a/own', Role 'a/own', rule 0".to_owned()),
            "{a:?}"
        );
        assert!(!a.iter().any(|reason| reason.contains("'b/")), "{a:?}");
    }

    #[test]
    fn reasons_read_well_as_json() {
        let reasons = world().explain(&who("jim"), &request("get core pods a x"));
        let expected = serde_json::json!([{
            "subject": {"kind": "User", "name": "jim"},
            "by": {"binding": {
                "binding": {"kind": "RoleBinding", "namespace": "a", "name": "own"},
                "role": {"kind": "Role", "namespace": "a", "name": "own"},
                "rule": 0,
            }},
        }]);
        assert_eq!(serde_json::to_value(reasons).unwrap(), expected);
    }
}
