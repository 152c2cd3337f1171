//! The same name, made again and again.

use testbed::{Cluster, eventually, scale, seed};
use watch::Keys;

use crate::consumer::{Consumer, LIMIT, known, sqlite};
use crate::mirror::Mirror;
use crate::objects::{Maps, admin};

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_made_again_is_told_as_the_end_of_one_object_and_then_another() {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch recreate"));
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(cluster, "recreate").await;
        let (keys, mirror) = (Keys::new(sqlite().await, "test"), Mirror::default());
        let mut consumer = Consumer::start(&keys, maps.source(admin(cluster)), &mirror).await;
        for _ in 0..random.usize(10..30) {
            maps.delete("same").await;
            maps.create("same").await;
            if random.u32(..5) == 0 {
                consumer.stop().await;
                maps.delete("same").await;
                maps.create("same").await;
                consumer = Consumer::start(&keys, maps.source(admin(cluster)), &mirror).await;
            }
        }
        // The mirror counts it as wrong when a new uid comes before the old one's end.
        maps.mirrored(&mirror).await;
        eventually(LIMIT, || async { known(&keys).await == mirror.rows().len() as u64 }).await;
    }
}
