//! A slow consumer holds the stream back, and loses nothing by it.

use std::time::Duration;

use testbed::{Cluster, eventually, scale, seed};
use watch::Settings;

use crate::consumer::{Consumer, LIMIT, Manner, keys, quick};
use crate::mirror::Mirror;
use crate::objects::{Maps, admin};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_holds_little_and_loses_nothing() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch queue"));
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(cluster, "queue").await;
        maps.create_many(100).await;
        let (keys, mirror) = (keys().await, Mirror::default());
        let settings = Settings { queue: 8, page: 7, watch: Duration::from_secs(3), ..quick() };
        let source = maps.source(admin(cluster));
        let consumer = Consumer::start_as(&keys, source, &mirror, settings.clone(), Manner::Careful).await;
        // The queue, then two pages or as many events, each of which may end one object and begin another; and as much of
        // each fetch so far.
        let room = settings.queue + 4 * usize::try_from(settings.page).unwrap();
        let most = |waiting: usize, fetches: usize| {
            assert!(waiting <= room + 2 * fetches, "{waiting} events wait after {fetches} fetches");
        };
        // The first list itself meets a consumer that takes nothing.
        if random.bool() {
            consumer.stall();
        }
        for fetches in 0..5 {
            maps.steps(&mut random, 120, 60).await;
            most(consumer.handle.figures().waiting, fetches);
            consumer.stall();
            maps.steps(&mut random, 120, 60).await;
            most(consumer.handle.figures().waiting, fetches);
            // A fetch gets through to the task although nobody takes events.
            let key = watch::Key::new(&maps.namespace, "many-1");
            tokio::time::timeout(LIMIT, consumer.handle.fetch(&key)).await.expect("not stuck").unwrap();
            if random.bool() {
                consumer.go_on();
            }
        }
        eventually(LIMIT, || async { consumer.handle.figures().waiting > 0 || mirror.seen().synced > 0 }).await;
        // In the full run, longer than the API server keeps such a watch.
        tokio::time::sleep(Duration::from_secs(scale().of(0, 4))).await;
        most(consumer.handle.figures().waiting, 5);
        consumer.go_on();
        maps.mirrored(&mirror).await;
        eventually(LIMIT, || async { consumer.handle.figures().waiting == 0 }).await;
    }
}
