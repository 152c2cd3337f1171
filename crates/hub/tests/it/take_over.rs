//! Two processes on one database: what one of them is too slow for, the other one takes over, and the late commit fails.
//!
//! The slow one is this test executable again, because an armed step is armed for all of a process.

use std::process::Command;
use std::time::Duration;

use hub::{Change, Error, Filter, Reason, Settings, Times};
use testbed::Process;
use testbed::process::scratch;

use crate::outside::grpc::{self, Grpc};
use crate::outside::{batch, hasty, kept_in, storage};
use crate::place::{Place, create, json, new, on_both, value};

on_both!(a_late_commit_fails);

const PLACE: &str = "HUB_SLOW_PLACE";
const RECORD: &str = "HUB_SLOW_RECORD";

/// Calls have time enough; the rest has not.
fn short_lease() -> Settings {
    let times = Times { call: Duration::from_secs(2), margin: Duration::from_millis(200), ..hasty().times };
    Settings { times, ..hasty() }
}

/// What the slow one does; a plain test otherwise, which has nothing to do.
/// A delay takes the thread and whatever waits for it: each has a runtime and a hub of its own.
#[test]
fn child_that_is_too_slow() {
    let Ok(description) = std::env::var(PLACE) else { return };
    // Longer than its lease.
    failpoint::arm_from("hub.create.before_commit=delay(9000),hub.update.before_commit=delay(9000)").unwrap();
    let both = [Late::Create, Late::Update].map(|what| {
        let description = description.clone();
        std::thread::spawn(move || tokio::runtime::Runtime::new().unwrap().block_on(too_slow(&description, what)))
    });
    for one in both {
        let error = one.join().unwrap();
        assert!(matches!(error, Error::Refused { reason: Reason::Retry, .. }), "{error}");
    }
    println!("was too late");
}

#[derive(Clone, Copy)]
enum Late {
    Create,
    Update,
}

async fn too_slow(description: &str, what: Late) -> Error {
    let hub = Place::described(description).hub_on(short_lease(), std::sync::Arc::new(Grpc)).await;
    let change = Change { id: std::env::var(RECORD).unwrap(), value: Some(json("\"late\"")), ..Change::default() };
    match what {
        Late::Create => hub.create(batch(vec![kept_in("shelf", "\"late\""), new("1")])).await.unwrap_err(),
        Late::Update => hub.update(vec![change]).await.unwrap_err(),
    }
}

async fn a_late_commit_fails(place: Place) {
    let hub = place.hub_on(short_lease(), std::sync::Arc::new(Grpc)).await;
    let directory = place.directory.join("shelf");
    let address = grpc::serve(&directory).await;
    create(&hub, hub::NewRecord { name: Some("shelf".to_owned()), ..storage(&address.to_string(), "null") }).await;
    let id = create(&hub, kept_in("shelf", "1")).await;
    let before = hub.count(Filter::default()).await.unwrap();

    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", "take_over::child_that_is_too_slow"])
        .env(PLACE, place.description())
        .env(RECORD, &id);
    let mut slow = Process::spawn("a slow hub", &mut command, &scratch("slow").unwrap().join("log")).unwrap();

    // Both are begun and done at the backend, and then taken over while the slow one is alive.
    let files = || grpc::ids(&directory).len();
    testbed::eventually(Duration::from_secs(60), || {
        let (open, hub) = (files() == 2, hub.clone());
        async move { open && hub.journal().await.unwrap().len() == 2 }
    })
    .await;
    let busy = hub.update(vec![Change { id: id.clone(), ..Change::default() }]).await.unwrap_err();
    assert!(matches!(busy, Error::Refused { reason: Reason::Retry, .. }), "{busy}");
    assert_eq!(value(&hub, &id, 1).await, "1", "what is committed can be read");
    testbed::eventually(Duration::from_secs(60), || {
        let hub = hub.clone();
        async move {
            hub.tend().await.unwrap();
            hub.journal().await.unwrap().is_empty()
        }
    })
    .await;
    assert!(slow.ended().is_none(), "it is alive, and slow: {}", slow.log());
    assert_eq!(files(), 1, "what it began is undone");
    // The record is free for others before the slow one wakes up.
    hub.update(vec![Change { id: id.clone(), value: Some(json("2")), ..Change::default() }]).await.unwrap();
    let waiting = tokio::task::spawn_blocking(move || (slow.wait(Duration::from_mins(2)).unwrap(), slow.log()));
    let (status, log) = waiting.await.unwrap();
    assert!(status.success() && log.contains("was too late"), "{log}");
    assert_eq!((files(), hub.count(Filter::default()).await.unwrap()), (1, before));
    assert_eq!((hub.find(&id).await.unwrap().unwrap().latest, value(&hub, &id, 2).await), (2, "2".to_owned()));
    assert!(hub.journal().await.unwrap().is_empty());
}
