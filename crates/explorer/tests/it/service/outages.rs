//! A cluster that cannot be reached or may not be read: rows stay and say how old they are, until nobody can tell who may see
//! them; nothing is deleted, and all is well again by itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use db::{Config, Db};
use explorer::query::Query;
use explorer::service::KindState;
use explorer::{Explorer, Index};
use testbed::{Cluster, Direction, Scope, Toxiproxy, eventually, rule, scale, seed, subject};
use tokio::sync::Notify;

use super::maps::Maps;
use super::world::{HOME, LIMIT, Place, found, local, master, reader, report, state, synced};

/// Since when the rows of a namespace are stale; all of them say the same.
async fn stale_since(explorer: &Explorer, namespace: &str) -> Option<i64> {
    let visibility = explorer.visibility(&master()).await;
    let query = Query { limit: 0, ..Query::parse(&format!("ns:{namespace} kind:ConfigMap")).unwrap() };
    let page = explorer.read(|index| index.query(&query, &visibility));
    let marks: Vec<Option<i64>> = page.rows.iter().map(|found| found.stale_since).collect();
    assert!(marks.windows(2).all(|pair| pair[0] == pair[1]), "{marks:?}");
    marks.first().copied().flatten()
}

async fn withheld(explorer: &Explorer) -> Option<String> {
    explorer.visibility(&master()).await.withheld().pop().map(|withheld| withheld.reason)
}

/// How a connection is broken.
#[derive(Clone, Copy, Debug)]
enum Break {
    Cut,
    /// Nothing passes, and nobody closes anything.
    HalfOpen,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_out_of_reach_is_shown_stale_then_withheld_and_is_back_by_itself() {
    let cluster = Cluster::shared().await;
    let toxiproxy = Toxiproxy::start().unwrap();
    let mut random = fastrand::Rng::with_seed(seed("explorer outage"));
    for how in [Break::Cut, Break::HalfOpen].repeat(scale().of(1, 5)) {
        let proxy = toxiproxy.proxy(cluster.url().trim_start_matches("https://")).await.unwrap();
        let maps = Maps::new(cluster, HOME, "outage").await;
        maps.create_many(20).await;
        let place = Place::new();
        let open = || async {
            let mut options = place.options(&["v1/ConfigMap"]).await;
            let through = reader(cluster).with_server(&format!("https://{}", proxy.address));
            options.local = Some(local(&through));
            // Longer than a half-open connection takes to be noticed.
            options.settings.rbac_max_age = Duration::from_secs(25);
            Explorer::open(options).await.unwrap()
        };
        let explorer = open().await;
        synced(&explorer, HOME, 1).await;
        maps.mirrored(&explorer).await;
        assert_eq!(stale_since(&explorer, &maps.namespace).await, None);
        let text = format!("ns:{} kind:ConfigMap", maps.namespace);
        let before = found(&explorer, &master(), &text).await;

        let began = jiff::Timestamp::now().as_millisecond();
        match how {
            Break::Cut => proxy.cut().await.unwrap(),
            Break::HalfOpen => {
                proxy.timeout(Direction::Upstream).await.unwrap();
                proxy.timeout(Direction::Downstream).await.unwrap();
            }
        }
        // What goes now is not known to be gone.
        maps.delete_all().await;
        let since = eventually(LIMIT, || async { stale_since(&explorer, &maps.namespace).await }).await;
        assert!(since > began - 60_000 && since <= jiff::Timestamp::now().as_millisecond(), "{since} {began}");
        assert_eq!(found(&explorer, &master(), &text).await, before, "{how:?}: rows stay");
        assert_eq!(state(&explorer, HOME, "ConfigMap"), Some(KindState::Stale));
        let reason = report(&explorer, HOME).unwrap().kinds[0].reason.clone().unwrap();
        assert!(reason.contains("reached") || reason.contains("half open"), "{reason}");

        let reason = eventually(LIMIT, || async { withheld(&explorer).await }).await;
        assert!(reason.contains("nothing has been heard of its"), "{reason}");
        assert!(found(&explorer, &master(), &text).await.is_empty(), "nobody can tell who may see them");
        let kept = explorer.read(Index::inventory).values().sum::<u64>();
        assert!(kept >= before.len() as u64, "and nothing is deleted");

        // In half of the runs it is started anew while nothing can be asked.
        let explorer = if random.bool() {
            explorer.close().await;
            let explorer = open().await;
            assert_eq!(explorer.read(Index::inventory).values().sum::<u64>(), kept, "a warm start");
            assert!(withheld(&explorer).await.is_some(), "nothing is shown before RBAC has been read");
            assert!(found(&explorer, &master(), &text).await.is_empty());
            explorer
        } else {
            explorer
        };
        proxy.heal().await.unwrap();
        synced(&explorer, HOME, 1).await;
        maps.mirrored(&explorer).await;
        assert_eq!(withheld(&explorer).await, None);
        eventually(LIMIT, || async { stale_since(&explorer, &maps.namespace).await.is_none() }).await;
        explorer.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_stale_while_what_happens_to_them_cannot_be_taken_in() {
    // Its own: nothing else may happen to ConfigMaps, for a new one alone would make them stale.
    let cluster = &Cluster::own().await;
    let maps = Maps::new(cluster, HOME, "behind").await;
    maps.create_many(60).await;
    let place = Place::new();
    let mut options = place.options(&["v1/ConfigMap"]).await;
    options.local = Some(local(&reader(cluster)));
    options.settings.rbac_max_age = Duration::from_hours(1);
    let explorer = Explorer::open(options).await.unwrap();
    synced(&explorer, HOME, 1).await;
    maps.mirrored(&explorer).await;
    assert_eq!(stale_since(&explorer, &maps.namespace).await, None);

    // As on a disk that is full: nothing more can be written.
    let copy = Db::open(Config::sqlite(place.copy())).await.unwrap();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (held, begun) = (Mutex::new(held), Arc::new(Notify::new()));
    let lock = tokio::spawn({
        let (copy, begun) = (copy.clone(), Arc::clone(&begun));
        let hold = move |_tx: &mut db::Tx<'_>| {
            begun.notify_one();
            let _ = held.lock().unwrap().recv();
            Ok::<(), db::Error>(())
        };
        async move { copy.write(hold).await }
    });
    begun.notified().await;
    let mut behind = false;
    for number in 0..60 {
        let name = format!("many-{number}");
        maps.delete(&name).await;
        let text = format!("ns:{} name:{name}", maps.namespace);
        // One by one, so that none shares the room of another.
        behind = eventually(LIMIT, || async {
            let gone = found(&explorer, &master(), &text).await.is_empty();
            let stale = stale_since(&explorer, &maps.namespace).await.is_some();
            (gone || stale).then_some(stale)
        })
        .await;
        if behind {
            break;
        }
    }
    assert!(behind, "all of them were taken in");
    eventually(LIMIT, || async { state(&explorer, HOME, "ConfigMap") == Some(KindState::Stale) }).await;
    let reason = report(&explorer, HOME).unwrap().kinds[0].reason.clone().unwrap();
    assert!(reason.contains("disk"), "{reason}");

    drop(release);
    lock.await.unwrap().unwrap();
    copy.close().await;
    maps.mirrored(&explorer).await;
    eventually(LIMIT, || async { stale_since(&explorer, &maps.namespace).await.is_none() }).await;
    explorer.close().await;
}

const RBAC: &[&str] = &["roles", "rolebindings", "clusterroles", "clusterrolebindings"];

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_that_is_lost_makes_rows_stale_or_withholds_them_and_deletes_nothing() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("explorer permission"));
    for _ in 0..scale().of(1, 20) {
        let name = format!("collector-{}", random.u32(..));
        let user = cluster.user(&name, &[]);
        let subjects = [subject::user(&name)];
        let verbs = ["get", "list", "watch"];
        let grant = |group: &'static str, resources: &'static [&'static str]| {
            let (subjects, rules) = (subjects.clone(), [rule(&verbs, &[group], resources)]);
            async move { cluster.grant(Scope::Cluster, &subjects, &rules).await }
        };
        grant("", &["namespaces"]).await;
        let rbac = grant("rbac.authorization.k8s.io", RBAC).await;
        let rows = grant("", &["configmaps"]).await;
        let maps = Maps::new(cluster, HOME, "permission").await;
        maps.create_many(10).await;
        let mut options = Place::new().options(&["v1/ConfigMap"]).await;
        options.local = Some(local(user.kubeconfig()));
        options.settings.rbac_max_age = Duration::from_secs(3);
        let explorer = Explorer::open(options).await.unwrap();
        synced(&explorer, HOME, 1).await;
        maps.mirrored(&explorer).await;
        let text = format!("ns:{} kind:ConfigMap", maps.namespace);
        let before = found(&explorer, &master(), &text).await;

        cluster.remove_binding(&rows).await;
        eventually(LIMIT, || async { stale_since(&explorer, &maps.namespace).await.is_some() }).await;
        maps.delete_all().await;
        assert_eq!(found(&explorer, &master(), &text).await, before, "rows stay, and are shown: RBAC is known");
        let reason = report(&explorer, HOME).unwrap().kinds[0].reason.clone().unwrap();
        assert!(reason.contains("grant get, list and watch"), "{reason}");

        cluster.remove_binding(&rbac).await;
        let reason = eventually(LIMIT, || async { withheld(&explorer).await }).await;
        assert!(reason.contains("permission is missing"), "{reason}");
        assert!(found(&explorer, &master(), &text).await.is_empty());

        grant("rbac.authorization.k8s.io", RBAC).await;
        grant("", &["configmaps"]).await;
        synced(&explorer, HOME, 1).await;
        maps.mirrored(&explorer).await;
        explorer.close().await;
    }
}
