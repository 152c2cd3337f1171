//! What goes while nobody follows is told at the first sync after.

use std::time::Instant;

use db::Db;
use testbed::{Cluster, eventually, scale, seed};
use watch::Keys;

use crate::consumer::{Consumer, LIMIT, Manner, known, postgres, quick, sqlite};
use crate::mirror::Mirror;
use crate::objects::{Maps, admin};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_while_nobody_follows_is_gone_at_the_first_sync_on_sqlite() {
    deleted_while_nobody_followed(sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_while_nobody_follows_is_gone_at_the_first_sync_on_postgresql() {
    deleted_while_nobody_followed(postgres().await).await;
}

async fn deleted_while_nobody_followed(db: Db) {
    let cluster = Cluster::shared().await;
    let count = scale().of(100, 1000);
    let maps = Maps::new(cluster, "downtime").await;
    maps.create_many(count).await;
    let (keys, mirror) = (Keys::new(db, "test"), Mirror::default());
    let first = Consumer::start(&keys, maps.source(admin(cluster)), &mirror).await;
    maps.mirrored(&mirror).await;
    first.stop().await;
    assert_eq!(known(&keys).await, count as u64 + 1);

    maps.delete_all().await;
    mirror.seen().synced = 0;
    let began = Instant::now();
    let second = Consumer::start(&keys, maps.source(admin(cluster)), &mirror).await;
    eventually(LIMIT, || async { mirror.seen().synced > 0 }).await;
    println!("{count} deletions during downtime were told {:?} after the start", began.elapsed());
    assert_eq!(mirror.seen().rows_at_sync, 1, "only the cluster's own is left, at the first sync");
    let told = mirror.seen().deleted.clone();
    assert_eq!(told.len(), count);
    assert!(told.iter().all(|(_key, uid)| uid.is_some()));
    // Acknowledged: nothing is told again.
    eventually(LIMIT, || async { known(&keys).await == 1 }).await;
    second.stop().await;
    mirror.seen().synced = 0;
    let _third = Consumer::start(&keys, maps.source(admin(cluster)), &mirror).await;
    eventually(LIMIT, || async { mirror.seen().synced > 0 }).await;
    assert_eq!(mirror.seen().deleted.len(), count);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_dropped_at_any_moment_misses_nothing() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch restart"));
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(cluster, "restarts").await;
        let (keys, mirror) = (Keys::new(sqlite().await, "test"), Mirror::default());
        for _ in 0..5 {
            let settings = watch::Settings { page: random.u32(1..40), queue: random.usize(1..40), ..quick() };
            let source = maps.source(admin(cluster));
            let consumer = Consumer::start_as(&keys, source, &mirror, settings, Manner::Careful).await;
            if random.bool() {
                consumer.synced().await;
            }
            let count = random.usize(..40);
            maps.steps(&mut random, 30, count).await;
            consumer.stop().await;
            let count = random.usize(..40);
            maps.steps(&mut random, 30, count).await;
        }
        let _last = Consumer::start(&keys, maps.source(admin(cluster)), &mirror).await;
        maps.mirrored(&mirror).await;
        eventually(LIMIT, || async { known(&keys).await == mirror.rows().len() as u64 }).await;
    }
}
