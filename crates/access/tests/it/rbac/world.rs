//! All RBAC objects of a cluster: made at random with every oddity, written, listed, edited.

use std::fmt::Debug;

use access::rbac::{Policy, RbacKind};
use fastrand::Rng;
use futures::{StreamExt, stream};
use k8s_openapi::api::rbac::v1::{
    AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) const VERBS: &[&str] = &["get", "list", "watch", "create", "update", "delete"];
pub(super) const GROUPS: &[&str] = &["", "apps", "stateward.dev"];
pub(super) const RESOURCES: &[&str] = &["pods", "configmaps", "deployments", "states", "nodes"];
pub(super) const SUBRESOURCES: &[&str] = &["log", "status", "scale"];
pub(super) const NAMES: &[&str] = &["web", "db", "queue"];
pub(super) const PATHS: &[&str] = &["/metrics", "/metrics/a", "/logs/a", "/logs", "/logs/", "/status", "/Metrics"];

/// The objects that a test makes have this label; the cluster has others of its own.
const MADE: &str = "stateward-test";
/// ClusterRoles with this label are gathered by the aggregated one of the same value.
const PART_OF: &str = "stateward-test-part-of";

/// The RBAC objects of a cluster at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) roles: Vec<Role>,
    pub(super) cluster_roles: Vec<ClusterRole>,
    pub(super) role_bindings: Vec<RoleBinding>,
    pub(super) cluster_role_bindings: Vec<ClusterRoleBinding>,
}

/// Where random objects are made.
#[derive(Debug)]
pub(super) struct Maker<'a> {
    pub(super) rng: Rng,
    pub(super) namespaces: &'a [String],
}

pub(super) fn pick<T: Clone>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())].clone()
}

fn some(rng: &mut Rng, from: &[&str]) -> Vec<String> {
    (0..=rng.usize(..2)).map(|_| pick(rng, from).to_owned()).collect()
}

fn one(item: impl Into<String>) -> Vec<String> {
    vec![item.into()]
}

impl Maker<'_> {
    /// A world of its own, beside what the cluster has anyway.
    pub(super) fn world(&mut self) -> World {
        let mut world = World::default();
        // The same names in every namespace and for the cluster, with other rules.
        for namespace in self.namespaces {
            for number in 0..6 {
                let rules = Some(self.rules(true));
                world.roles.push(Role { metadata: in_namespace(&format!("role{number}"), namespace), rules });
            }
        }
        for number in 0..6 {
            let rules = Some(self.rules(false));
            let metadata = made(&format!("role{number}"));
            world.cluster_roles.push(ClusterRole { metadata, rules, aggregation_rule: None });
        }
        for number in 0..8 {
            let rules = Some(vec![self.rule(false), self.rule(false)]);
            let mut metadata = made(&format!("part{number}"));
            metadata.labels.get_or_insert_default().insert(PART_OF.to_owned(), format!("whole{}", number % 4));
            world.cluster_roles.push(ClusterRole { metadata, rules, aggregation_rule: None });
        }
        for number in 0..4 {
            let label = (PART_OF.to_owned(), format!("whole{number}"));
            let selector = LabelSelector { match_labels: Some([label].into()), match_expressions: None };
            let aggregation_rule = Some(AggregationRule { cluster_role_selectors: Some(vec![selector]) });
            let metadata = made(&format!("whole{number}"));
            world.cluster_roles.push(ClusterRole { metadata, rules: None, aggregation_rule });
        }
        for number in 0..130 {
            let name = format!("binding{number}");
            if self.rng.u8(..10) < 6 {
                let namespace = pick(&mut self.rng, self.namespaces);
                let kind = if self.rng.bool() { "Role" } else { "ClusterRole" };
                let role_ref = self.role_ref(kind);
                let subjects = Some(self.subjects(&namespace));
                world.role_bindings.push(RoleBinding { metadata: in_namespace(&name, &namespace), role_ref, subjects });
            } else {
                let role_ref = self.role_ref("ClusterRole");
                let subjects = Some(self.subjects(""));
                world.cluster_role_bindings.push(ClusterRoleBinding { metadata: made(&name), role_ref, subjects });
            }
        }
        world
    }

    /// Mostly few rules, sometimes none at all.
    pub(super) fn rules(&mut self, namespaced: bool) -> Vec<PolicyRule> {
        let count = if self.rng.u8(..12) == 0 { 0 } else { self.rng.usize(1..4) };
        (0..count).map(|_| self.rule(namespaced)).collect()
    }

    fn rule(&mut self, namespaced: bool) -> PolicyRule {
        let rng = &mut self.rng;
        let verbs = match rng.u8(..20) {
            0..3 => one("*"),
            3 => one("GET"),
            4 => vec!["get".to_owned(), "LIST".to_owned()],
            _ => some(rng, VERBS),
        };
        if !namespaced && rng.u8(..5) == 0 {
            let paths = ["/metrics", "/metrics/*", "/metrics/*", "/logs/*", "/logs/*", "/status*", "/Metrics", "*"];
            return PolicyRule { verbs, non_resource_urls: Some(some(rng, &paths)), ..PolicyRule::default() };
        }
        if rng.u8(..6) == 0 {
            // What a RoleBinding grants of its own namespace.
            let (verbs, groups) = (some(rng, &["get", "list", "delete", "*"]), some(rng, &["", "*"]));
            let names = (rng.u8(..4) == 0).then(|| one(pick(rng, self.namespaces)));
            let resources = Some(one("namespaces"));
            return PolicyRule {
                verbs,
                api_groups: Some(groups),
                resources,
                resource_names: names,
                ..Default::default()
            };
        }
        let groups = match rng.u8(..20) {
            0..3 => one("*"),
            3 => one("Apps"),
            4..9 => one(""),
            _ => some(rng, GROUPS),
        };
        let resources = match rng.u8(..20) {
            0..3 => one("*"),
            3..6 => one(format!("*/{}", pick(rng, SUBRESOURCES))),
            6..9 => one(format!("{}/*", pick(rng, RESOURCES))),
            9..12 => one(format!("{}/{}", pick(rng, RESOURCES), pick(rng, SUBRESOURCES))),
            12 => one("Pods"),
            _ => some(rng, RESOURCES),
        };
        let names = match rng.u8(..20) {
            0..3 => Some(one(pick(rng, NAMES))),
            3 => Some(some(rng, NAMES)),
            4..6 => Some(one("*")),
            6..8 => Some(one("Web")),
            _ => None,
        };
        PolicyRule {
            verbs,
            api_groups: Some(groups),
            resources: Some(resources),
            resource_names: names,
            ..Default::default()
        }
    }

    /// Sometimes of a role that is not there.
    fn role_ref(&mut self, kind: &str) -> RoleRef {
        let name = match (self.rng.u8(..12), kind) {
            (0, _) => "nowhere".to_owned(),
            (1..3, "ClusterRole") => format!("part{}", self.rng.u8(..8)),
            (3..7, "ClusterRole") => format!("whole{}", self.rng.u8(..4)),
            _ => format!("role{}", self.rng.u8(..6)),
        };
        RoleRef { api_group: "rbac.authorization.k8s.io".to_owned(), kind: kind.to_owned(), name }
    }

    fn subjects(&mut self, binding_namespace: &str) -> Vec<Subject> {
        (0..self.rng.usize(1..4)).map(|_| self.subject(binding_namespace)).collect()
    }

    fn subject(&mut self, binding_namespace: &str) -> Subject {
        let rng = &mut self.rng;
        let subject = |kind: &str, name: String| Subject { kind: kind.to_owned(), name, ..Subject::default() };
        match rng.u8(..9) {
            0..3 => {
                let name = match rng.u8(..12) {
                    0 => "*".to_owned(),
                    1 => format!("User{}", rng.u8(..24)),
                    2..4 => format!("system:serviceaccount:{}:robot{}", pick(rng, self.namespaces), rng.u8(..4)),
                    _ => format!("user{}", rng.u8(..24)),
                };
                // Of no meaning for users, and accepted.
                let namespace = (rng.u8(..5) == 0).then(|| pick(rng, self.namespaces));
                Subject { namespace, ..subject("User", name) }
            }
            3..6 => {
                let name = match rng.u8(..14) {
                    0 => "*".to_owned(),
                    1 => format!("Group{}", rng.u8(..12)),
                    2..4 => "system:authenticated".to_owned(),
                    4..6 => "system:serviceaccounts".to_owned(),
                    6..9 => format!("system:serviceaccounts:{}", pick(rng, self.namespaces)),
                    _ => format!("group{}", rng.u8(..12)),
                };
                subject("Group", name)
            }
            _ => {
                // The API server refuses one without a namespace in a ClusterRoleBinding.
                let own = !binding_namespace.is_empty() && rng.bool();
                let namespace = (!own).then(|| pick(rng, self.namespaces));
                Subject { namespace, ..subject("ServiceAccount", format!("robot{}", rng.u8(..4))) }
            }
        }
    }
}

impl World {
    pub(super) fn policy(&self) -> Policy {
        let mut policy = Policy::new();
        policy.replace(RbacKind::Role, self.roles.clone());
        policy.replace(RbacKind::ClusterRole, self.cluster_roles.clone());
        policy.replace(RbacKind::RoleBinding, self.role_bindings.clone());
        policy.replace(RbacKind::ClusterRoleBinding, self.cluster_role_bindings.clone());
        policy
    }

    pub(super) async fn create(&self, client: &Client) {
        tokio::join!(
            create_all(client, &self.roles),
            create_all(client, &self.cluster_roles),
            create_all(client, &self.role_bindings),
            create_all(client, &self.cluster_role_bindings),
        );
    }

    pub(super) async fn list(client: &Client) -> World {
        let (roles, cluster_roles, role_bindings, cluster_role_bindings) =
            tokio::join!(list(client), list(client), list(client), list(client));
        World { roles, cluster_roles, role_bindings, cluster_role_bindings }
    }

    /// Removes what tests made.
    pub(super) async fn clear(client: &Client) {
        let world = World::list(client).await;
        tokio::join!(
            delete_all(client, &world.roles),
            delete_all(client, &world.cluster_roles),
            delete_all(client, &world.role_bindings),
            delete_all(client, &world.cluster_role_bindings),
        );
    }

    /// Whether every aggregated role has exactly the rules of what it gathers.
    pub(super) fn is_aggregated(&self) -> bool {
        let rules = |role: &ClusterRole| role.rules.clone().unwrap_or_default();
        self.cluster_roles.iter().filter(|role| is_made(*role) && role.aggregation_rule.is_some()).all(|whole| {
            let parts =
                self.cluster_roles.iter().filter(|role| role.labels().get(PART_OF) == whole.metadata.name.as_ref());
            let wanted: Vec<PolicyRule> = parts.flat_map(rules).collect();
            let found = rules(whole);
            wanted.iter().all(|rule| found.contains(rule)) && found.iter().all(|rule| wanted.contains(rule))
        })
    }
}

/// Where a kind's objects are, of whatever scope.
pub(super) trait Kept: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned {
    fn api(client: &Client, namespace: Option<&str>) -> Api<Self>;

    /// The API for the namespace of this object.
    fn home(&self, client: &Client) -> Api<Self> {
        Self::api(client, self.meta().namespace.as_deref())
    }
}

impl Kept for Role {
    fn api(client: &Client, namespace: Option<&str>) -> Api<Role> {
        namespaced(client, namespace)
    }
}

impl Kept for RoleBinding {
    fn api(client: &Client, namespace: Option<&str>) -> Api<RoleBinding> {
        namespaced(client, namespace)
    }
}

impl Kept for ClusterRole {
    fn api(client: &Client, _: Option<&str>) -> Api<ClusterRole> {
        Api::all(client.clone())
    }
}

impl Kept for ClusterRoleBinding {
    fn api(client: &Client, _: Option<&str>) -> Api<ClusterRoleBinding> {
        Api::all(client.clone())
    }
}

fn namespaced<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
    client: &Client,
    namespace: Option<&str>,
) -> Api<K> {
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

pub(super) async fn create<K: Kept>(client: &Client, object: &K) -> K {
    let mut object = object.clone();
    // An object that is written again is a new one.
    (object.meta_mut().resource_version, object.meta_mut().uid) = (None, None);
    loop {
        match object.home(client).create(&PostParams::default(), &object).await {
            Ok(created) => return created,
            // The controller that gathers rules applies them, which brings back a ClusterRole that was deleted meanwhile.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                match object.home(client).delete(&object.name_any(), &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    deleted => drop(deleted.expect("delete what came back")),
                }
            }
            Err(error) => panic!("create {object:?}: {error}"),
        }
    }
}

/// Writes an object over what is there.
pub(super) async fn update<K: Kept>(client: &Client, object: &K) -> K {
    let name = object.name_any();
    let mut object = object.clone();
    object.meta_mut().resource_version = None;
    object.home(client).replace(&name, &PostParams::default(), &object).await.expect("replace an RBAC object")
}

pub(super) async fn delete<K: Kept>(client: &Client, object: &K) {
    let deleted = object.home(client).delete(&object.name_any(), &DeleteParams::default()).await;
    deleted.expect("delete an RBAC object");
}

async fn create_all<K: Kept>(client: &Client, objects: &[K]) {
    stream::iter(objects).for_each_concurrent(16, |object| async { drop(create(client, object).await) }).await;
}

async fn delete_all<K: Kept>(client: &Client, objects: &[K]) {
    let made = objects.iter().filter(|object| is_made(*object));
    stream::iter(made).for_each_concurrent(16, |object| delete(client, object)).await;
}

async fn list<K: Kept>(client: &Client) -> Vec<K> {
    // Without a resourceVersion, which asks for the newest.
    K::api(client, None).list(&ListParams::default()).await.expect("list RBAC objects").items
}

pub(super) fn is_made(object: &impl Resource) -> bool {
    object.meta().labels.as_ref().is_some_and(|labels| labels.contains_key(MADE))
}

pub(super) fn made(name: &str) -> ObjectMeta {
    let labels = Some([(MADE.to_owned(), String::new())].into());
    ObjectMeta { name: Some(name.to_owned()), labels, ..ObjectMeta::default() }
}

pub(super) fn in_namespace(name: &str, namespace: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some(namespace.to_owned()), ..made(name) }
}
