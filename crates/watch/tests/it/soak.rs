//! Many random steps, with restarts, dropped events and fetches among them; in the end consumer and cluster are equal.

use std::time::Instant;

use testbed::{Cluster, eventually, scale, seed};
use watch::{Key, Keys, Settings};

use crate::consumer::{Consumer, LIMIT, Manner, known, quick, sqlite};
use crate::mirror::Mirror;
use crate::objects::{Maps, admin};

#[tokio::test(flavor = "multi_thread")]
async fn after_many_random_steps_and_restarts_the_consumer_has_what_the_cluster_has() {
    let cluster = Cluster::own().await;
    let mut random = fastrand::Rng::with_seed(seed("watch soak"));
    let steps = scale().of(1_000, 100_000);
    let names = scale().of(100, 2_000);
    let maps = Maps::new(&cluster, "soak").await;
    let (keys, mirror) = (Keys::new(sqlite().await, "test"), Mirror::default());
    let start = |random: &mut fastrand::Rng| {
        let settings = Settings { page: random.u32(10..500), queue: random.usize(10..2000), ..quick() };
        let source = maps.source(admin(&cluster));
        let (keys, mirror) = (keys.clone(), mirror.clone());
        async move { Consumer::start_as(&keys, source, &mirror, settings, Manner::Careful).await }
    };
    let began = Instant::now();
    let (mut done, mut restarts, mut fetches) = (0, 0, 0);
    let mut consumer = start(&mut random).await;
    while done < steps {
        let some = random.usize(1..scale().of(80, 800)).min(steps - done);
        maps.steps(&mut random, names, some).await;
        done += some;
        match random.u32(..4) {
            0 => {
                consumer.stop().await;
                // Nobody follows for a while.
                let some = random.usize(..scale().of(40, 400)).min(steps - done);
                maps.steps(&mut random, names, some).await;
                done += some;
                consumer = start(&mut random).await;
                restarts += 1;
            }
            1 => {
                let key = Key::new(&maps.namespace, &format!("many-{}", random.usize(..names)));
                consumer.handle.fetch(&key).await.unwrap();
                fetches += 1;
            }
            2 => consumer.stall(),
            _ => consumer.go_on(),
        }
    }
    consumer.go_on();
    let (stepped, last_step) = (began.elapsed(), Instant::now());
    maps.mirrored(&mirror).await;
    eventually(LIMIT, || async { known(&keys).await == mirror.rows().len() as u64 }).await;
    let seen = mirror.seen();
    println!(
        "{done} steps in {stepped:?} with {restarts} restarts and {fetches} fetches: {} applied, {} deleted, {} objects \
         in the end, equal {:?} after the last step",
        seen.applied,
        seen.deleted.len(),
        seen.rows.len(),
        last_step.elapsed(),
    );
}
