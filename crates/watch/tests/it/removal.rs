//! A kind or a cluster that is removed is gone at once, whatever is in flight.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use db::{Db, Tx, params};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use testbed::{Cluster, eventually, scale, seed};
use watch::{Error, Health, Keys, Scope, Source, StreamName};

use crate::consumer::{Consumer, LIMIT, Manner, erased, known, postgres, quick, sqlite};
use crate::mirror::Mirror;
use crate::objects::{Maps, admin};

/// The consumer's own rows in the same database.
const ROWS: db::Migrations =
    db::Migrations { set: "rows", steps: &["CREATE TABLE consumer_rows (cluster TEXT NOT NULL, name TEXT NOT NULL)"] };

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_removed_while_updates_pour_in_leaves_nothing_on_sqlite() {
    removed_while_updates_pour_in(|| async { sqlite().await }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_removed_while_updates_pour_in_leaves_nothing_on_postgresql() {
    removed_while_updates_pour_in(|| async { postgres().await }).await;
}

async fn removed_while_updates_pour_in<F: Future<Output = Db>>(database: impl Fn() -> F) {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch removal"));
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(cluster, "removal").await;
        maps.create_many(30).await;
        let db = database().await;
        db.migrate(&[ROWS]).await.unwrap();
        let insert = |tx: &mut Tx<'_>| {
            tx.execute("INSERT INTO consumer_rows (cluster, name) VALUES ($1, $2)", params!["here", "a"])
        };
        db.write(insert).await.unwrap();
        let keys = Keys::new(db.clone(), "test");
        let (mirror, secrets, other) = (Mirror::default(), Mirror::default(), Mirror::default());
        let consumer = Consumer::start(&keys, maps.source(admin(cluster)), &mirror).await;
        let of_secrets = Source { resource: erased::<Secret>(), namespace: None, ..maps.source(admin(cluster)) };
        let secrets_consumer = Consumer::start(&keys, of_secrets, &secrets).await;
        let there = Source { cluster: "there".to_owned(), ..maps.source(admin(cluster)) };
        let _there = Consumer::start(&keys, there, &other).await;
        if random.bool() {
            consumer.synced().await;
        }
        let removed = AtomicBool::new(false);
        let pouring = async {
            while !removed.load(Ordering::SeqCst) {
                maps.steps(&mut fastrand::Rng::new(), 40, 16).await;
            }
            // And a little longer, for what was in flight.
            maps.steps(&mut fastrand::Rng::new(), 40, 30).await;
        };
        let pause = Duration::from_millis(random.u64(..400));
        let removing = async {
            tokio::time::sleep(pause).await;
            let also =
                |tx: &mut Tx<'_>| tx.execute("DELETE FROM consumer_rows WHERE cluster = $1", params!["here"]).map(drop);
            keys.remove(&Scope::Cluster("here".to_owned()), also).await.unwrap();
            // What the consumer keeps in memory goes when the removal has taken place.
            mirror.seen().rows.clear();
            let applied = mirror.seen().applied;
            removed.store(true, Ordering::SeqCst);
            applied
        };
        let ((), applied) = tokio::join!(pouring, removing);
        assert_eq!((mirror.rows().len(), mirror.seen().applied), (0, applied), "nothing came after the removal");
        eventually(LIMIT, || async { consumer.health() == Health::Removed }).await;
        let fetched = consumer.handle.fetch(&watch::Key::new(&maps.namespace, "many-1")).await;
        assert!(matches!(fetched, Err(Error::Removed)), "{fetched:?}");
        consumer.ended().await;
        secrets_consumer.ended().await;
        let rows = db.read(|tx| tx.query("SELECT name FROM consumer_rows", &[])).await.unwrap();
        assert_eq!(rows.len(), 0, "in the same transaction");
        let orphans = "SELECT COUNT(*) FROM watch_keys WHERE stream NOT IN (SELECT id FROM watch_streams)";
        let orphans: i64 = db.read(|tx| tx.query(orphans, &[])).await.unwrap()[0].get(0).unwrap();
        assert_eq!(orphans, 0);
        // The other cluster is as it was, and goes on.
        maps.mirrored(&other).await;
        let left = keys.streams().await.unwrap();
        assert_eq!(left.iter().map(|(name, _)| name.cluster.as_str()).collect::<Vec<_>>(), ["there"]);
        eventually(LIMIT, || async { known(&keys).await == other.rows().len() as u64 }).await;

        // Added again, it begins from nothing.
        let _again = Consumer::start(&keys, maps.source(admin(cluster)), &mirror).await;
        maps.mirrored(&mirror).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_removed_leaves_the_other_kinds_alone() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, "kind").await;
    maps.create_many(5).await;
    let keys = Keys::new(sqlite().await, "test");
    let (mirror, secrets) = (Mirror::default(), Mirror::default());
    let consumer = Consumer::start(&keys, maps.source(admin(cluster)), &mirror).await;
    let of_secrets = Source { resource: erased::<Secret>(), namespace: None, ..maps.source(admin(cluster)) };
    let secrets_consumer = Consumer::start(&keys, of_secrets, &secrets).await;
    maps.mirrored(&mirror).await;
    secrets_consumer.synced().await;
    let name = StreamName::new("here", &erased::<ConfigMap>());
    keys.remove(&Scope::Kind(name), |_tx| Ok(())).await.unwrap();
    consumer.ended().await;
    let left = keys.streams().await.unwrap();
    assert_eq!(left.iter().map(|(name, _)| name.kind.plural.as_str()).collect::<Vec<_>>(), ["secrets"]);
    assert!(matches!(secrets_consumer.health(), Health::Synced { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_followed_anew_ends_for_whoever_followed_it() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, "anew").await;
    maps.create_many(5).await;
    let db = sqlite().await;
    let (mirror, newer) = (Mirror::default(), Mirror::default());
    // Two books of the same consumer, as in two processes: only the database knows of both.
    let (first, second) = (Keys::new(db.clone(), "test"), Keys::new(db, "test"));
    let old = Consumer::start_as(&first, maps.source(admin(cluster)), &mirror, quick(), Manner::Careful).await;
    maps.mirrored(&mirror).await;
    let _new = Consumer::start(&second, maps.source(admin(cluster)), &newer).await;
    maps.mirrored(&newer).await;
    // It learns of it with its next write.
    maps.create("one-more").await;
    old.ended().await;
    assert!(!mirror.rows().contains_key(&watch::Key::new(&maps.namespace, "one-more")));
    maps.mirrored(&newer).await;
}
