//! A process that dies at any step between an event, the index and the copy: after a restart the rows are those of the cluster.
//!
//! The child follows a cluster as `watch` would: the key of an object is in a journal before the object is taken in, an event
//! is acknowledged after its ticket, and a key leaves the journal only when its deletion is acknowledged. What a service with
//! a real cluster does is in `service/crash`, which covers every step.

use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use explorer::durable::Store;
use explorer::failpoints::Step;
use explorer::index::Settings;
use explorer::query::Query;
use explorer::{Key, Row};
use fastrand::Rng;

use crate::model::{Sight, Sights, visibility};

const EVENTS: u64 = 400;

/// What happens in the cluster, the same for parent and child.
fn events(seed: u64) -> Vec<(u64, Key, Option<Row>)> {
    let mut random = Rng::with_seed(seed);
    (0..EVENTS)
        .map(|number| {
            let name = format!("row-{}", random.u32(0..40));
            let own = str::to_owned;
            let key =
                Key { cluster: own("local"), namespace: own("apps"), group: own(""), kind: own("ConfigMap"), name };
            let mut made = crate::random::row(&mut random, key.clone());
            made.uid = format!("event-{number}");
            (number, key, (random.u32(0..3) > 0).then_some(made))
        })
        .collect()
}

#[test]
fn child() {
    let Ok(path) = std::env::var("EXPLORER_CHILD_PATH") else { return };
    let seed: u64 = std::env::var("EXPLORER_CHILD_SEED").unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(follow(Path::new(&path), seed, &std::env::var("EXPLORER_CHILD_ARM").unwrap()));
}

/// One line for each step of the journal: `known NAME`, `acked NUMBER NAME`, `gone NAME`.
async fn follow(directory: &Path, seed: u64, arm: &str) {
    let store = Store::open(&directory.join("explorer.db"), Settings::default()).await.unwrap();
    let mut journal = std::fs::OpenOptions::new().append(true).create(true).open(directory.join("journal")).unwrap();
    let mut note = move |line: String| journal.write_all(line.as_bytes()).unwrap();
    failpoint::arm_from(arm).unwrap();
    for chunk in events(seed).chunks(7) {
        let mut tickets = Vec::new();
        for (number, key, row) in chunk {
            match row {
                Some(row) => {
                    note(format!("known {}\n", key.name));
                    tickets.push((*number, key, true, store.upsert(store.preparer().prepare(row.clone()))));
                }
                None => tickets.push((*number, key, false, store.delete(key, None, 0))),
            }
        }
        for (number, key, applied, ticket) in tickets {
            ticket.wait().await.unwrap();
            // The key of an object that was made again in the meantime stays.
            let made_again = chunk.iter().any(|(later, other, row)| *later > number && other == key && row.is_some());
            match applied {
                true => note(format!("acked {number} {}\n", key.name)),
                false if made_again => {}
                false => note(format!("gone {}\n", key.name)),
            }
        }
    }
    store.close().await;
}

/// What the journal says: of each known key the latest event that was acknowledged.
fn journal(directory: &Path) -> BTreeMap<String, Option<u64>> {
    let mut known = BTreeMap::new();
    let text = std::fs::read_to_string(directory.join("journal")).unwrap_or_default();
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["known", name] => drop(known.entry(name.to_owned()).or_insert(None)),
            ["acked", number, name] => drop(known.insert(name.to_owned(), Some(number.parse().unwrap()))),
            ["gone", name] => drop(known.remove(name)),
            _ => panic!("{line}"),
        }
    }
    known
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_leaves_rows_that_the_watchers_keys_repair() {
    let mut random = Rng::with_seed(testbed::seed("a_crash_at_any_step"));
    for step in [Step::IndexedBeforeCopy, Step::CopyBeforeWrite, Step::CopyInBatch, Step::CopyAfterCommit] {
        for _ in 0..testbed::scale().of(2, 20) {
            let passes = match step {
                // Once per event, once per batch.
                Step::IndexedBeforeCopy => random.u64(0..EVENTS),
                _ => random.u64(0..20),
            };
            let (directory, seed) = (tempfile::tempdir().unwrap(), random.u64(..));
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
                .env("EXPLORER_CHILD_PATH", directory.path())
                .env("EXPLORER_CHILD_SEED", seed.to_string())
                .env("EXPLORER_CHILD_ARM", format!("{}=crash:{passes}", step.name()))
                .output()
                .unwrap();
            let log = String::from_utf8_lossy(&output.stderr);
            assert!(testbed::process::crashed_at(output.status, &log, step.name()), "{step:?}: {log}");
            repair(directory.path(), seed).await;
        }
    }
}

/// What a restarted follower does, after which the rows are those of the cluster, which has gone on in the meantime.
async fn repair(directory: &Path, seed: u64) {
    let events = events(seed);
    let mut truth: BTreeMap<String, (u64, &Row)> = BTreeMap::new();
    for (number, key, row) in &events {
        match row {
            Some(row) => drop(truth.insert(key.name.clone(), (*number, row))),
            None => drop(truth.remove(&key.name)),
        }
    }
    let store = Store::open(&directory.join("explorer.db"), Settings::default()).await.unwrap();
    store.read().audit().unwrap();
    let known = journal(directory);
    let shown = |store: &Store| {
        let sights = Sights::from([("local".to_owned(), Sight::Everything)]);
        let page = store.read().query(&Query::default(), &visibility(&sights));
        page.rows.into_iter().map(|found| (found.row.key.name.clone(), found.row.uid)).collect::<BTreeMap<_, _>>()
    };
    // Every row has a key in the journal: what was acknowledged as gone is gone.
    for name in shown(&store).keys() {
        assert!(known.contains_key(name), "{name} is a ghost that no key leads to");
    }
    // What was acknowledged is there, in that state or a later one that was not.
    for (name, acked) in known.iter().filter_map(|(name, acked)| acked.map(|acked| (name, acked))) {
        let later_end = events.iter().any(|(number, key, row)| *number > acked && key.name == *name && row.is_none());
        match shown(&store).get(name) {
            Some(uid) => {
                let number: u64 = uid.strip_prefix("event-").unwrap().parse().unwrap();
                assert!(number >= acked, "{name} is older than what was acknowledged");
            }
            None => assert!(later_end, "{name} was acknowledged and is lost"),
        }
    }
    // The follower lists the cluster: keys that are not there are deletions, objects that it has not seen so are changes.
    for name in known.keys().filter(|name| !truth.contains_key(*name)) {
        let key = events.iter().find(|(_, key, _)| key.name == *name).unwrap().1.clone();
        store.delete(&key, None, 0).wait().await.unwrap();
    }
    for (name, (number, row)) in &truth {
        if known.get(name).copied().flatten() != Some(*number) {
            store.upsert(store.preparer().prepare((*row).clone())).wait().await.unwrap();
        }
    }
    let keys: HashSet<(String, String)> = truth.keys().map(|name| ("apps".to_owned(), name.clone())).collect();
    let (ticket, missing) = store.reconcile("local", "", "ConfigMap", &keys, 0);
    ticket.wait().await.unwrap();
    assert!(missing.is_empty(), "acknowledged, and lost: {missing:?}");
    let expected: BTreeMap<String, String> =
        truth.iter().map(|(name, (_, row))| (name.clone(), row.uid.clone())).collect();
    assert_eq!(shown(&store), expected);
    store.read().audit().unwrap();
    store.close().await;
    let again = Store::open(&directory.join("explorer.db"), Settings::default()).await.unwrap();
    assert_eq!(shown(&again), expected);
    again.close().await;
}
