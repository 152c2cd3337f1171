//! A key set that cannot be written: nothing is handed out without its key, and nothing is lost by that.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use db::Config;
use testbed::{Cluster, eventually};
use tokio::sync::Notify;
use watch::{Health, Key, Keys, Settings, Why};

use crate::consumer::{Consumer, LIMIT, Manner, known, prepared, quick, sqlite};
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

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_is_told_while_a_write_takes_for_ever_and_what_is_new_waits_for_its_key() {
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, "stuck").await;
    maps.create_many(5).await;
    let (db, mirror) = (sqlite().await, Mirror::default());
    let keys = Keys::new(db.clone(), "test");
    let settings = Settings { deadline: Duration::from_secs(3), ..quick() };
    let consumer = Consumer::start_as(&keys, maps.source(admin(cluster)), &mirror, settings, Manner::Careful).await;
    maps.mirrored(&mirror).await;
    consumer.synced().await;

    // As on a disk that hangs: all later writes wait behind this one.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (held, begun) = (Mutex::new(held), Arc::new(Notify::new()));
    let stuck = tokio::spawn({
        let begun = Arc::clone(&begun);
        let hang = move |_tx: &mut db::Tx<'_>| {
            begun.notify_one();
            let _ = held.lock().unwrap().recv();
            Ok::<(), db::Error>(())
        };
        async move { db.write(hang).await }
    });
    begun.notified().await;
    for number in 0..3 {
        let name = format!("many-{number}");
        maps.delete(&name).await;
        let key = Key::new(&maps.namespace, &name);
        eventually(LIMIT, || async { !mirror.rows().contains_key(&key) }).await;
    }
    assert!(matches!(consumer.health(), Health::Synced { .. }), "{:?}", consumer.health());

    maps.create("new").await;
    eventually(LIMIT, || async { matches!(consumer.health(), Health::Lost { why: Why::Keys, .. }) }).await;
    assert!(!mirror.rows().contains_key(&Key::new(&maps.namespace, "new")));
    drop(release);
    stuck.await.unwrap().unwrap();
    maps.mirrored(&mirror).await;
    eventually(LIMIT, || async { known(&keys).await == mirror.rows().len() as u64 }).await;
}
