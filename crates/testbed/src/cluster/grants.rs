//! RBAC in one call: a role with rules, and its binding.
//!
//! The API server's authorizer learns of a binding a moment after it was written, so that a grant returns only when a
//! SubjectAccessReview says yes. Taking a binding away does not wait: how soon that counts is what tests look at.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::core::ObjectMeta;

use super::{Cluster, unique};
use crate::eventually;

/// Where a grant holds.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    Namespace(&'a str),
    Cluster,
}

/// A role and its binding, by name.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Of the namespace, or none for the whole cluster.
    pub namespace: Option<String>,
    pub role: String,
    pub binding: String,
}

/// Verbs on resources; a subresource is written `pods/log`.
pub fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> PolicyRule {
    PolicyRule {
        verbs: owned(verbs),
        api_groups: Some(owned(groups)),
        resources: Some(owned(resources)),
        ..PolicyRule::default()
    }
}

/// To whom.
pub mod subject {
    use super::Subject;

    pub fn user(name: &str) -> Subject {
        Subject { api_group: Some(super::GROUP.to_owned()), ..named("User", name) }
    }

    pub fn group(name: &str) -> Subject {
        Subject { api_group: Some(super::GROUP.to_owned()), ..named("Group", name) }
    }

    pub fn service_account(namespace: &str, name: &str) -> Subject {
        Subject { namespace: Some(namespace.to_owned()), ..named("ServiceAccount", name) }
    }

    fn named(kind: &str, name: &str) -> Subject {
        Subject { kind: kind.to_owned(), name: name.to_owned(), ..Subject::default() }
    }
}

/// A role that exists, for [`Cluster::bind`].
pub mod role {
    use super::RoleRef;

    pub fn cluster(name: &str) -> RoleRef {
        RoleRef { api_group: super::GROUP.to_owned(), kind: "ClusterRole".to_owned(), name: name.to_owned() }
    }

    pub fn namespaced(name: &str) -> RoleRef {
        RoleRef { api_group: super::GROUP.to_owned(), kind: "Role".to_owned(), name: name.to_owned() }
    }
}

const GROUP: &str = "rbac.authorization.k8s.io";

impl Cluster {
    /// Makes a role with these rules, binds it, and returns when it counts.
    pub async fn grant(&self, scope: Scope<'_>, subjects: &[Subject], rules: &[PolicyRule]) -> Grant {
        let grant = self.bind_rules(scope, subjects, rules).await;
        self.wait_until_allowed(scope, subjects, rules).await;
        grant
    }

    /// Makes a role with these rules and binds it, and does not wait until it counts: for rules that name objects, of which
    /// [`Cluster::grant`] would ask in vain.
    pub async fn bind_rules(&self, scope: Scope<'_>, subjects: &[Subject], rules: &[PolicyRule]) -> Grant {
        let name = unique("grant");
        let metadata = named(&name);
        let create = PostParams::default();
        let role = match scope {
            Scope::Namespace(namespace) => {
                let role = Role { metadata, rules: Some(rules.to_vec()) };
                let roles: Api<Role> = Api::namespaced(self.client(), namespace);
                roles.create(&create, &role).await.expect("create a Role");
                role::namespaced(&name)
            }
            Scope::Cluster => {
                let role = ClusterRole { metadata, rules: Some(rules.to_vec()), ..ClusterRole::default() };
                let roles: Api<ClusterRole> = Api::all(self.client());
                roles.create(&create, &role).await.expect("create a ClusterRole");
                role::cluster(&name)
            }
        };
        self.bind(scope, role, subjects).await
    }

    /// Binds a role that exists, and does not wait until it counts.
    pub async fn bind(&self, scope: Scope<'_>, role: RoleRef, subjects: &[Subject]) -> Grant {
        let binding = unique("binding");
        let metadata = named(&binding);
        let (name, subjects) = (role.name.clone(), Some(subjects.to_vec()));
        let create = PostParams::default();
        let namespace = match scope {
            Scope::Namespace(namespace) => {
                let bindings: Api<RoleBinding> = Api::namespaced(self.client(), namespace);
                let binding = RoleBinding { metadata, role_ref: role, subjects };
                bindings.create(&create, &binding).await.expect("create a RoleBinding");
                Some(namespace.to_owned())
            }
            Scope::Cluster => {
                let bindings: Api<ClusterRoleBinding> = Api::all(self.client());
                let binding = ClusterRoleBinding { metadata, role_ref: role, subjects };
                bindings.create(&create, &binding).await.expect("create a ClusterRoleBinding");
                None
            }
        };
        Grant { namespace, role: name, binding }
    }

    /// Removes the binding of a grant; the role stays.
    pub async fn remove_binding(&self, grant: &Grant) {
        let delete = DeleteParams::default();
        let removed = match &grant.namespace {
            Some(namespace) => {
                let bindings: Api<RoleBinding> = Api::namespaced(self.client(), namespace);
                bindings.delete(&grant.binding, &delete).await.map(|_| ())
            }
            None => Api::<ClusterRoleBinding>::all(self.client()).delete(&grant.binding, &delete).await.map(|_| ()),
        };
        removed.expect("delete a binding");
    }

    /// What the API server answers to this SubjectAccessReview.
    pub async fn allows(&self, spec: SubjectAccessReviewSpec) -> bool {
        let reviews: Api<SubjectAccessReview> = Api::all(self.client());
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = reviews.create(&PostParams::default(), &review).await.expect("review an access");
        answer.status.expect("a status").allowed
    }

    /// One question per subject, about the first thing that each rule allows.
    pub(super) async fn wait_until_allowed(&self, scope: Scope<'_>, subjects: &[Subject], rules: &[PolicyRule]) {
        for subject in subjects {
            for rule in rules {
                let spec = question(scope, subject, rule);
                eventually(Duration::from_mins(1), || self.allows(spec.clone())).await;
            }
        }
    }
}

fn question(scope: Scope<'_>, subject: &Subject, rule: &PolicyRule) -> SubjectAccessReviewSpec {
    let first = |list: &Option<Vec<String>>| list.as_ref().and_then(|list| list.first()).cloned();
    let verb = rule.verbs.first().cloned();
    let mut spec = SubjectAccessReviewSpec::default();
    match (subject.kind.as_str(), &subject.namespace) {
        ("Group", _) => spec.groups = Some(vec![subject.name.clone()]),
        ("ServiceAccount", Some(namespace)) => {
            spec.user = Some(format!("system:serviceaccount:{namespace}:{}", subject.name));
        }
        _ => spec.user = Some(subject.name.clone()),
    }
    if let Some(path) = first(&rule.non_resource_urls) {
        spec.non_resource_attributes = Some(NonResourceAttributes { path: Some(path), verb });
        return spec;
    }
    let resource = first(&rule.resources).unwrap_or_default();
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource.to_owned(), Some(subresource.to_owned())),
        None => (resource, None),
    };
    let namespace = match scope {
        Scope::Namespace(namespace) => Some(namespace.to_owned()),
        Scope::Cluster => None,
    };
    spec.resource_attributes = Some(ResourceAttributes {
        namespace,
        verb,
        group: first(&rule.api_groups),
        resource: Some(resource),
        subresource,
        name: first(&rule.resource_names),
        ..ResourceAttributes::default()
    });
    spec
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|&item| item.to_owned()).collect()
}
