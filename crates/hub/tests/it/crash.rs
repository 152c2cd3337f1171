//! A process that dies at any step of a change leaves hub and backends in agreement, once others have cleaned up: no value
//! without a record, no acknowledged change lost.
//!
//! The test runs itself as the child that dies: an armed step aborts the whole process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use backends::{Driver, Target};
use futures::stream::{StreamExt as _, iter};
use hub::failpoints::Step;
use hub::{Batch, Change, Connect, Deletion, Endpoint, Hub, Json, NewRecord, VersionId};
use testbed::Process;
use testbed::process::{crashed_at, scratch};

use crate::outside::grpc::{self, Grpc};
use crate::outside::original::Original;
use crate::outside::{Shelf, batch, choice, patient, storage};
use crate::place::{Place, create, json, new};

const PLACE: &str = "HUB_CRASH_PLACE";
const KIND: &str = "HUB_CRASH_KIND";
const ARMED: &str = "HUB_CRASH_AT";
const ROLE: &str = "HUB_CRASH_ROLE";

/// The backends, and the names of their records.
const BACKENDS: [&str; 2] = ["one", "two"];
/// Children at a time.
const AT_ONCE: usize = 4;

/// What keeps the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The driver `file` behind gRPC, in the parent.
    File,
    /// One that knows no more than the original's.
    Original,
}

impl Kind {
    fn connect(self, directory: &Path) -> Arc<dyn Connect> {
        if self == Kind::File {
            return Arc::new(Grpc);
        }
        let shelf = Shelf::default();
        for name in BACKENDS {
            shelf.put(&format!("{name}:50051"), Arc::new(Original::at(&directory.join(name))));
        }
        Arc::new(shelf)
    }
}

async fn hub(place: &Place, kind: Kind) -> Hub {
    place.hub_on(patient(), kind.connect(&place.directory)).await
}

/// What the child does; a plain test otherwise, which has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn child_that_works_until_it_dies() {
    let Ok(description) = std::env::var(PLACE) else { return };
    failpoint::arm_from(&std::env::var(ARMED).unwrap()).unwrap();
    let place = Place::described(&description);
    let kind = if std::env::var(KIND).unwrap() == "file" { Kind::File } else { Kind::Original };
    let hub = hub(&place, kind).await;
    if std::env::var(ROLE).is_ok_and(|role| role == "cleaner") {
        hub.tend().await.unwrap();
        return;
    }
    work(&hub).await;
}

/// To stdout at once: what was acknowledged counts even if the next moment is the last.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn acknowledge(what: &str) {
    println!("acknowledged {what}");
}

fn text(name: &str, version: u32) -> Json {
    json(&format!("\"{name} in version {version}\""))
}

fn named(name: &str, backend: &str) -> NewRecord {
    let backend = Some(choice(backend, None));
    NewRecord { name: Some(name.to_owned()), value: Some(text(name, 1)), backend, ..new("1") }
}

/// Everything that is done with records, once.
async fn work(hub: &Hub) {
    let records = vec![named("a", "one"), named("b", "two"), named("c", "builtin")];
    let ids: Vec<String> = hub.create(batch(records)).await.unwrap().into_iter().map(|created| created.id).collect();
    acknowledge("created");
    let change =
        |index: usize, name: &str| Change { id: ids[index].clone(), value: Some(text(name, 2)), ..Change::default() };
    hub.update(vec![change(0, "a"), change(2, "c")]).await.unwrap();
    acknowledge("updated");
    hub.lock(vec![ids[0].clone(), ids[1].clone()], "me".to_owned(), None).await.unwrap();
    acknowledge("locked");
    hub.unlock(vec![ids[0].clone(), ids[1].clone()], "me".to_owned()).await.unwrap();
    acknowledge("unlocked");
    // One of them is refused, so that the other has to be undone.
    let refused = Some(choice("two", Some(json(r#"{"provider":"nothing"}"#))));
    let records = vec![named("d", "one"), NewRecord { backend: refused, ..named("e", "two") }];
    hub.create(Batch { records, ..Batch::default() }).await.unwrap_err();
    hub.move_records(vec![ids[0].clone(), ids[2].clone()], "two", None).await.unwrap();
    acknowledge("moved");
    hub.delete(Deletion { ids: vec![ids[1].clone()], ..Deletion::default() }).await.unwrap();
    acknowledge("deleted");
    // Also what nobody waits for is done, or dies on the way.
    hub.rest(Duration::from_mins(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_is_cleaned_up_with_files_and_sqlite() {
    crash_everywhere(Kind::File, Place::sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_is_cleaned_up_with_files_and_postgresql() {
    crash_everywhere(Kind::File, Place::postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_is_cleaned_up_with_the_original_and_sqlite() {
    crash_everywhere(Kind::Original, Place::sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_is_cleaned_up_with_the_original_and_postgresql() {
    crash_everywhere(Kind::Original, Place::postgres).await;
}

async fn crash_everywhere(kind: Kind, place: fn() -> Place) {
    let crashes = Step::ALL.iter().map(|step| async move {
        let place = place();
        let urls = prepare(&place, kind).await;
        let log = die(&place, kind, *step, "worker").await;
        // Whoever cleans up may die, too.
        if matches!(step, Step::CreateBeforeCommit | Step::UpdateBeforeCommit | Step::DeleteCalled) {
            end_leases(&place).await;
            die(&place, kind, Step::SettleCalled, "cleaner").await;
        }
        agrees(&place, kind, &urls, &log, *step).await;
        step.name()
    });
    let crashes: Vec<_> = crashes.collect();
    let died_at: BTreeSet<&str> = iter(crashes).buffer_unordered(AT_ONCE).collect().await;
    assert_eq!(died_at.len(), Step::ALL.len(), "every step is reached");
}

/// Registers the backends; tells their urls.
async fn prepare(place: &Place, kind: Kind) -> BTreeMap<&'static str, String> {
    let hub = hub(place, kind).await;
    let mut urls = BTreeMap::new();
    for name in BACKENDS {
        let url = match kind {
            Kind::Original => format!("{name}:50051"),
            Kind::File => grpc::serve(&place.directory.join(name)).await.to_string(),
        };
        let record = storage(&url, r#"{"type":"object"}"#);
        create(&hub, NewRecord { name: Some(name.to_owned()), ..record }).await;
        urls.insert(name, url);
    }
    urls
}

/// Runs the child until it dies at this step; tells what it wrote.
async fn die(place: &Place, kind: Kind, step: Step, role: &str) -> String {
    let log = scratch("child").unwrap().join("log");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", "crash::child_that_works_until_it_dies"])
        .env(PLACE, place.description())
        .env(KIND, if kind == Kind::File { "file" } else { "original" })
        .env(ROLE, role)
        .env(ARMED, format!("{}=crash", step.name()));
    let mut child = Process::spawn("a hub", &mut command, &log).unwrap();
    let ended = tokio::task::spawn_blocking(move || {
        let status = child.wait(Duration::from_mins(3)).unwrap();
        (status, child.log())
    });
    let (status, log) = ended.await.unwrap();
    assert!(crashed_at(status, &log, step.name()), "{step:?} {kind:?}: {log}");
    log
}

/// Nothing of a dead process is on its way: nobody needs to wait for its leases.
async fn end_leases(place: &Place) {
    let db = place.db().await;
    let sql = "UPDATE hub_journal SET lease_until = 0, deadline = 0";
    db.write(move |tx| tx.execute(sql, &[])).await.map_err(|error: db::Error| error).unwrap();
}

async fn agrees(place: &Place, kind: Kind, urls: &BTreeMap<&'static str, String>, log: &str, step: Step) {
    let hub = hub(place, kind).await;
    // Twice, because it must not matter.
    for _ in 0..2 {
        end_leases(place).await;
        hub.tend().await.unwrap();
        assert!(hub.journal().await.unwrap().is_empty(), "{step:?} {kind:?}");
    }
    let db = place.db().await;
    assert!(db.look_up("SELECT 1 FROM hub_reservations LIMIT 1", &[]).await.unwrap().is_none(), "{step:?}");
    let told = |what: &str| log.contains(&format!("acknowledged {what}\n"));
    let mut records = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        let found = hub.find(name).await.unwrap();
        let (expected, latest) = match name {
            "a" | "c" => (told("created"), if told("updated") { 2 } else { 1 }),
            "b" => (told("created") && !told("deleted"), 1),
            _ => (false, 0),
        };
        // What was begun last may have taken place or not.
        let unclear = name == "b" && told("moved") || ["a", "b", "c"].contains(&name) && !told("created");
        assert!(found.is_some() == expected || unclear, "{step:?} {kind:?}: {name} {found:?}");
        let Some(record) = found else { continue };
        assert!(record.latest >= latest, "{step:?} {kind:?}: {name}");
        records.push((name, record));
    }
    // All of a batch or none.
    assert!([0, 2, 3].contains(&records.len()), "{step:?} {kind:?}: {records:?}");
    let mut outside: BTreeMap<&str, BTreeSet<String>> = BACKENDS.iter().map(|name| (*name, BTreeSet::new())).collect();
    for (name, record) in &records {
        for version in 1..=record.latest {
            let id = VersionId { record: record.id.clone(), number: version };
            let value = hub.values(std::slice::from_ref(&id)).await.unwrap().remove(&id);
            let value = value.unwrap_or_else(|| panic!("{step:?} {kind:?}: {name} {version}")).unwrap();
            assert_eq!(value, text(name, version), "{step:?} {kind:?}");
        }
        let backend = hub.find(&record.backend).await.unwrap().unwrap().name.unwrap();
        let Some(ids) = outside.get_mut(backend.as_str()) else { continue };
        ids.insert(record.id.clone());
        let driver = driver(kind, &place.directory, &backend, &urls[backend.as_str()]);
        let target = Target { id: &record.id, context: None, key: "", within: Duration::from_secs(10) };
        let holder = driver.get_locked_by(target).await.unwrap();
        assert_eq!(holder, record.lock.as_ref().map(|lock| lock.owner.clone()), "{step:?} {kind:?}: {name}");
        assert!(driver.get_value(target, record.latest + 1).await.is_err(), "{step:?} {kind:?}: {name} has too much");
    }
    for (name, ids) in outside {
        let kept: BTreeSet<String> = kept(kind, &place.directory.join(name)).into_iter().collect();
        assert_eq!(kept, ids, "{step:?} {kind:?}: the backend {name}");
    }
    goes_on(&hub, &records, step).await;
}

/// Everything can be changed and deleted again.
async fn goes_on(hub: &Hub, records: &[(&str, hub::model::Record)], step: Step) {
    for (name, record) in records {
        let ids = vec![record.id.clone()];
        let owner = record.lock.as_ref().map(|lock| lock.owner.clone());
        let change = Change { id: record.id.clone(), owner: owner.clone(), ..Change::default() };
        hub.update(vec![change]).await.unwrap_or_else(|error| panic!("{step:?}: {name}: {error}"));
        hub.delete(Deletion { ids, owner, ..Deletion::default() }).await.unwrap();
    }
    create(hub, named("a", "one")).await;
}

fn driver(kind: Kind, directory: &Path, name: &str, url: &str) -> Arc<dyn Driver> {
    match kind {
        Kind::Original => Arc::new(Original::at(&directory.join(name))),
        Kind::File => {
            let (backend, encoding) = (name.to_owned(), hub::Encoding::Json);
            let endpoint = Endpoint { backend, url: url.to_owned(), mode: backends::Mode::Value, encoding };
            Grpc.connect(&endpoint).unwrap()
        }
    }
}

fn kept(kind: Kind, directory: &Path) -> Vec<String> {
    match kind {
        Kind::Original => Original::at(directory).ids(),
        Kind::File => grpc::ids(directory),
    }
}
