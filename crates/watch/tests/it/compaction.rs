//! A watch that comes back too late (410) lists again, and what the list lacks is deleted.

use testbed::{Cluster, Toxiproxy, eventually, scale, seed};
use watch::Health;

use crate::consumer::{Consumer, LIMIT, Manner, keys};
use crate::mirror::Mirror;
use crate::objects::Maps;

#[tokio::test(flavor = "multi_thread")]
async fn what_went_before_a_compaction_is_deleted_by_the_list_after_it() {
    let cluster = Cluster::own().await;
    let toxiproxy = Toxiproxy::start().unwrap();
    let proxy = toxiproxy.proxy(cluster.url().trim_start_matches("https://")).await.unwrap();
    let user = cluster.user("watch-admin", &["system:masters"]);
    let kubeconfig = user.kubeconfig().clone().with_server(&format!("https://{}", proxy.address));
    let mut random = fastrand::Rng::with_seed(seed("watch compaction"));
    for _ in 0..scale().of(2, 20) {
        let maps = Maps::new(&cluster, "compaction").await;
        maps.create_many(50).await;
        let (keys, mirror) = (keys().await, Mirror::default());
        let consumer = Consumer::start(&keys, maps.source(kubeconfig.plain_client()), &mirror).await;
        maps.mirrored(&mirror).await;
        consumer.synced().await;

        proxy.cut().await.unwrap();
        eventually(LIMIT, || async { matches!(consumer.health(), Health::Lost { .. }) }).await;
        maps.steps(&mut random, 60, 60).await;
        maps.delete("many-1").await;
        assert_eq!(mirror.seen().deleted.len(), 0);
        cluster.expire_watches().await;
        proxy.heal().await.unwrap();
        maps.mirrored(&mirror).await;
        let figures = consumer.handle.figures();
        assert!(figures.expired > 0 && figures.lists > 1, "{figures:?}");
        assert!(!mirror.seen().deleted.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_on_which_nothing_happens_keeps_up_by_bookmarks() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, "idle").await;
    let (keys, mirror) = (keys().await, Mirror::default());
    let settings = watch::Settings::default();
    let source = maps.source(crate::objects::admin(cluster));
    let consumer = Consumer::start_as(&keys, source, &mirror, settings, Manner::Careful).await;
    eventually(LIMIT, || async { consumer.handle.figures().bookmarks > 1 }).await;
    println!("{:?}", consumer.handle.figures());
    assert_eq!(consumer.handle.figures().lists, 1);
}
