//! The RBAC of the clusters: 10,000 objects, of which a few are about the two people who ask.

use std::collections::BTreeMap;

use access::rbac::{Policy, RbacKind, RbacObject, Who};
use explorer::Visibility;
use explorer::service::{Compiled, Settings};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject as RbacSubject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use testbed::{rule, subject};

use super::bodies::KINDS;
use super::feed::{CLUSTERS, NAMESPACES, cluster, namespace};
use super::users::{self, AUTHENTICATED};

const OBJECTS: usize = 10_000;
pub(super) const CLUSTER_ROLE: RbacKind = RbacKind::ClusterRole;

/// The RBAC of all clusters and what was compiled from it, as the explorer keeps them cluster by cluster.
pub(crate) struct Clusters {
    by_name: BTreeMap<String, (Policy, Compiled)>,
    row_verbs: Vec<String>,
}

impl Clusters {
    pub(crate) fn new() -> Clusters {
        let policy = |number: usize| {
            let mut policy = Policy::new();
            for object in objects(number) {
                policy.upsert(object);
            }
            (cluster(number), (policy, Compiled::default()))
        };
        Clusters { by_name: (0..CLUSTERS).map(policy).collect(), row_verbs: Settings::default().row_verbs }
    }

    /// What somebody sees now; what did not change is not compiled again.
    pub(crate) fn visibility(&mut self, who: &Who) -> Visibility {
        let views = self.by_name.iter_mut().map(|(cluster, (policy, compiled))| {
            let view = compiled.view(policy, who, &self.row_verbs);
            (cluster.clone(), view)
        });
        views.fold(Visibility::default(), |visibility, (cluster, view)| visibility.with(cluster, view))
    }

    pub(crate) fn change(&mut self, cluster: &str, change: impl FnOnce(&mut Policy)) {
        if let Some((policy, _)) = self.by_name.get_mut(cluster) {
            change(policy);
        }
    }
}

/// All objects of a cluster: roles that are in every cluster, the two people's own, and those of many others.
fn objects(number: usize) -> Vec<RbacObject> {
    let everything = [rule(&["*"], &["*"], &["*"])];
    let itself =
        [rule(&["create"], &["authorization.k8s.io"], &["selfsubjectaccessreviews", "selfsubjectrulesreviews"])];
    let mut objects = vec![
        role(None, "cluster-admin", &everything),
        role(None, "view", &on_all_kinds(&["get", "list", "watch"])),
        role(None, "edit", &on_all_kinds(&["get", "list", "watch", "create", "update", "patch", "delete"])),
        role(None, "system:basic-user", &itself),
        binding(None, "system:basic-user", CLUSTER_ROLE, "system:basic-user", subject::group(AUTHENTICATED)),
    ];
    objects.extend(users::objects(number));
    for component in 0..30 {
        let (name, account) = (format!("component-{component}"), subject::service_account("operators", "controller"));
        let (group, _, _, resource, _) = KINDS[component % KINDS.len()];
        objects.push(role(None, &name, &[rule(&["*"], &[group], &[resource, &format!("{resource}/status")])]));
        objects.push(binding(None, &name, CLUSTER_ROLE, &name, account));
    }
    let places = (number..NAMESPACES).step_by(CLUSTERS).map(namespace);
    for (at, place) in places.clone().take(100).enumerate() {
        let (group, _, _, resource, _) = KINDS[at % KINDS.len()];
        objects.push(role(Some(&place), "operate", &[rule(&["get", "list", "patch"], &[group], &[resource])]));
        let people = subject::group(&format!("operators-{}", at % 40));
        objects.push(binding(Some(&place), "operate", RbacKind::Role, "operate", people));
    }
    let left = (OBJECTS / CLUSTERS).saturating_sub(objects.len());
    for (at, place) in places.cycle().take(left).enumerate() {
        let person = subject::user(&format!("user-{}@example.org", at % 90));
        let of = if at % 3 == 0 { "edit" } else { "view" };
        objects.push(binding(Some(&place), &format!("user-{at}"), CLUSTER_ROLE, of, person));
    }
    objects
}

/// A rule per group, as Kubernetes' own roles have them.
fn on_all_kinds(verbs: &[&str]) -> Vec<PolicyRule> {
    let mut resources: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group, _, _, resource, _) in KINDS {
        resources.entry(group).or_default().push(resource);
    }
    resources.iter().map(|(group, resources)| rule(verbs, &[group], resources)).collect()
}

/// A Role of a namespace, or a ClusterRole.
pub(super) fn role(namespace: Option<&str>, name: &str, rules: &[PolicyRule]) -> RbacObject {
    let (metadata, rules) = (metadata(namespace, name), Some(rules.to_vec()));
    match namespace {
        Some(_) => Role { metadata, rules }.into(),
        None => ClusterRole { metadata, rules, aggregation_rule: None }.into(),
    }
}

/// A RoleBinding of a namespace, or a ClusterRoleBinding.
pub(super) fn binding(
    namespace: Option<&str>,
    name: &str,
    kind: RbacKind,
    role: &str,
    subject: RbacSubject,
) -> RbacObject {
    let role_ref = RoleRef { kind: format!("{kind:?}"), name: role.to_owned(), ..RoleRef::default() };
    let (metadata, subjects) = (metadata(namespace, name), Some(vec![subject]));
    match namespace {
        Some(_) => RoleBinding { metadata, role_ref, subjects }.into(),
        None => ClusterRoleBinding { metadata, role_ref, subjects }.into(),
    }
}

fn metadata(namespace: Option<&str>, name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), namespace: namespace.map(str::to_owned), ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use access::rbac::Request;
    use explorer::Index;

    use super::super::{Feed, Person};
    use super::*;

    #[test]
    fn there_are_ten_thousand_objects_in_twenty_clusters() {
        let keys =
            (0..CLUSTERS).flat_map(|number| objects(number).into_iter().map(move |object| (number, object.key())));
        let keys: Vec<_> = keys.collect();
        let once: BTreeSet<_> = keys.iter().collect();
        assert_eq!((keys.len(), once.len()), (OBJECTS, OBJECTS));
    }

    #[test]
    fn each_sees_as_many_rows_as_the_policy_allows_one_by_one() {
        let mut clusters = Clusters::new();
        let mut index = Index::new(explorer::index::Settings::default());
        let rows = Feed::new().take(2000);
        for row in &rows {
            index.upsert(&index.preparer().prepare(row.clone()));
        }
        let [few, admin] = Person::all().map(|person| {
            let allowed = rows.iter().filter(|row| {
                let (policy, _) = &clusters.by_name[&row.key.cluster];
                let (group, resource) = (row.key.group.as_str(), row.resource.as_str());
                let (namespace, name) = (row.key.namespace.as_str(), row.key.name.as_str());
                let request = Request { verb: "get", group, resource, subresource: None, namespace, name };
                policy.allows(&person.who, &request)
            });
            let allowed = allowed.count();
            let seen = index.query(&explorer::Query::default(), &clusters.visibility(&person.who)).total;
            assert_eq!(seen, allowed as u64, "{}", person.name);
            allowed
        });
        assert_eq!(admin, rows.len());
        // A hundredth of the namespaces, and twenty by name.
        assert!((30..=60).contains(&few), "{few}");
    }
}
