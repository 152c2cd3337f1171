//! RBAC objects as Kubernetes has them, and what is kept of them.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::rule::Rule;
use super::subject::Subject;

/// One RBAC object of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum RbacObject {
    Role(Role),
    ClusterRole(ClusterRole),
    RoleBinding(RoleBinding),
    ClusterRoleBinding(ClusterRoleBinding),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum RbacKind {
    ClusterRole,
    Role,
    ClusterRoleBinding,
    RoleBinding,
}

/// Which object: no two of a cluster have the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RbacKey {
    pub kind: RbacKind,
    /// Empty for ClusterRoles and ClusterRoleBindings.
    pub namespace: String,
    pub name: String,
}

/// What a binding says, resolved as far as it goes without looking at roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) key: RbacKey,
    /// None: everywhere, objects of the cluster included.
    pub(super) namespace: Option<Arc<str>>,
    /// None for references that can never be resolved.
    pub(super) role: Option<RbacKey>,
    pub(super) subjects: Vec<Subject>,
}

/// What the policy keeps of an object.
pub(super) enum Kept {
    Role(RbacKey, Vec<Rule>),
    Binding(Binding),
}

impl RbacObject {
    pub fn key(&self) -> RbacKey {
        match self {
            RbacObject::Role(role) => namespaced(RbacKind::Role, &role.metadata),
            RbacObject::ClusterRole(role) => global(RbacKind::ClusterRole, &role.metadata),
            RbacObject::RoleBinding(binding) => namespaced(RbacKind::RoleBinding, &binding.metadata),
            RbacObject::ClusterRoleBinding(binding) => global(RbacKind::ClusterRoleBinding, &binding.metadata),
        }
    }

    pub(super) fn keep(self) -> Kept {
        let key = self.key();
        let (role_ref, subjects) = match self {
            RbacObject::Role(Role { rules, .. }) | RbacObject::ClusterRole(ClusterRole { rules, .. }) => {
                return Kept::Role(key, rules.unwrap_or_default().into_iter().map(Rule::from).collect());
            }
            RbacObject::RoleBinding(RoleBinding { role_ref, subjects, .. })
            | RbacObject::ClusterRoleBinding(ClusterRoleBinding { role_ref, subjects, .. }) => (role_ref, subjects),
        };
        let subjects = subjects.unwrap_or_default().into_iter();
        Kept::Binding(Binding {
            namespace: (key.kind == RbacKind::RoleBinding).then(|| Arc::from(key.namespace.as_str())),
            role: resolve(role_ref, &key),
            subjects: subjects.filter_map(|subject| Subject::read(subject, &key.namespace)).collect(),
            key,
        })
    }
}

impl Binding {
    /// Whether the binding counts for requests in this namespace; empty is the cluster's own scope, where only
    /// ClusterRoleBindings count.
    pub(super) fn counts_in(&self, place: &str) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == place && !place.is_empty())
    }
}

/// A RoleBinding takes Roles of its own namespace and ClusterRoles, a ClusterRoleBinding ClusterRoles only.
fn resolve(role: RoleRef, binding: &RbacKey) -> Option<RbacKey> {
    let name = role.name;
    match (role.kind.as_str(), binding.kind) {
        ("ClusterRole", _) => Some(RbacKey { kind: RbacKind::ClusterRole, namespace: String::new(), name }),
        ("Role", RbacKind::RoleBinding) => {
            Some(RbacKey { kind: RbacKind::Role, namespace: binding.namespace.clone(), name })
        }
        _ => None,
    }
}

fn namespaced(kind: RbacKind, metadata: &ObjectMeta) -> RbacKey {
    RbacKey { namespace: metadata.namespace.clone().unwrap_or_default(), ..global(kind, metadata) }
}

fn global(kind: RbacKind, metadata: &ObjectMeta) -> RbacKey {
    RbacKey { kind, namespace: String::new(), name: metadata.name.clone().unwrap_or_default() }
}

impl From<Role> for RbacObject {
    fn from(role: Role) -> RbacObject {
        RbacObject::Role(role)
    }
}

impl From<ClusterRole> for RbacObject {
    fn from(role: ClusterRole) -> RbacObject {
        RbacObject::ClusterRole(role)
    }
}

impl From<RoleBinding> for RbacObject {
    fn from(binding: RoleBinding) -> RbacObject {
        RbacObject::RoleBinding(binding)
    }
}

impl From<ClusterRoleBinding> for RbacObject {
    fn from(binding: ClusterRoleBinding) -> RbacObject {
        RbacObject::ClusterRoleBinding(binding)
    }
}

impl fmt::Display for RbacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RbacKey { kind, namespace, name } = self;
        match namespace.as_str() {
            "" => write!(f, "{kind:?} '{name}'"),
            namespace => write!(f, "{kind:?} '{namespace}/{name}'"),
        }
    }
}
