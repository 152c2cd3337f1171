//! RBAC objects in few words, for tables.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject as RbacSubject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::object::RbacObject;
use super::policy::Policy;
use super::request::{Request, Who};

pub(super) fn policy(objects: impl IntoIterator<Item = RbacObject>) -> Policy {
    let mut policy = Policy::new();
    objects.into_iter().for_each(|object| policy.upsert(object));
    policy
}

/// `verbs groups resources [names]`, each separated by commas; `core` is the core group.
pub(super) fn rule(text: &str) -> PolicyRule {
    let mut words = text.split(' ');
    let mut list = || words.next().map(|word| word.split(',').map(|item| item.replace("core", "")).collect());
    PolicyRule {
        verbs: list().unwrap_or_default(),
        api_groups: list(),
        resources: list(),
        resource_names: list(),
        non_resource_urls: None,
    }
}

/// A Role `namespace/name`, or a ClusterRole `name`.
pub(super) fn role(name: &str, rules: &[&str]) -> RbacObject {
    let rules = Some(rules.iter().map(|text| rule(text)).collect());
    let metadata = metadata(name);
    if name.contains('/') {
        RbacObject::Role(Role { metadata, rules })
    } else {
        RbacObject::ClusterRole(ClusterRole { metadata, rules, aggregation_rule: None })
    }
}

/// A RoleBinding `namespace/name`, or a ClusterRoleBinding `name`, of a role `Kind/name` to `Kind:name` or
/// `ServiceAccount:namespace/name`.
pub(super) fn binding(name: &str, role: &str, subjects: &[&str]) -> RbacObject {
    let (kind, of) = role.split_once('/').expect("a kind and a name");
    let role_ref = RoleRef { api_group: String::new(), kind: kind.to_owned(), name: of.to_owned() };
    let subjects = Some(subjects.iter().map(|text| subject(text)).collect());
    let metadata = metadata(name);
    if name.contains('/') {
        RbacObject::RoleBinding(RoleBinding { metadata, role_ref, subjects })
    } else {
        RbacObject::ClusterRoleBinding(ClusterRoleBinding { metadata, role_ref, subjects })
    }
}

/// `user group group...`
pub(super) fn who(text: &str) -> Who {
    let mut words = text.split(' ').map(str::to_owned);
    Who { user: words.next().unwrap_or_default(), groups: words.collect() }
}

/// `verb group resource namespace name`, with `core` for the core group and `-` for no namespace or name.
pub(super) fn request(text: &str) -> Request<'_> {
    let words: Vec<&str> = text.split(' ').map(|word| if matches!(word, "core" | "-") { "" } else { word }).collect();
    let &[verb, group, resource, namespace, name] = words.as_slice() else { panic!("five words, not '{text}'") };
    Request { verb, group, resource, subresource: None, namespace, name }
}

fn subject(text: &str) -> RbacSubject {
    let (kind, name) = text.split_once(':').expect("a kind and a name");
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (None, name),
    };
    RbacSubject { api_group: None, kind: kind.to_owned(), name: name.to_owned(), namespace }
}

fn metadata(name: &str) -> ObjectMeta {
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (None, name),
    };
    ObjectMeta { name: Some(name.to_owned()), namespace, ..ObjectMeta::default() }
}
