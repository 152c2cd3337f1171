//! Connections that are cut or half open: nothing is deleted, it is noticed in time, and it mends itself.

use std::time::{Duration, Instant};

use testbed::{Cluster, Direction, Proxy, Toxiproxy, eventually, scale, seed};
use watch::{Health, Why};

use crate::consumer::{Consumer, LIMIT, Manner, keys, quick};
use crate::mirror::Mirror;
use crate::objects::Maps;

async fn through(toxiproxy: &Toxiproxy, cluster: &Cluster) -> (Proxy, kube::Client) {
    let proxy = toxiproxy.proxy(cluster.url().trim_start_matches("https://")).await.unwrap();
    let user = cluster.user("watch-admin", &["system:masters"]);
    let kubeconfig = user.kubeconfig().clone().with_server(&format!("https://{}", proxy.address));
    (proxy, kubeconfig.plain_client())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_cluster_keeps_its_rows_and_what_went_meanwhile_is_told_after() {
    let cluster = Cluster::shared().await;
    let toxiproxy = Toxiproxy::start().unwrap();
    let mut random = fastrand::Rng::with_seed(seed("watch cut"));
    for _ in 0..scale().of(2, 20) {
        let (proxy, client) = through(&toxiproxy, cluster).await;
        let maps = Maps::new(cluster, "cut").await;
        maps.create_many(20).await;
        let (keys, mirror) = (keys().await, Mirror::default());
        let consumer = Consumer::start(&keys, maps.source(client), &mirror).await;
        maps.mirrored(&mirror).await;
        consumer.synced().await;
        let before = jiff::Timestamp::now();
        proxy.cut().await.unwrap();
        let since = eventually(LIMIT, || async {
            match consumer.health() {
                Health::Lost { since, why: Why::Unreachable } => Some(since),
                _ => None,
            }
        })
        .await;
        assert!(since <= jiff::Timestamp::now() && since.duration_since(before).as_secs() > -60);
        maps.delete_all().await;
        maps.steps(&mut random, 20, 20).await;
        assert_eq!(mirror.rows().len(), 21, "rows stay");
        assert_eq!(consumer.handle.fetch(&watch::Key::new(&maps.namespace, "many-1")).await.ok(), None);
        proxy.heal().await.unwrap();
        maps.mirrored(&mirror).await;
        consumer.synced().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_watch_is_noticed_within_fifteen_seconds() {
    let cluster = Cluster::shared().await;
    let toxiproxy = Toxiproxy::start().unwrap();
    for direction in [Direction::Downstream, Direction::Upstream] {
        let (proxy, client) = through(&toxiproxy, cluster).await;
        let maps = Maps::new(cluster, "half-open").await;
        maps.create_many(20).await;
        let (keys, mirror) = (keys().await, Mirror::default());
        // With the settings of the product.
        let settings = watch::Settings::default();
        let consumer = Consumer::start_as(&keys, maps.source(client), &mirror, settings, Manner::Careful).await;
        maps.mirrored(&mirror).await;
        consumer.synced().await;
        // Both at once in the second round: nothing passes, and nobody closes anything.
        proxy.timeout(direction).await.unwrap();
        if direction == Direction::Upstream {
            proxy.timeout(Direction::Downstream).await.unwrap();
        }
        let began = Instant::now();
        maps.delete_all().await;
        eventually(LIMIT, || async { matches!(consumer.health(), Health::Lost { .. }) }).await;
        let noticed = began.elapsed();
        println!("a half-open watch was noticed after {noticed:?}: {:?}", consumer.health());
        if scale().is_full() {
            assert!(noticed < Duration::from_secs(15), "{noticed:?}");
        }
        assert_eq!(mirror.rows().len(), 21, "rows stay");
        proxy.heal().await.unwrap();
        maps.mirrored(&mirror).await;
        consumer.synced().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_all_the_time_lose_nothing() {
    let cluster = Cluster::shared().await;
    let toxiproxy = Toxiproxy::start().unwrap();
    let mut random = fastrand::Rng::with_seed(seed("watch broken"));
    for _ in 0..scale().of(1, 20) {
        let (proxy, client) = through(&toxiproxy, cluster).await;
        let maps = Maps::new(cluster, "broken").await;
        maps.create_many(50).await;
        let (keys, mirror) = (keys().await, Mirror::default());
        let settings = watch::Settings { page: 10, ..quick() };
        let consumer = Consumer::start_as(&keys, maps.source(client), &mirror, settings, Manner::Careful).await;
        // A watch that breaks off quietly is begun again without a fault.
        let attempts = || {
            let figures = consumer.handle.figures();
            figures.watches + figures.lists + figures.faults
        };
        for _ in 0..5 {
            let before = attempts();
            // Each connection ends after some bytes, in the middle of whatever it carries.
            proxy.limit_data_downstream(random.u64(3_000..12_000)).await.unwrap();
            while attempts() == before {
                maps.steps(&mut random, 60, 20).await;
            }
            proxy.heal().await.unwrap();
            maps.steps(&mut random, 60, 10).await;
        }
        maps.mirrored(&mirror).await;
    }
}
