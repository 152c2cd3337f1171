//! Events that a consumer drops come again.

use testbed::{Cluster, eventually, scale, seed};

use crate::consumer::{Consumer, LIMIT, Manner, keys, known, quick};
use crate::mirror::Mirror;
use crate::objects::{Maps, admin};

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_dropped_come_again_until_they_are_acknowledged() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch drops"));
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(cluster, "drops").await;
        maps.create_many(20).await;
        let (keys, mirror) = (keys().await, Mirror::default());
        let source = maps.source(admin(cluster));
        let one_in = random.u32(10..40);
        let consumer = Consumer::start_as(&keys, source, &mirror, quick(), Manner::Drops(one_in)).await;
        maps.steps(&mut random, 30, 60).await;
        // The order among repeated events is not what is looked at here: one that was dropped is told late.
        eventually(LIMIT, || async { mirror.rows() == maps.truth("").await }).await;
        eventually(LIMIT, || async { known(&keys).await == mirror.rows().len() as u64 }).await;
        // Something was dropped, so that it was listed again.
        eventually(LIMIT, || async { consumer.handle.figures().lists > 1 }).await;
    }
}
