//! Whatever was down, full or in a hurry when an object went: its row goes, and no other.

use std::time::Duration;

use explorer::index::View;
use explorer::kinds::{KindSpec, Which};
use explorer::query::Query;
use explorer::{Explorer, Index, Visibility};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testbed::{Cluster, Scope, eventually, rule, scale, seed, subject};

use super::crash::collect_and_kill;
use super::maps::Maps;
use super::widgets::Widgets;
use super::world::{HOME, LIMIT, Place, added, finds, found, jane, local, master, reader, second, somebody, synced};
use access::Source;
use explorer::service::Rules;

#[tokio::test(flavor = "multi_thread")]
async fn objects_and_bindings_that_went_while_nobody_looked_are_gone_at_the_first_sync() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("explorer down"));
    for _ in 0..scale().of(1, 20) {
        let maps = Maps::new(cluster, HOME, "down").await;
        maps.create_many(1000).await;
        let user = format!("down-{}", random.u32(..));
        let rules = [rule(&["list"], &[""], &["configmaps"])];
        let grant = cluster.grant(Scope::Namespace(&maps.namespace), &[subject::user(&user)], &rules).await;
        let place = Place::new();
        let explorer = place.open(cluster, &["v1/ConfigMap"]).await;
        synced(&explorer, HOME, 1).await;
        maps.mirrored(&explorer).await;
        let user = somebody(Source::TokenReview, &user, &[]);
        let text = format!("ns:{}", maps.namespace);
        assert_eq!(found(&explorer, &user, &text).await.len(), 1001);
        explorer.close().await;
        // Another one goes on with what it left, and is killed.
        maps.steps(&mut random, 1000, 50).await;
        collect_and_kill(&place, cluster).await;
        maps.delete_all().await;
        cluster.remove_binding(&grant).await;
        maps.create_many(random.usize(..5)).await;

        let explorer = place.open(cluster, &["v1/ConfigMap"]).await;
        synced(&explorer, HOME, 1).await;
        assert_eq!(maps.rows(&explorer).await, maps.truth().await, "at the first sync, not some time after");
        assert_eq!(found(&explorer, &user, &text).await.len(), 0, "the binding went too");
        explorer.read(Index::audit).unwrap();
        explorer.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relist_after_compaction_misses_nothing() {
    let cluster = Cluster::own().await;
    let mut random = fastrand::Rng::with_seed(seed("explorer compaction"));
    let maps = Maps::new(&cluster, HOME, "compaction").await;
    let explorer = Place::new().open(&cluster, &["v1/ConfigMap"]).await;
    for _ in 0..scale().of(1, 20) {
        maps.steps(&mut random, 40, 60).await;
        maps.mirrored(&explorer).await;
        maps.steps(&mut random, 40, 20).await;
        cluster.expire_watches().await;
        eventually(LIMIT, || async { maps.api.list(&ListParams::default()).await.is_ok() }).await;
        maps.steps(&mut random, 40, 40).await;
        maps.mirrored(&explorer).await;
        finds(&explorer, &jane(), "", &[]).await;
    }
    explorer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_goes_takes_its_rows_along_and_one_that_comes_is_found() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("explorer definitions"));
    for _ in 0..scale().of(2, 20) {
        let widgets = Widgets::new(cluster).await;
        let (kinds, place) = (["v1/ConfigMap", &widgets.kind()], Place::new());
        let mut explorer = place.open(cluster, &kinds).await;
        // Others are not disturbed by a kind that is not there.
        synced(&explorer, HOME, 1).await;
        widgets.define("v1").await;
        widgets.create("v1", 5).await;
        let text = format!("kind:Widget ns:{}", widgets.namespace);
        let all: Vec<String> = (0..5).map(|number| format!("{HOME}/{}/w{number}", widgets.namespace)).collect();
        finds(&explorer, &master(), &text, &all).await;
        let resource = explorer.resource(HOME, &widgets.group, "Widget").unwrap();
        assert_eq!((resource.plural.as_str(), resource.version.as_str()), ("widgets", "v1"));
        // In half of the runs nobody looks when it goes.
        if random.bool() {
            widgets.remove_definition().await;
        } else {
            explorer.close().await;
            widgets.remove_definition().await;
            explorer = place.open(cluster, &kinds).await;
            synced(&explorer, HOME, 1).await;
        }
        finds(&explorer, &master(), &text, &[]).await;
        // It comes back, in another version.
        widgets.define("v2").await;
        widgets.create("v2", 3).await;
        finds(&explorer, &master(), &text, &all[..3]).await;
        eventually(LIMIT, || async {
            explorer.resource(HOME, &widgets.group, "Widget").is_some_and(|resource| resource.version == "v2")
        })
        .await;
        explorer.read(Index::audit).unwrap();
        explorer.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_ends_takes_its_rows_and_its_tenant_along() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("explorer namespaces"));
    for _ in 0..scale().of(1, 20) {
        let maps = Maps::new(cluster, HOME, "ending").await;
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        let tenant = format!("tenant-{}", random.u32(..));
        let label = json!({"metadata": {"labels": {"toolkit.fluxcd.io/tenant": tenant}}});
        namespaces.patch(&maps.namespace, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
        maps.create_many(10).await;
        let place = Place::new();
        let mut explorer = place.open(cluster, &["v1/ConfigMap"]).await;
        maps.mirrored(&explorer).await;
        let text = format!("tenant:{tenant}");
        eventually(LIMIT, || async { found(&explorer, &master(), &text).await.len() == 11 }).await;
        let down = random.bool();
        if down {
            explorer.close().await;
        }
        namespaces.delete(&maps.namespace, &DeleteParams::default()).await.unwrap();
        testbed::wait_until_gone(&namespaces, &maps.namespace, LIMIT).await;
        if down {
            explorer = place.open(cluster, &["v1/ConfigMap"]).await;
        }
        finds(&explorer, &master(), &format!("ns:{}", maps.namespace), &[]).await;
        eventually(LIMIT, || async { !explorer.read(|index| index.known_namespaces(HOME)).contains(&maps.namespace) })
            .await;
        explorer.close().await;
    }
}

/// Nothing of a cluster is left: rows, counts, facets, tenants, marks.
fn nothing_is_left(explorer: &Explorer, name: &str) {
    explorer.read(|index| {
        assert!(!index.known_clusters().contains(name), "something is left of {name}");
        index.audit().unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_removed_while_updates_pour_in_leaves_nothing_and_nothing_comes_after() {
    let (home, other) = (Cluster::shared().await, second().await);
    let mut random = fastrand::Rng::with_seed(seed("explorer removal"));
    let namespaces: Api<Namespace> = Api::all(other.client());
    let place = Place::new();
    let mut options = place.options(&["v1/ConfigMap", "v1/Secret"]).await;
    options.local = Some(local(&reader(home)));
    let explorer = Explorer::open(options).await.unwrap();
    synced(&explorer, HOME, 2).await;
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(other, "leaf", "removal").await;
        maps.create_many(30).await;
        let tenant = format!("tenant-{}", random.u32(..));
        let label = json!({"metadata": {"labels": {"toolkit.fluxcd.io/tenant": tenant}}});
        namespaces.patch(&maps.namespace, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
        let of_tenant = || {
            let everything = Visibility::default().with("leaf", View::Everything);
            let query = Query::parse(&format!("tenant:{tenant} kind:ConfigMap")).unwrap();
            explorer.read(|index| index.query(&query, &everything)).total
        };
        explorer.add_cluster(added("leaf", &reader(other), Rules::default())).await.unwrap();
        if random.bool() {
            synced(&explorer, "leaf", 2).await;
            assert!(explorer.read(Index::known_clusters).contains("leaf"));
            eventually(LIMIT, || async { of_tenant() == 31 }).await;
        }
        let stop = std::sync::atomic::AtomicBool::new(false);
        let pouring = async {
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                maps.steps(&mut fastrand::Rng::new(), 40, 16).await;
            }
        };
        let pause = Duration::from_millis(random.u64(..400));
        let removing = async {
            tokio::time::sleep(pause).await;
            explorer.remove_cluster("leaf").await.unwrap();
            nothing_is_left(&explorer, "leaf");
            // What was in flight may come now, and must not.
            tokio::time::sleep(Duration::from_millis(300)).await;
            nothing_is_left(&explorer, "leaf");
            assert_eq!(of_tenant(), 0);
            stop.store(true, std::sync::atomic::Ordering::SeqCst);
        };
        tokio::join!(pouring, removing);
        assert!(explorer.clusters().iter().all(|report| report.name != "leaf"));
        assert!(explorer.remove_cluster("leaf").await.is_err(), "it is gone already");
    }
    // The other cluster goes on.
    let maps = Maps::new(home, HOME, "stays").await;
    maps.mirrored(&explorer).await;
    explorer.close().await;
    let copy = db::Db::open(db::Config::sqlite(place.copy())).await.unwrap();
    let left = "SELECT COUNT(*) FROM watch_streams WHERE cluster = 'leaf'";
    let left: i64 = copy.read(move |tx| tx.query(left, &[])).await.unwrap()[0].get(0).unwrap();
    assert_eq!(left, 0, "no keys either");
    copy.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_made_again_and_a_queue_that_is_full_change_nothing() {
    // Its own: the pages are so small that whatever else is in the cluster would take long to list.
    let cluster = &Cluster::own().await;
    let mut random = fastrand::Rng::with_seed(seed("explorer queue"));
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(cluster, HOME, "queue").await;
        let mut options = Place::new().options(&["v1/ConfigMap"]).await;
        options.local = Some(local(&reader(cluster)));
        options.settings.watch.queue = random.usize(1..5);
        options.settings.watch.page = random.u32(1..20);
        let explorer = Explorer::open(options).await.unwrap();
        for _ in 0..40 {
            // Before anybody can have taken it in.
            let name = format!("again-{}", random.u32(..4));
            maps.create(&name).await;
            maps.delete(&name).await;
            maps.create(&name).await;
        }
        maps.steps(&mut random, 30, 200).await;
        maps.mirrored(&explorer).await;
        explorer.read(Index::audit).unwrap();
        explorer.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_leaves_the_filter_is_gone_and_one_that_enters_is_found() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("explorer filter"));
    for _ in 0..scale().of(1, 20) {
        let namespace = cluster.namespace("filter").await;
        let mut options = Place::new().options(&[]).await;
        options.local = Some(local(&reader(cluster)));
        options.kinds =
            vec![KindSpec { retention: None, which: Which::Telling, ..KindSpec::parse("v1/Event").unwrap() }];
        let explorer = Explorer::open(options).await.unwrap();
        let events: Api<Event> = Api::namespaced(cluster.client(), &namespace);
        let event = |name: &str, kind: &str| {
            let event = json!({
                "metadata": {"name": name, "labels": {"pac.weave.works/type": kind}},
                "involvedObject": {"kind": "Pod", "apiVersion": "v1", "namespace": namespace},
                "source": {"component": "policy-agent"}, "type": "Warning", "message": "a policy is violated",
            });
            serde_json::from_value::<Event>(event).unwrap()
        };
        events.create(&PostParams::default(), &event("audit", "Audit")).await.unwrap();
        events.create(&PostParams::default(), &event("admission", "Admission")).await.unwrap();
        let text = format!("ns:{namespace} kind:Event");
        let at = |name: &str| format!("{HOME}/{namespace}/{name}");
        finds(&explorer, &master(), &text, &[at("audit")]).await;
        for _ in 0..random.usize(1..3) {
            for (one, other, expected) in [("Admission", "Audit", "admission"), ("Audit", "Admission", "audit")] {
                for (name, kind) in [("audit", one), ("admission", other)] {
                    let patch = json!({"metadata": {"labels": {"pac.weave.works/type": kind}}});
                    events.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
                }
                finds(&explorer, &master(), &text, &[at(expected)]).await;
            }
        }
        explorer.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_many_random_steps_and_restarts_rows_and_cluster_are_equal() {
    let cluster = Cluster::own().await;
    let mut random = fastrand::Rng::with_seed(seed("explorer soak"));
    let (steps, names) = (scale().of(1_000, 100_000), scale().of(100, 2_000));
    let maps = Maps::new(&cluster, HOME, "soak").await;
    let place = Place::new();
    let mut explorer = place.open(&cluster, &["v1/ConfigMap"]).await;
    let (mut done, mut restarts) = (0, 0);
    let began = std::time::Instant::now();
    while done < steps {
        let some = random.usize(1..scale().of(80, 800)).min(steps - done);
        maps.steps(&mut random, names, some).await;
        done += some;
        if random.u32(..4) == 0 {
            if random.bool() {
                explorer.close().await;
            }
            drop(explorer);
            let some = random.usize(..scale().of(40, 400)).min(steps - done);
            maps.steps(&mut random, names, some).await;
            done += some;
            explorer = place.open(&cluster, &["v1/ConfigMap"]).await;
            restarts += 1;
        }
    }
    let stepped = began.elapsed();
    maps.mirrored(&explorer).await;
    explorer.read(Index::audit).unwrap();
    println!("{done} steps in {stepped:?} with {restarts} restarts, {} rows", maps.rows(&explorer).await.len());
    explorer.close().await;
    // And what is on disk is the same.
    let explorer = place.open(&cluster, &["v1/ConfigMap"]).await;
    synced(&explorer, HOME, 1).await;
    assert_eq!(maps.rows(&explorer).await, maps.truth().await);
    explorer.close().await;
}
