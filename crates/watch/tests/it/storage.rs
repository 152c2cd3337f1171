//! A key set that cannot be written: nothing is handed out without its key, and nothing is lost by that.

use db::Config;
use testbed::{Cluster, eventually};
use watch::{Health, Key, Keys, Why};

use crate::consumer::{Consumer, LIMIT, prepared};
use crate::mirror::Mirror;
use crate::objects::{Maps, admin};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_key_cannot_be_written_is_not_handed_out_until_it_can() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, "storage").await;
    maps.create_many(5).await;
    let path = testbed::process::scratch("storage").unwrap().join("watch.db");
    let db = prepared(Config::sqlite(&path)).await;
    let mirror = Mirror::default();
    let consumer = Consumer::start(&Keys::new(db.clone(), "test"), maps.source(admin(cluster)), &mirror).await;
    maps.mirrored(&mirror).await;
    consumer.synced().await;

    db.close().await;
    maps.create("unwritten").await;
    let lost = || async { matches!(consumer.health(), Health::Lost { why: Why::Keys, .. }) };
    eventually(LIMIT, lost).await;
    // It is tried again and again, and still not told.
    let faults = consumer.handle.figures().faults;
    eventually(LIMIT, || async { consumer.handle.figures().faults > faults + 1 }).await;
    let unwritten = Key::new(&maps.namespace, "unwritten");
    assert!(!mirror.rows().contains_key(&unwritten));
    assert!(consumer.handle.fetch(&unwritten).await.is_err(), "not by a fetch either");
    assert!(!mirror.rows().contains_key(&unwritten));
    consumer.stop().await;

    let keys = Keys::new(prepared(Config::sqlite(&path)).await, "test");
    let _again = Consumer::start(&keys, maps.source(admin(cluster)), &mirror).await;
    maps.mirrored(&mirror).await;
}
