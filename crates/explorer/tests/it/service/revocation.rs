//! What is granted is seen, and what is revoked is not, in rows, totals and facets, soon and without a restart.

use std::time::{Duration, Instant};

use access::{Identity, Source};
use explorer::Explorer;
use explorer::query::{Facets, Query};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use testbed::{Cluster, Grant, Scope, eventually, role, rule, scale, subject};

use super::maps::Maps;
use super::world::{HOME, LIMIT, Place, somebody, synced};

struct Scene {
    cluster: &'static Cluster,
    explorer: Explorer,
    maps: Maps,
    slowest: Duration,
}

impl Scene {
    /// How many rows of the namespace somebody sees; totals and facets say the same.
    async fn seen(&self, who: &Identity) -> u64 {
        let visibility = self.explorer.visibility(who).await;
        let text = format!("ns:{}", self.maps.namespace);
        let query = Query { facets: Facets::WithLabels(Vec::new()), limit: 0, ..Query::parse(&text).unwrap() };
        let page = self.explorer.read(|index| index.query(&query, &visibility));
        assert_eq!(page.total, page.rows.len() as u64);
        for field in ["cluster", "namespace", "kind"] {
            let facet = page.facets.iter().find(|facet| facet.field == field).unwrap();
            assert_eq!(facet.values.iter().map(|value| value.count).sum::<u64>(), page.total, "{field}");
        }
        page.total
    }

    async fn sees(&self, who: &Identity, rows: u64) {
        eventually(LIMIT, || async {
            let seen = self.seen(who).await;
            if seen == rows { Ok(()) } else { Err(seen) }
        })
        .await;
    }

    /// Waits for a revocation and notes how long it took.
    async fn loses(&mut self, who: &Identity, rows: u64) {
        let began = Instant::now();
        while self.seen(who).await != rows {
            assert!(began.elapsed() < LIMIT, "still seen");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.slowest = self.slowest.max(began.elapsed());
    }

    fn here(&self) -> Scope<'_> {
        Scope::Namespace(&self.maps.namespace)
    }

    async fn delete_role(&self, grant: &Grant) {
        let (client, delete) = (self.cluster.client(), DeleteParams::default());
        match &grant.namespace {
            Some(namespace) => {
                drop(Api::<Role>::namespaced(client, namespace).delete(&grant.role, &delete).await.unwrap());
            }
            None => drop(Api::<ClusterRole>::all(client).delete(&grant.role, &delete).await.unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_grant_and_to_revoke_counts_at_once() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, HOME, "revocation").await;
    maps.create_many(4).await;
    let explorer = Place::new().open(cluster, &["v1/ConfigMap"]).await;
    synced(&explorer, HOME, 1).await;
    let mut scene = Scene { cluster, explorer, maps, slowest: Duration::ZERO };
    let namespace = scene.maps.namespace.clone();
    let (all, list) = (5, [rule(&["list"], &[""], &["configmaps"])]);
    let name = format!("user-{namespace}");
    let user = somebody(Source::TokenReview, &name, &[]);
    let by_user = [subject::user(&name)];

    // Each of the four kinds, deleted.
    for scope in [Scope::Namespace(&namespace), Scope::Cluster] {
        let grant = cluster.grant(scope, &by_user, &list).await;
        scene.sees(&user, all).await;
        cluster.remove_binding(&grant).await;
        scene.loses(&user, 0).await;
        let grant = cluster.grant(scope, &by_user, &list).await;
        scene.sees(&user, all).await;
        scene.delete_role(&grant).await;
        scene.loses(&user, 0).await;
        cluster.remove_binding(&grant).await;
    }

    // A role that loses its rules, and gets them back; a binding deleted and made again.
    let grant = cluster.grant(scene.here(), &by_user, &list).await;
    let roles: Api<Role> = Api::namespaced(cluster.client(), &namespace);
    let with_rules = |rules| {
        let (roles, role) = (roles.clone(), grant.role.clone());
        async move {
            let patch = Patch::Merge(json!({"rules": rules}));
            roles.patch(&role, &PatchParams::default(), &patch).await.unwrap();
        }
    };
    scene.sees(&user, all).await;
    with_rules(json!([])).await;
    scene.loses(&user, 0).await;
    with_rules(json!(list)).await;
    scene.sees(&user, all).await;
    cluster.remove_binding(&grant).await;
    let again = cluster.bind(scene.here(), role::namespaced(&grant.role), &by_user).await;
    scene.sees(&user, all).await;

    // A binding to nothing spoils nothing.
    let dangling = cluster.bind(scene.here(), role::namespaced("nowhere"), &by_user).await;
    scene.sees(&user, all).await;
    cluster.remove_binding(&again).await;
    scene.loses(&user, 0).await;
    cluster.remove_binding(&dangling).await;

    // By a group, by a ServiceAccount, by everybody who is somebody.
    let group = format!("group-{namespace}");
    let account = format!("system:serviceaccount:{namespace}:robot");
    let table = [
        (subject::group(&group), somebody(Source::TokenReview, "member", &[&group])),
        (subject::service_account(&namespace, "robot"), somebody(Source::TokenReview, &account, &[])),
        (subject::group("system:authenticated"), somebody(Source::Certificate, "anybody", &[])),
    ];
    for (subject, who) in table {
        scene.sees(&who, 0).await;
        let grant = cluster.grant(scene.here(), &[subject], &list).await;
        scene.sees(&who, all).await;
        cluster.remove_binding(&grant).await;
        scene.loses(&who, 0).await;
    }

    // By the names of objects.
    let mut named = rule(&["get"], &[""], &["configmaps"]);
    named.resource_names = Some(vec!["many-0".to_owned(), "many-2".to_owned(), "*".to_owned()]);
    let grant = cluster.bind_rules(scene.here(), &by_user, &[named]).await;
    scene.sees(&user, 2).await;
    cluster.remove_binding(&grant).await;
    scene.loses(&user, 0).await;

    // By a ClusterRole that the cluster itself puts together.
    let label = format!("aggregate-{namespace}");
    let whole = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": format!("whole-{namespace}")},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label.clone(): "yes"}}]},
    });
    let part = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": list,
        "metadata": {"name": format!("part-{namespace}"), "labels": {label: "yes"}},
    });
    cluster.apply(&whole.to_string()).await;
    let grant = cluster.bind(Scope::Cluster, role::cluster(&format!("whole-{namespace}")), &by_user).await;
    scene.sees(&user, 0).await;
    cluster.apply(&part.to_string()).await;
    scene.sees(&user, all).await;
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    roles.delete(&format!("part-{namespace}"), &DeleteParams::default()).await.unwrap();
    // The controller-manager takes the rules out; how long it takes is its own matter.
    scene.sees(&user, 0).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client());
    bindings.delete(&grant.binding, &DeleteParams::default()).await.unwrap();

    println!("the slowest revocation was seen after {:?}", scene.slowest);
    if scale().is_full() {
        assert!(scene.slowest < Duration::from_secs(2), "{:?}", scene.slowest);
    }
    scene.explorer.close().await;
}
