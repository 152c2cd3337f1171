//! Two people who ask, by RBAC: one who may see 1 % (50 namespaces by RoleBindings to themselves and their 5 groups, 20 objects by
//! name), and one who may see all.

use std::collections::BTreeSet;

use access::rbac::{RbacObject, Who};
use fastrand::Rng;
use testbed::{rule, subject};

use super::bodies::KINDS;
use super::feed::{Feed, NAMESPACES, cluster, namespace};
use super::rbac::{CLUSTER_ROLE, binding, role};

/// Who asks.
pub(crate) struct Person {
    pub(crate) name: &'static str,
    pub(crate) who: Who,
}

/// One of the bindings by which the first of them sees a namespace.
pub(crate) struct Bound {
    pub(crate) cluster: String,
    pub(crate) namespace: String,
    pub(crate) binding: RbacObject,
}

const FEW: &str = "jane@example.org";
const ADMIN: &str = "root@example.org";
const GROUPS: [&str; 5] = ["auditors", "catalog-readers", "on-call", "payments-developers", "search-developers"];
pub(super) const AUTHENTICATED: &str = "system:authenticated";

const BINDINGS: usize = 50;
const NAMES_OF_A_GROUP: usize = 4;

impl Person {
    pub(crate) fn all() -> [Person; 2] {
        let who = |user: &str, groups: &[&str]| {
            let groups = groups.iter().chain(&[AUTHENTICATED]).map(|&group| group.to_owned());
            Who { user: user.to_owned(), groups: groups.collect() }
        };
        [Person { name: "1 %", who: who(FEW, &GROUPS) }, Person { name: "cluster-admin", who: who(ADMIN, &[]) }]
    }
}

/// Whole namespaces of the first person: some by their own name, most by a group.
pub(crate) fn bindings() -> Vec<Bound> {
    let bound = |(at, place): (usize, usize)| {
        let subject = match at % (GROUPS.len() + 1) {
            0 => subject::user(FEW),
            group => subject::group(GROUPS[group - 1]),
        };
        let namespace = namespace(place);
        let binding = binding(Some(&namespace), "readers", CLUSTER_ROLE, "view", subject);
        Bound { cluster: cluster(place), namespace, binding }
    };
    places().into_iter().enumerate().map(bound).collect()
}

/// What the two have in a cluster.
pub(super) fn objects(number: usize) -> Vec<RbacObject> {
    let mut objects = vec![binding(None, "admins", CLUSTER_ROLE, "cluster-admin", subject::user(ADMIN))];
    let here = bindings().into_iter().filter(|bound| bound.cluster == cluster(number));
    objects.extend(here.map(|bound| bound.binding));
    if let Some(group) = GROUPS.get(number) {
        let groups: Vec<&str> = KINDS.iter().map(|kind| kind.0).collect();
        let resources: Vec<&str> = KINDS.iter().map(|kind| kind.3).collect();
        let mut named = rule(&["get"], &groups, &resources);
        named.resource_names = Some(names(number));
        objects.push(role(None, "named", &[named]));
        objects.push(binding(None, "named", CLUSTER_ROLE, "named", subject::group(group)));
    }
    objects
}

fn places() -> BTreeSet<usize> {
    let mut random = Rng::with_seed(11);
    let mut places = BTreeSet::new();
    while places.len() < BINDINGS {
        places.insert(random.usize(..NAMESPACES));
    }
    places
}

/// Objects that are there from the first thousand on, and that no binding to a namespace shows.
fn names(number: usize) -> Vec<String> {
    let granted: BTreeSet<String> = places().into_iter().map(namespace).collect();
    let rows = Feed::new().take(1000).into_iter();
    let wanted = rows.filter(|row| row.key.cluster == cluster(number) && !granted.contains(&row.key.namespace));
    wanted.take(NAMES_OF_A_GROUP).map(|row| row.key.name).collect()
}

/// What they ask: filters of a page with facets, and texts. Each is asked in turn.
pub(crate) fn questions() -> [(&'static str, &'static [&'static str]); 2] {
    [("filtered, total and facets", FILTERS), ("text", TEXTS)]
}

const FILTERS: &[&str] = &[
    "",
    "kind:HelmRelease",
    "kind:hr status:Failed",
    "status:Failed -ns:team-00*",
    "kind:/(Deployment|StatefulSet|Pod)/ cluster:cluster-07",
    "ns:team-0420",
    "label.tier=frontend",
    "label.app.kubernetes.io/name=podinfo-api status:Success",
    "category:source -status:Success",
    "name:billing*",
    "name:*checkout-w*",
    "tenant:tenant-7 kind:ks",
    "is:live cluster:/(cluster-01|cluster-02|cluster-03)/ -kind:ConfigMap",
    "Object.spec.interval:5m kind:Kustomization",
    "message:timeout",
    "label.app.kubernetes.io/version:1.* kind:Service",
];

const TEXTS: &[&str] = &[
    "podinfo",
    "checkout-web",
    "timeout",
    "registry.example.org",
    "\"stored artifact\"",
    "HealthCheckFailed",
    "healthz status:Failed",
    "recon*",
    "payments 128Mi",
    "-podinfo nginx",
    "team-0420",
    "frontend kind:Pod",
    "nothing-of-that",
    "api-4711",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_fifty_role_bindings_five_groups_and_twenty_names() {
        let bound = bindings();
        let places: BTreeSet<_> = bound.iter().map(|bound| (&bound.cluster, &bound.namespace)).collect();
        assert_eq!(places.len(), 50);
        let subjects = bound.iter().flat_map(|bound| match &bound.binding {
            RbacObject::RoleBinding(binding) => binding.subjects.clone().unwrap_or_default(),
            other => panic!("{other:?}"),
        });
        let subjects: BTreeSet<_> = subjects.map(|subject| (subject.kind, subject.name)).collect();
        assert_eq!(subjects.len(), 6, "{subjects:?}");
        let names: BTreeSet<String> = (0..GROUPS.len()).flat_map(names).collect();
        assert_eq!(names.len(), 20);
    }
}
