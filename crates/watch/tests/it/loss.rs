//! A stream that can be heard again is synced when it and its consumer know what happened meanwhile, and not before.

use std::time::Duration;

use http::StatusCode;
use testbed::faults::{Fault, Rule};
use testbed::{Cluster, eventually};
use watch::{AfterLoss, Health, Settings};

use crate::consumer::{Consumer, LIMIT, Manner, keys, quick};
use crate::mirror::Mirror;
use crate::objects::{Maps, proxied};

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_too_late_is_no_sign_that_anything_is_known() {
    let cluster = Cluster::own().await;
    let maps = Maps::new(&cluster, "late").await;
    maps.create_many(5).await;
    let (proxy, client) = proxied(&cluster);
    let (keys, mirror) = (keys().await, Mirror::default());
    let settings = Settings { watch: Duration::from_secs(1), ..quick() };
    let consumer = Consumer::start_as(&keys, maps.source(client), &mirror, settings, Manner::Careful).await;
    maps.mirrored(&mirror).await;
    consumer.synced().await;

    proxy.add(Rule::new(Fault::LoseRequest));
    let since = eventually(LIMIT, || async {
        if let Health::Lost { since, .. } = consumer.health() { Ok(since) } else { Err(consumer.health()) }
    })
    .await;
    cluster.expire_watches().await;
    maps.delete("many-1").await;
    // The watch begins, with 200, and says then that it is too late; the list that must follow fails.
    proxy.clear();
    proxy.add(Rule::new(Fault::status(StatusCode::SERVICE_UNAVAILABLE)).path("limit="));
    let mut health = consumer.handle.health();
    let failed = consumer.handle.figures();
    eventually(LIMIT, || async {
        let figures = consumer.handle.figures();
        figures.expired > failed.expired && figures.faults > failed.faults + 3
    })
    .await;
    assert!(matches!(*health.borrow_and_update(), Health::Lost { since: still, .. } if still == since), "{health:?}");
    assert_eq!(mirror.rows().len(), 6, "nothing is deleted by it");
    proxy.clear();
    maps.mirrored(&mirror).await;
    consumer.synced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_must_be_certain_is_synced_when_the_consumer_has_taken_in_a_list() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, "certain").await;
    maps.create_many(5).await;
    let (proxy, client) = proxied(cluster);
    let (keys, mirror) = (keys().await, Mirror::default());
    let settings = Settings { watch: Duration::from_secs(1), after_loss: AfterLoss::List, ..quick() };
    let consumer = Consumer::start_as(&keys, maps.source(client), &mirror, settings, Manner::Careful).await;
    maps.mirrored(&mirror).await;
    consumer.synced().await;

    // Only single objects can be read.
    for path in ["watch=true", "limit="] {
        proxy.add(Rule::new(Fault::status(StatusCode::SERVICE_UNAVAILABLE)).path(path));
    }
    eventually(LIMIT, || async { matches!(consumer.health(), Health::Lost { .. }) }).await;
    maps.delete("many-1").await;
    maps.update("many-2").await;
    // It takes what it waits for, and then nothing.
    consumer.stall();
    let key = watch::Key::new(&maps.namespace, "many-2");
    consumer.handle.fetch(&key).await.unwrap();
    eventually(LIMIT, || async { mirror.rows().get(&key) == maps.truth("").await.get(&key) }).await;
    proxy.clear();
    let listed = || async {
        let figures = consumer.handle.figures();
        if figures.waiting > 1 { Ok(()) } else { Err(figures) }
    };
    eventually(LIMIT, listed).await;
    // It hears the cluster all the time: watches end and begin.
    let watches = consumer.handle.figures().watches;
    eventually(LIMIT, || async { consumer.handle.figures().watches >= watches + 2 }).await;
    assert!(!consumer.health().is_fresh(), "{:?}: what was listed waits for the consumer", consumer.health());
    consumer.go_on();
    consumer.synced().await;
    assert!(!mirror.rows().contains_key(&watch::Key::new(&maps.namespace, "many-1")), "synced, and yet not taken in");
}
