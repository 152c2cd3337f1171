//! Two people who ask: one who may see 1 % (50 namespaces by RoleBindings, 20 objects by name), and one who may see all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use explorer::Visibility;
use explorer::index::{Grants, Scope, View};
use fastrand::Rng;

use super::feed::{CLUSTERS, NAMESPACES, cluster, namespace};

/// Who asks.
pub(crate) struct Person {
    pub(crate) name: &'static str,
    pub(crate) visibility: Visibility,
}

/// The same for every resource: RoleBindings to a ClusterRole that reads all kinds.
struct Granted(Scope);

impl Grants for Granted {
    fn scope(&self, _group: &str, _resource: &str) -> Scope {
        self.0.clone()
    }
}

impl Person {
    pub(crate) fn all() -> [Person; 2] {
        [Person { name: "1 %", visibility: few() }, Person { name: "cluster-admin", visibility: admin() }]
    }
}

fn few() -> Visibility {
    let mut random = Rng::with_seed(11);
    let mut scopes: BTreeMap<String, Scope> = BTreeMap::new();
    let granted: BTreeSet<usize> = std::iter::repeat_with(|| random.usize(..NAMESPACES)).take(50).collect();
    for place in granted {
        scopes.entry(cluster(place)).or_default().namespaces.insert(namespace(place));
    }
    for number in 0..20 {
        let place = random.usize(..NAMESPACES);
        let name = format!("podinfo-api-{}", number * 37);
        scopes.entry(cluster(place)).or_default().names.insert((Some(namespace(place)), name));
    }
    let view = |scope: Scope| {
        let granted: Arc<dyn Grants> = Arc::new(Granted(scope));
        View::Granted { rows: Arc::clone(&granted), bodies: granted }
    };
    scopes.into_iter().fold(Visibility::default(), |visibility, (cluster, scope)| visibility.with(cluster, view(scope)))
}

fn admin() -> Visibility {
    let everywhere: Arc<dyn Grants> = Arc::new(Granted(Scope { everywhere: true, ..Scope::default() }));
    (0..CLUSTERS).fold(Visibility::default(), |visibility, number| {
        let view = View::Granted { rows: Arc::clone(&everywhere), bodies: Arc::clone(&everywhere) };
        visibility.with(cluster(number), view)
    })
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
