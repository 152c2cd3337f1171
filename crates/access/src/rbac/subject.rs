//! Whom a binding is for.

use std::fmt;

use k8s_openapi::api::rbac::v1 as rbac;
use serde::Serialize;

use super::request::Who;

/// A subject of a binding. Its `apiGroup` is not kept: the authorizer does not look at it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Subject {
    #[serde(rename = "User")]
    User { name: String },
    #[serde(rename = "Group")]
    Group { name: String },
    #[serde(rename = "ServiceAccount")]
    ServiceAccount { namespace: String, name: String },
}

/// The name by which a subject is found: every subject is one user or one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Principal {
    User(String),
    Group(String),
}

impl Subject {
    /// None for what can match nobody: unknown kinds, and ServiceAccounts without a namespace where the binding has none
    /// to lend.
    pub(super) fn read(subject: rbac::Subject, binding_namespace: &str) -> Option<Subject> {
        let name = subject.name;
        match subject.kind.as_str() {
            "User" => Some(Subject::User { name }),
            "Group" => Some(Subject::Group { name }),
            "ServiceAccount" => {
                let own = subject.namespace.filter(|namespace| !namespace.is_empty());
                let namespace = own.unwrap_or_else(|| binding_namespace.to_owned());
                (!namespace.is_empty()).then_some(Subject::ServiceAccount { namespace, name })
            }
            _ => None,
        }
    }

    pub(super) fn principal(&self) -> Principal {
        match self {
            Subject::User { name } => Principal::User(name.clone()),
            Subject::Group { name } => Principal::Group(name.clone()),
            Subject::ServiceAccount { namespace, name } => {
                Principal::User(format!("system:serviceaccount:{namespace}:{name}"))
            }
        }
    }

    /// Names are compared as written; `*` is an ordinary name.
    pub(super) fn is(&self, who: &Who) -> bool {
        match self.principal() {
            Principal::User(user) => user == who.user,
            Principal::Group(group) => who.groups.contains(&group),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::User { name } => write!(f, "user '{name}'"),
            Subject::Group { name } => write!(f, "group '{name}'"),
            Subject::ServiceAccount { namespace, name } => write!(f, "ServiceAccount '{namespace}/{name}'"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_exactly_the_user_or_group_that_it_names() {
        let jane = ("jane", ["dev", "system:authenticated"].as_slice());
        let robot = ("system:serviceaccount:a:robot", ["system:serviceaccounts"].as_slice());
        // kind, apiGroup, namespace and name of the subject, namespace of the binding, who
        let cases = [
            ("User", "", "", "jane", "a", jane, true),
            ("User", "rbac.authorization.k8s.io", "", "jane", "a", jane, true),
            ("User", "odd.example", "", "jane", "a", jane, true),
            ("User", "", "other", "jane", "a", jane, true),
            ("User", "", "", "Jane", "a", jane, false),
            ("User", "", "", "*", "a", jane, false),
            ("User", "", "", "dev", "a", jane, false),
            ("User", "", "", "system:serviceaccount:a:robot", "", robot, true),
            ("Group", "", "", "dev", "a", jane, true),
            ("Group", "", "", "system:authenticated", "", jane, true),
            ("Group", "", "", "Dev", "a", jane, false),
            ("Group", "", "", "*", "a", jane, false),
            ("Group", "", "", "jane", "a", jane, false),
            ("Group", "", "", "system:authenticated", "", robot, false),
            ("ServiceAccount", "", "a", "robot", "a", robot, true),
            ("ServiceAccount", "", "a", "robot", "b", robot, true),
            ("ServiceAccount", "", "a", "robot", "", robot, true),
            ("ServiceAccount", "", "", "robot", "a", robot, true),
            ("ServiceAccount", "", "", "robot", "b", robot, false),
            ("ServiceAccount", "", "", "robot", "", robot, false),
            ("ServiceAccount", "", "b", "robot", "a", robot, false),
            ("ServiceAccount", "", "a", "jane", "a", jane, false),
            ("Robot", "", "", "jane", "a", jane, false),
            ("user", "", "", "jane", "a", jane, false),
        ];
        for (kind, api_group, namespace, name, binding, (user, groups), expected) in cases {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let subject = rbac::Subject {
                api_group: some(api_group),
                kind: kind.to_owned(),
                name: name.to_owned(),
                namespace: some(namespace),
            };
            let who = Who { user: user.to_owned(), groups: groups.iter().map(|&group| group.to_owned()).collect() };
            let found = Subject::read(subject, binding).is_some_and(|subject| subject.is(&who));
            assert_eq!(found, expected, "{kind} '{namespace}/{name}' in '{binding}' for {who:?}");
        }
    }
}
