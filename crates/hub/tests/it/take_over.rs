//! Two processes on one database: what one of them is too slow for, the other one takes over, and the late commit fails.
//!
//! The slow one is this test executable again, because an armed step is armed for all of a process.

use std::process::Command;
use std::time::Duration;

use hub::model::BUILT_IN;
use hub::{Change, Deletion, Error, Filter, Reason, Settings, Times};
use testbed::Process;
use testbed::process::scratch;

use crate::outside::grpc::{self, Grpc};
use crate::outside::{batch, hasty, kept_in, storage};
use crate::place::{Place, create, json, new, on_both, value};

on_both!(a_late_commit_fails);

const PLACE: &str = "HUB_SLOW_PLACE";
const RECORDS: &str = "HUB_SLOW_RECORDS";
/// The file that lets it go on.
const GATE: &str = "HUB_SLOW_GATE";
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls have time enough; the rest has not.
fn short_lease() -> Settings {
    let times = Times { call: Duration::from_secs(2), margin: Duration::from_millis(200), ..hasty().times };
    Settings { times, ..hasty() }
}

/// What the slow one does; a plain test otherwise, which has nothing to do.
/// A held step takes the thread and whatever waits for it: each has a runtime and a hub of its own.
#[test]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn child_that_is_too_slow() {
    let Ok(description) = std::env::var(PLACE) else { return };
    let gate = std::env::var(GATE).unwrap();
    let steps = [
        "create.before_commit",
        "update.before_commit",
        "delete.before_commit",
        "lock.before_commit",
        "move.before_switch",
    ];
    failpoint::arm_from(&steps.map(|step| format!("hub.{step}=hold({gate})")).join(",")).unwrap();
    let ids: Vec<String> = std::env::var(RECORDS).unwrap().split(',').map(str::to_owned).collect();
    let all = [Late::Create, Late::Update, Late::Delete, Late::Lock, Late::Move].map(|what| {
        let (description, ids) = (description.clone(), ids.clone());
        std::thread::spawn(move || {
            let done = tokio::runtime::Runtime::new().unwrap().block_on(too_slow(&description, what, &ids));
            (what, done)
        })
    });
    for one in all {
        let (what, done) = one.join().unwrap();
        match (what, done) {
            // Whoever took it over has done what was asked for.
            (Late::Delete, done) => done.unwrap(),
            (_, Err(Error::Refused { reason: Reason::Retry, .. })) => {}
            (_, done) => panic!("{what:?}: {done:?}"),
        }
    }
    println!("was too late");
}

#[derive(Clone, Copy, Debug)]
enum Late {
    Create,
    Update,
    Delete,
    Lock,
    Move,
}

/// `ids` are of the records to be updated, deleted, locked and moved.
async fn too_slow(description: &str, what: Late, ids: &[String]) -> Result<(), Error> {
    let hub = Place::described(description).hub_on(short_lease(), std::sync::Arc::new(Grpc)).await;
    let change = Change { id: ids[0].clone(), value: Some(json("\"late\"")), ..Change::default() };
    match what {
        Late::Create => hub.create(batch(vec![kept_in("shelf", "\"late\""), new("1")])).await.map(drop),
        Late::Update => hub.update(vec![change]).await.map(drop),
        Late::Delete => hub.delete(Deletion { ids: vec![ids[1].clone()], ..Deletion::default() }).await.map(drop),
        Late::Lock => hub.lock(vec![ids[2].clone()], "late".to_owned(), None).await,
        Late::Move => hub.move_records(vec![ids[3].clone()], "shelf", None).await.map(drop),
    }
}

async fn a_late_commit_fails(place: Place) {
    let hub = place.hub_on(short_lease(), std::sync::Arc::new(Grpc)).await;
    let directory = place.directory.join("shelf");
    let address = grpc::serve(&directory).await;
    create(&hub, hub::NewRecord { name: Some("shelf".to_owned()), ..storage(&address.to_string(), "null") }).await;
    let mut ids = Vec::new();
    for record in [kept_in("shelf", "1"), kept_in("shelf", "1"), kept_in("shelf", "1"), new("1")] {
        ids.push(create(&hub, record).await);
    }
    let id = ids[0].clone();
    let before = hub.count(Filter::default()).await.unwrap();

    let mut command = Command::new(std::env::current_exe().unwrap());
    let log = scratch("slow").unwrap();
    let gate = log.join("go-on");
    command
        .args(["--exact", "--nocapture", "take_over::child_that_is_too_slow"])
        .env(PLACE, place.description())
        .env(GATE, &gate)
        .env(RECORDS, ids.join(","));
    let mut slow = Process::spawn("a slow hub", &mut command, &log.join("log")).unwrap();

    // All are begun and done at the backend, and then taken over while the slow one is alive: what it would commit is held.
    let files = || grpc::ids(&directory);
    testbed::eventually(PATIENCE, || {
        // Created and moved; deleted.
        let at_backend = files().len() == 4 && !files().contains(&ids[1]);
        let hub = hub.clone();
        async move { at_backend && hub.journal().await.unwrap().len() == 5 }
    })
    .await;
    let busy = hub.update(vec![Change { id: id.clone(), ..Change::default() }]).await.unwrap_err();
    assert!(matches!(busy, Error::Refused { reason: Reason::Retry, .. }), "{busy}");
    assert_eq!(value(&hub, &id, 1).await, "1", "what is committed can be read");
    testbed::eventually(PATIENCE, || {
        let hub = hub.clone();
        async move {
            hub.tend().await.unwrap();
            hub.journal().await.unwrap().is_empty()
        }
    })
    .await;
    assert!(slow.ended().is_none(), "it is alive, and slow: {}", slow.log());
    let mut kept = vec![ids[0].clone(), ids[2].clone()];
    kept.sort_unstable();
    assert_eq!(files(), kept, "what it began is undone, and what was to be deleted is gone");
    assert!(hub.find(&ids[1]).await.unwrap().is_none());
    // The records are free for others before the slow one goes on.
    hub.update(vec![Change { id: id.clone(), value: Some(json("2")), ..Change::default() }]).await.unwrap();
    hub.lock(vec![ids[2].clone()], "somebody".to_owned(), None).await.unwrap();
    std::fs::write(&gate, "").unwrap();
    let waiting = tokio::task::spawn_blocking(move || (slow.wait(Duration::from_mins(2)).unwrap(), slow.log()));
    let (status, log) = waiting.await.unwrap();
    assert!(status.success() && log.contains("was too late"), "{log}");
    assert_eq!((files(), hub.count(Filter::default()).await.unwrap()), (kept, before - 1));
    assert_eq!((hub.find(&id).await.unwrap().unwrap().latest, value(&hub, &id, 2).await), (2, "2".to_owned()));
    let locked = hub.find(&ids[2]).await.unwrap().unwrap();
    assert_eq!(locked.lock.unwrap().owner, "somebody");
    let moved = hub.find(&ids[3]).await.unwrap().unwrap();
    assert_eq!((moved.backend.as_str(), value(&hub, &ids[3], 1).await), (BUILT_IN, "1".to_owned()));
    assert!(hub.journal().await.unwrap().is_empty());
}
