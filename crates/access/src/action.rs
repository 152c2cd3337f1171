//! What somebody wants to do, in the words of Kubernetes RBAC.

use std::fmt;

use serde::Serialize;

/// One act that a caller must be allowed to do: a verb on a resource, or on a path that is no resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Action {
    Resource {
        verb: &'static str,
        group: &'static str,
        resource: &'static str,
        subresource: Option<&'static str>,
        /// None: the whole cluster.
        namespace: Option<String>,
        name: Option<String>,
    },
    NonResource {
        verb: &'static str,
        path: &'static str,
    },
}

impl Action {
    /// A verb on a resource of the whole cluster; narrow it with [`Action::in_namespace`] and [`Action::named`].
    pub fn on(verb: &'static str, group: &'static str, resource: &'static str) -> Action {
        Action::Resource { verb, group, resource, subresource: None, namespace: None, name: None }
    }

    /// A verb on a path such as `/metrics`.
    pub fn at(verb: &'static str, path: &'static str) -> Action {
        Action::NonResource { verb, path }
    }

    #[must_use]
    pub fn in_namespace(mut self, to: impl Into<String>) -> Action {
        if let Action::Resource { namespace, .. } = &mut self {
            *namespace = Some(to.into());
        }
        self
    }

    #[must_use]
    pub fn named(mut self, to: impl Into<String>) -> Action {
        if let Action::Resource { name, .. } = &mut self {
            *name = Some(to.into());
        }
        self
    }

    #[must_use]
    pub fn subresource(mut self, to: &'static str) -> Action {
        if let Action::Resource { subresource, .. } = &mut self {
            *subresource = Some(to);
        }
        self
    }

    pub fn verb(&self) -> &'static str {
        match self {
            Action::Resource { verb, .. } | Action::NonResource { verb, .. } => verb,
        }
    }

    /// Whether this changes something, so that it must be on record before it is done.
    pub fn changes(&self) -> bool {
        !matches!(self.verb(), "get" | "list" | "watch")
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::NonResource { verb, path } => write!(f, "{verb} the path {path}"),
            Action::Resource { verb, group, resource, subresource, namespace, name } => {
                write!(f, "{verb} {resource}")?;
                if let Some(subresource) = subresource {
                    write!(f, "/{subresource}")?;
                }
                if !group.is_empty() {
                    write!(f, ".{group}")?;
                }
                if let Some(name) = name {
                    write!(f, " '{name}'")?;
                }
                match namespace {
                    Some(namespace) => write!(f, " in namespace '{namespace}'"),
                    None => write!(f, " in the whole cluster"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_names_verb_resource_and_namespace() {
        let cases = [
            (Action::at("get", "/metrics"), "get the path /metrics"),
            (Action::on("list", "", "secrets"), "list secrets in the whole cluster"),
            (
                Action::on("get", "stateward.dev", "states").subresource("outputs").in_namespace("a").named("b"),
                "get states/outputs.stateward.dev 'b' in namespace 'a'",
            ),
        ];
        for (action, expected) in cases {
            assert_eq!(action.to_string(), expected);
        }
    }

    #[test]
    fn reading_changes_nothing_and_everything_else_does() {
        for verb in ["get", "list", "watch"] {
            assert!(!Action::on(verb, "", "x").changes(), "{verb}");
        }
        for verb in ["create", "update", "patch", "delete", "unlock", "deletecollection"] {
            assert!(Action::on(verb, "", "x").changes(), "{verb}");
        }
    }
}
