//! A disk that is full or fails: commits are refused, decisions are counted, and it goes on by itself.

use std::fs::File;
use std::sync::atomic::Ordering::Relaxed;

use access::audit::{Audit, Fault, Intent};
use testbed::SmallDisk;

use super::{Place, act, decision, eventually, intent, told};

#[tokio::test]
async fn a_full_disk_refuses_changes_counts_decisions_and_recovers() {
    let place = Place::new("full");
    // The log alone is on the small disk: the database beside it is another matter.
    let disk = SmallDisk::mount(&place.directory(), "4m");
    let audit = place.open().await;
    let promised = audit.intend(intent("promised"), Intent::Written).await.unwrap();
    disk.fill();

    // What is reserved beyond the promises may serve for a while; then it ends.
    let mut promises = Vec::new();
    let refused = loop {
        match audit.intend(intent("x"), Intent::Written).await {
            Ok(promise) => promises.push(promise),
            Err(refused) => break refused,
        }
        assert!(promises.len() < 10_000, "a full disk refuses");
    };
    assert!(refused.to_string().contains("space"), "{refused}");
    assert!(audit.health().unwrap_err().contains("space"));
    for i in 0..25 {
        audit.record(decision(&format!("lost{i}"))).await;
    }
    eventually("25 decisions are counted", || audit.stats().lost.load(Relaxed) == 25).await;
    assert!(audit.commit(act("without an intent")).await.is_err());
    // The acts whose intents were accepted before still fit, however long.
    let long = "x".repeat(1000);
    let done = audit.commit(act(&long).request_id(&long).namespace(&long).after(&promised)).await;
    let done = done.expect("the space of an accepted intent is kept");
    for promise in &promises {
        let _done = audit.commit(act(&long).request_id(&long).after(promise)).await.expect("and of each other one");
    }
    eprintln!("{} intents were accepted on the full disk, and answered", promises.len());
    drop((promised, promises));
    assert_eq!(place.lines()[&done.n]["intent"], 2);
    assert!(audit.health().is_err(), "one act that fits does not make it well");

    disk.free();
    eventually("it recovers by itself", || audit.health().is_ok()).await;
    let after = audit.commit(act("after")).await.unwrap();
    audit.close().await;
    let lines = place.lines();
    assert_eq!(lines[&after.n]["name"], "after");
    assert!(lines.values().all(|line| !line["name"].as_str().unwrap_or_default().starts_with("lost")));
    let report = place.verify().await;
    let gaps: u64 = report.findings.iter().filter(|f| f.fault == Fault::RecordedGap).filter_map(|f| f.count).sum();
    assert!(!report.tampered() && gaps == 25, "{gaps} lost\n{}", told(&report));
}

#[tokio::test]
async fn a_full_disk_does_not_stop_a_restart_from_telling_why() {
    let place = Place::new("full-start");
    let disk = SmallDisk::mount(&place.directory(), "1m");
    place.open().await.close().await;
    disk.fill();
    // The log's own reserve would let it start.
    let file = File::options().write(true).open(place.directory().join("audit.log")).unwrap();
    file.set_len(file.metadata().unwrap().len()).unwrap();
    disk.fill_rest();
    let error = Audit::open(place.config(), place.db().await).await.unwrap_err();
    assert!(error.to_string().contains("audit.log"), "{error}");
    disk.free();
    place.open().await.close().await;
    let report = place.verify().await;
    assert!(!report.tampered(), "{}", told(&report));
}
