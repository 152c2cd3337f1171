//! Leaving a filter is a deletion, coming back is an object.

use testbed::{Cluster, eventually, scale, seed};
use watch::{Filter, Keys, Source};

use crate::consumer::{Consumer, LIMIT, known, sqlite};
use crate::mirror::Mirror;
use crate::objects::{Maps, admin};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_leaves_the_predicate_is_deleted() {
    leave_and_come_back(|source| {
        let kept = |object: &kube::api::DynamicObject| {
            object.metadata.labels.as_ref().and_then(|labels| labels.get("keep")).is_some_and(|keep| keep == "yes")
        };
        Source { filter: Filter::by(kept), ..source }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_leaves_the_label_selector_is_deleted() {
    leave_and_come_back(|source| Source { labels: Some("keep=yes".to_owned()), ..source }).await;
}

async fn leave_and_come_back(narrow: impl Fn(Source) -> Source) {
    let cluster = Cluster::shared().await;
    let mut random = fastrand::Rng::with_seed(seed("watch filter"));
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(cluster, "filter").await;
        maps.create_many(10).await;
        let (keys, mirror) = (Keys::new(sqlite().await, "test"), Mirror::default());
        let source = || narrow(maps.source(admin(cluster)));
        let mut consumer = Consumer::start(&keys, source(), &mirror).await;
        maps.mirrored_where(&mirror, "keep=yes").await;
        for name in 0..10 {
            maps.label(&format!("many-{name}"), "no").await;
        }
        maps.mirrored_where(&mirror, "keep=yes").await;
        assert_eq!(mirror.rows().len(), 0);
        for _ in 0..6 {
            for _ in 0..10 {
                let name = format!("many-{}", random.usize(..10));
                maps.label(&name, if random.bool() { "yes" } else { "no" }).await;
                // A read by key knows the filter, too.
                if random.u32(..3) == 0 {
                    let _ = consumer.handle.fetch(&watch::Key::new(&maps.namespace, &name)).await.unwrap();
                }
            }
            if random.bool() {
                consumer.stop().await;
                maps.steps(&mut random, 10, 10).await;
                consumer = Consumer::start(&keys, source(), &mirror).await;
            }
        }
        maps.mirrored_where(&mirror, "keep=yes").await;
        eventually(LIMIT, || async { known(&keys).await == mirror.rows().len() as u64 }).await;
    }
}
