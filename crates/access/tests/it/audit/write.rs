//! Writing, reading and keeping: what is on disk when, and for how long.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::{fs, io};

use access::audit::{Audit, Error, Fault, Intent, Key, Tail, verify};
use testbed::scale;
use tokio::task::JoinSet;

use super::{Place, act, decision, eventually, files, intent, told};

#[tokio::test]
async fn a_commit_is_on_disk_and_known_to_the_database_when_it_returns() {
    let place = Place::new("commit");
    let audit = place.open().await;
    for i in 0..5 {
        let receipt = audit.commit(act(&format!("x{i}")).request_id("r-1")).await.unwrap();
        let line = &place.lines()[&receipt.n];
        assert_eq!(line["name"], format!("x{i}"));
        let head = place.head().await.unwrap();
        assert_eq!((head.n, head.mac.to_string().as_str()), (receipt.n, line["mac"].as_str().unwrap()));
        assert_eq!(audit.head(), head);
    }
    let line = &place.lines()[&2];
    for (field, value) in [("kind", "act"), ("user", "jane"), ("verb", "update"), ("namespace", "team")] {
        assert_eq!(line[field], value);
    }
    for (field, value) in [("result", "done"), ("request_id", "r-1"), ("source", "token"), ("resource", "states")] {
        assert_eq!(line[field], value);
    }
    let time = line["time"].as_str().unwrap();
    assert!(time.len() == 24 && time.ends_with('Z'), "{time} has milliseconds");
    let mode = |name: &str| fs::metadata(place.root.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("audit"), mode("audit/audit.log"), mode("audit.key")), (0o700, 0o600, 0o600));
}

#[tokio::test]
async fn decisions_reach_disk_and_database_without_a_commit() {
    let place = Place::new("record");
    let audit = place.open().await;
    for i in 0..10 {
        audit.record(decision(&format!("d{i}"))).await;
    }
    eventually("ten decisions on disk", || place.lines().len() == 11).await;
    eventually("the head follows", || audit.head().n == 11).await;
    assert!(!place.verify().await.tampered());
}

#[tokio::test]
async fn an_intent_is_in_the_file_when_it_returns_and_its_act_comes_after_it() {
    let place = Place::new("intent");
    let audit = place.open().await;
    for how in [Intent::Written, Intent::Durable] {
        let promise = audit.intend(intent("x"), how).await.unwrap();
        assert_eq!(place.lines()[&promise.n]["kind"], "intent");
        let done = audit.commit(act("x").after(&promise)).await.unwrap();
        assert_eq!(place.lines()[&done.n]["intent"], promise.n);
        assert!(done.n > promise.n);
    }
    // Also one that nobody answers is soon on disk and known.
    let promise = audit.intend(intent("y"), Intent::Written).await.unwrap();
    eventually("the head follows", || audit.head().n == promise.n).await;
    assert!(!place.verify().await.tampered());
}

#[tokio::test]
async fn every_answered_change_is_known_and_the_last_line_is_recorded_at_the_end() {
    let place = Place::new("follow");
    let audit = place.open().await;
    for i in 0..200 {
        let promise = audit.intend(intent(&format!("x{i}")), Intent::Written).await.unwrap();
        let done = audit.commit(act(&format!("x{i}")).after(&promise)).await.unwrap();
        assert!(audit.head().n >= done.n, "line {} was answered, the database knows {}", done.n, audit.head().n);
    }
    audit.close().await;
    let lines = place.lines();
    assert_eq!(place.head().await.unwrap().n, *lines.keys().last().unwrap());
    assert_eq!(lines.values().next_back().unwrap()["kind"], "stop");
}

#[tokio::test]
async fn a_thousand_commits_at_once_share_their_syncs() {
    let place = Place::new("group");
    let audit = place.open().await;
    let (syncs, heads) = (audit.stats().syncs.load(Relaxed), audit.stats().heads.load(Relaxed));
    let mut commits = JoinSet::new();
    for i in 0..1000 {
        let audit = audit.clone();
        commits.spawn(async move { audit.commit(act(&format!("x{i}"))).await.unwrap().n });
    }
    let mut numbers = commits.join_all().await;
    numbers.sort_unstable();
    assert_eq!(numbers, (2..=1001).collect::<Vec<_>>());
    let (syncs, heads) = (audit.stats().syncs.load(Relaxed) - syncs, audit.stats().heads.load(Relaxed) - heads);
    assert!((1..100).contains(&syncs) && heads <= syncs, "{syncs} syncs, {heads} heads for 1000 commits");
    eprintln!("1000 commits: {syncs} syncs, {heads} heads");
    audit.close().await;
    let report = place.verify().await;
    assert!(!report.tampered() && report.lines == 1002, "{}", told(&report));
}

#[tokio::test]
async fn files_rotate_by_size_and_the_chain_goes_on() {
    let place = Place::new("rotate").rotating_at(2000);
    let audit = place.open().await;
    for i in 0..40 {
        let _receipt = audit.commit(act(&format!("x{i}"))).await.unwrap();
    }
    audit.close().await;
    let files = files(&place.directory());
    assert!(files.len() > 4, "{}", files.len());
    let mut expected = 1;
    for (name, content) in &files[..files.len() - 1] {
        let lines: Vec<serde_json::Value> = content.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (first, last) = (lines[0]["n"].as_u64().unwrap(), lines.last().unwrap());
        assert_eq!(first, expected);
        assert_eq!(*name, format!("audit-{first:012}-{:012}.log", last["n"].as_u64().unwrap()));
        assert_eq!(last["kind"], "rotate");
        expected = last["n"].as_u64().unwrap() + 1;
    }
    let report = place.verify().await;
    assert!(!report.tampered() && report.findings.is_empty(), "{}", told(&report));
    assert_eq!(report.files, files.len() as u64);
}

#[tokio::test]
async fn files_rotate_and_expire_by_age() {
    let mut place = Place::new("age");
    place.limits.rotate_after = Duration::from_millis(300);
    place.limits.keep_for = Some(Duration::from_millis(500));
    let audit = place.open().await;
    let first = audit.commit(act("x")).await.unwrap();
    // Nothing more is asked of the log: it rotates and expires by itself.
    testbed::eventually(Duration::from_mins(1), || async { place.verify().await.has(Fault::Expired) }).await;
    audit.close().await;
    let report = place.verify().await;
    assert!(!report.tampered() && report.has(Fault::Expired), "{}", told(&report));
    assert!(place.lines().keys().next() > Some(&first.n));
}

#[tokio::test]
async fn a_check_beside_a_busy_writer_finds_nothing_wrong() {
    let place = Place::new("busy").rotating_at(4000).keeping(2);
    let audit = place.open().await;
    let writer = {
        let audit = audit.clone();
        tokio::spawn(async move {
            let mut written = 0_u64;
            while audit.health().is_ok() {
                let _receipt = audit.commit(act("busy")).await;
                audit.record(decision("busy")).await;
                written += 2;
            }
            written
        })
    };
    let mut lines = 0;
    for _ in 0..scale().of(60, 1000) {
        let report = place.verify().await;
        assert!(!report.tampered(), "{}", told(&report));
        lines = report.last.map_or(0, |head| head.n);
    }
    audit.close().await;
    let written = writer.await.unwrap();
    assert!(
        written > 100 && lines > 50 && audit.stats().rotations.load(Relaxed) > 3,
        "{written} written, {lines} seen"
    );
    assert!(!place.verify().await.tampered());
}

#[tokio::test]
async fn the_tail_spans_files_and_follows_rotations() {
    let place = Place::new("tail").rotating_at(1500);
    let audit = place.open().await;
    for i in 0..20 {
        let _receipt = audit.commit(act(&format!("x{i}"))).await.unwrap();
    }
    let number = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()["n"].as_u64().unwrap();
    let newest = *place.lines().keys().last().unwrap();
    for wanted in [0, 1, 5, 17, 1000] {
        let lines = Tail::last(&place.directory(), wanted).unwrap().read().unwrap();
        let from = newest.saturating_sub(wanted as u64) + 1;
        assert_eq!(lines.iter().map(number).collect::<Vec<_>>(), (from..=newest).collect::<Vec<_>>(), "{wanted}");
    }
    let mut tail = Tail::last(&place.directory(), 2).unwrap();
    let mut seen: Vec<u64> = tail.read().unwrap().iter().map(number).collect();
    for i in 0..30 {
        let receipt = audit.commit(act(&format!("y{i}"))).await.unwrap();
        // Sometimes several rotations lie between two looks.
        if i % 11 == 0 {
            while seen.last() < Some(&receipt.n) {
                let lines = tokio::time::timeout(Duration::from_mins(1), tail.follow()).await.unwrap().unwrap();
                seen.extend(lines.iter().map(number));
            }
        }
    }
    audit.close().await;
    seen.extend(tail.read().unwrap().iter().map(number));
    let last = *place.lines().keys().last().unwrap();
    assert_eq!(seen, (newest - 1..=last).collect::<Vec<_>>());
}

#[tokio::test]
async fn when_the_database_refuses_heads_changes_are_refused_until_it_takes_them() {
    let place = Place::new("head");
    let (audit, db) = (place.open().await, place.db().await);
    let sql = |text: &'static str| {
        let db = db.clone();
        async move { db.write(move |tx| tx.execute(text, &[])).await.unwrap() }
    };
    let promise = audit.intend(intent("before"), Intent::Written).await.unwrap();
    sql("ALTER TABLE audit_heads RENAME TO audit_heads_away").await;
    // It is on disk, but whoever waits for it must not rely on it.
    let last = *place.lines().keys().last().unwrap();
    let unknown = audit.commit(act("unknown to the database")).await.unwrap_err();
    assert!(unknown.to_string().contains("database"), "{unknown}");
    assert_eq!(place.lines()[&(last + 1)]["name"], "unknown to the database");
    assert!(audit.health().unwrap_err().contains("database"));
    for how in [Intent::Written, Intent::Durable] {
        let refused = audit.intend(intent("refused"), how).await.unwrap_err();
        assert!(refused.to_string().contains("database"), "{refused}");
    }
    let length = || fs::metadata(place.directory().join("audit.log")).unwrap().len();
    let before = length();
    for _ in 0..50 {
        assert!(audit.commit(act(&"refused".repeat(50))).await.is_err());
    }
    assert_eq!(length(), before, "refused changes leave no line");
    // What was promised is kept: the change was made, and its line is there.
    assert!(audit.commit(act("promised").after(&promise)).await.is_err());
    assert_eq!(place.lines()[&(last + 2)]["intent"], promise.n);
    sql("ALTER TABLE audit_heads_away RENAME TO audit_heads").await;
    eventually("the head is recorded by itself", || audit.health().is_ok()).await;
    let after = audit.commit(act("after")).await.unwrap();
    assert_eq!((after.n, audit.head().n), (last + 3, last + 3));
    // Somebody else with a copy of this log is ahead of us.
    sql("UPDATE audit_heads SET n = n + 1000").await;
    assert!(audit.commit(act("overtaken")).await.is_err());
    let refused = audit.commit(act("refused")).await.unwrap_err();
    assert!(refused.to_string().contains("another process"), "{refused}");
    audit.close().await;
    assert!(matches!(Audit::open(place.config(), db).await, Err(Error::Tampered { .. })));
}

#[tokio::test]
async fn the_key_appears_in_no_debug_print_error_or_line() {
    let place = Place::new("canary");
    let canary = "c0ffee".repeat(11)[..64].to_owned();
    fs::write(place.key_file(), &canary).unwrap();
    fs::set_permissions(place.key_file(), fs::Permissions::from_mode(0o600)).unwrap();
    let audit = place.open().await;
    let receipt = audit.commit(intent("x")).await.unwrap();
    let second = Audit::open(place.config(), place.db().await).await.unwrap_err();
    assert!(matches!(second, Error::InUse { .. }), "{second}");
    let mut text = format!("{audit:?} {receipt:?} {:?} {:?} {second:?} {second}", place.config(), place.key());
    drop(receipt);
    audit.close().await;
    text.extend(files(&place.directory()).into_iter().map(|(_, content)| content));
    text.push_str(&serde_json::to_string(&verify(&place.directory(), &place.key(), &[]).unwrap()).unwrap());
    assert!(text.contains("audit.key") && text.contains("\"kind\":\"intent\""));
    assert!(!text.to_lowercase().contains("c0ffee") && !text.contains("192, 255, 238"), "{text}");
    for (content, mode) in [(canary.as_str(), 0o604), (&canary[..60], 0o600)] {
        fs::write(place.key_file(), content).unwrap();
        fs::set_permissions(place.key_file(), fs::Permissions::from_mode(mode)).unwrap();
        let error: io::Error = Key::load(&place.key_file()).unwrap_err();
        assert!(!format!("{error:?} {error}").contains("c0ffee"), "{error}");
    }
}
