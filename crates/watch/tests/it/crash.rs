//! A process that dies at any step: every row that it made has its key, and nothing is missed after.
//!
//! The test runs itself as the child that dies: an armed step aborts the whole process.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use db::{Config, Db, Migrations, Tx, params};
use futures::StreamExt;
use kube::config::KubeConfigOptions;
use testbed::process::{crashed_at, scratch};
use testbed::{Cluster, Process, eventually, scale, seed};
use watch::failpoints::Step;
use watch::{Event, Follower, Keys, Scope};

use crate::consumer::{LIMIT, erased, quick};
use crate::mirror::Rows;
use crate::objects::{Maps, admin};

const CHILD: &str = "WATCH_CRASH_CHILD";
const NAMESPACE: &str = "WATCH_CRASH_NAMESPACE";
const KUBECONFIG: &str = "WATCH_CRASH_KUBECONFIG";
const ARMED: &str = "WATCH_CRASH_ARMED";

/// A durable index of a consumer.
const ROWS: Migrations = Migrations {
    set: "rows",
    steps: &[
        "CREATE TABLE consumer_rows (namespace TEXT, name TEXT, uid TEXT, version TEXT, PRIMARY KEY (namespace, name))",
    ],
};

/// What the child does; a plain test otherwise, which has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn child_that_follows_until_it_dies() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let db = open(Path::new(&path)).await;
    let keys = Keys::new(db.clone(), "test");
    let kubeconfig = kube::config::Kubeconfig::read_from(std::env::var(KUBECONFIG).unwrap()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let namespace = std::env::var(NAMESPACE).unwrap();
    let source = watch::Source::new("here", client, erased::<k8s_openapi::api::core::v1::ConfigMap>());
    let source = watch::Source { namespace: Some(namespace), ..source };
    let armed = std::env::var(ARMED).unwrap();
    failpoint::arm_from(&armed).unwrap();
    let mut follower = watch::follow(&keys, source, quick()).await.unwrap();
    let removes = armed.starts_with("watch.remov");
    while !(follow_once(&db, &mut follower).await && removes) {}
    remove(&keys).await;
}

async fn remove(keys: &Keys) {
    let also = |tx: &mut Tx<'_>| tx.execute("DELETE FROM consumer_rows", &[]).map(drop);
    keys.remove(&Scope::Cluster("here".to_owned()), also).await.unwrap();
}

async fn open(path: &Path) -> Db {
    let db = crate::consumer::prepared(Config::sqlite(path)).await;
    db.migrate(&[ROWS]).await.unwrap();
    db
}

/// Applies one event durably, then acknowledges; tells whether it was `Synced`.
async fn follow_once(db: &Db, follower: &mut Follower) -> bool {
    let delivery = follower.next().await.expect("the stream goes on");
    match delivery.event() {
        Event::Applied(object) => {
            let key = watch::Key::of(object);
            let (uid, version) = (watch::Uid::of(object), object.metadata.resource_version.clone());
            let upsert = "INSERT INTO consumer_rows (namespace, name, uid, version) VALUES ($1, $2, $3, $4) \
                ON CONFLICT (namespace, name) DO UPDATE SET uid = $3, version = $4";
            let bound = params![&*key.namespace, &*key.name, uid.as_str(), version].to_vec();
            db.write(move |tx| tx.execute(upsert, &bound)).await.unwrap();
        }
        Event::Deleted(deleted) => {
            let delete = "DELETE FROM consumer_rows WHERE namespace = $1 AND name = $2 AND uid = $3";
            let uid = deleted.uid.as_ref().unwrap();
            let bound = params![&*deleted.key.namespace, &*deleted.key.name, uid.as_str()].to_vec();
            db.write(move |tx| tx.execute(delete, &bound)).await.unwrap();
        }
        Event::Absent | Event::Synced => {}
    }
    let synced = matches!(delivery.event(), Event::Synced);
    delivery.acknowledge();
    synced
}

async fn rows(db: &Db) -> Rows {
    let rows = db.read(|tx| tx.query("SELECT namespace, name, uid, version FROM consumer_rows", &[])).await.unwrap();
    let row = |row: &db::Row| {
        let [namespace, name, uid, version]: [String; 4] = [0, 1, 2, 3].map(|column| row.get(column).unwrap());
        (watch::Key::new(&namespace, &name), (uid, version))
    };
    rows.iter().map(row).collect()
}

async fn count(db: &Db, sql: &'static str) -> i64 {
    db.read(move |tx| tx.query(sql, &[])).await.unwrap()[0].get(0).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_misses_nothing() {
    let mut random = fastrand::Rng::with_seed(seed("watch crash"));
    let mut died_at = BTreeSet::new();
    for step in Step::ALL {
        let seeds: Vec<u64> = (0..scale().of(1, 20)).map(|_| random.u64(..)).collect();
        let rounds = seeds.into_iter().map(|seed| dies_and_misses_nothing(*step, fastrand::Rng::with_seed(seed)));
        // Some at a time: most of a round is waiting for the child.
        let rounds: Vec<()> = futures::stream::iter(rounds).buffer_unordered(4).collect().await;
        died_at.extend(rounds.iter().map(|()| step.name()));
    }
    let all: BTreeSet<&str> = Step::ALL.iter().map(|step| step.name()).collect();
    assert_eq!(died_at, all, "every step is reached");
}

/// How many hits may pass first: of what happens often, every hit is another moment.
fn passes(step: Step, random: &mut fastrand::Rng) -> u32 {
    if is_of_a_removal(step) || step == Step::Compared { 0 } else { random.u32(..20) }
}

fn is_of_a_removal(step: Step) -> bool {
    matches!(step, Step::RemovalBegun | Step::RemovalBeforeCommit | Step::Removed)
}

async fn dies_and_misses_nothing(step: Step, mut random: fastrand::Rng) {
    let passes = passes(step, &mut random);
    let cluster = Cluster::shared().await;
    let maps = Maps::new(cluster, "crash").await;
    maps.create_many(20).await;
    let directory = scratch("crash").unwrap();
    let path = directory.join("watch.db");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", "crash::child_that_follows_until_it_dies"])
        .env(CHILD, &path)
        .env(NAMESPACE, &maps.namespace)
        .env(KUBECONFIG, cluster.admin_kubeconfig())
        .env(ARMED, format!("{}=crash:{passes}", step.name()));
    let mut child = Process::spawn("a follower", &mut command, &directory.join("log")).unwrap();
    let began = std::time::Instant::now();
    while child.ended().is_none() && began.elapsed() < LIMIT {
        maps.steps(&mut random, 30, 4).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = child.wait(Duration::from_secs(1)).unwrap_or_else(|error| panic!("{step:?} {passes}: {error:#}"));
    assert!(crashed_at(status, &child.log(), step.name()), "{step:?} {passes}: {}", child.log_tail());

    let db = open(&path).await;
    let without_key = "SELECT COUNT(*) FROM consumer_rows WHERE uid NOT IN (SELECT uid FROM watch_keys)";
    assert_eq!(count(&db, without_key).await, 0, "{step:?} {passes}: every row has its key");
    let keys = Keys::new(db.clone(), "test");
    if is_of_a_removal(step) {
        // All of it or nothing of it, in both tables.
        let (keys_left, rows_left) = (count(&db, "SELECT COUNT(*) FROM watch_keys").await, rows(&db).await.len());
        assert_eq!(keys_left > 0, step != Step::Removed, "{step:?}");
        assert_eq!(rows_left > 0, step != Step::Removed, "{step:?}");
        remove(&keys).await;
        assert_eq!((count(&db, "SELECT COUNT(*) FROM watch_keys").await, rows(&db).await.len()), (0, 0));
    }
    // Gone while nobody followed.
    maps.steps(&mut random, 30, 20).await;
    let mut follower = watch::follow(&keys, maps.source(admin(cluster)), quick()).await.unwrap();
    tokio::time::timeout(LIMIT, async { while !follow_once(&db, &mut follower).await {} }).await.expect("a sync");
    let truth = maps.truth("").await;
    assert_eq!(rows(&db).await, truth, "{step:?} {passes}: equal at the first sync");
    let keys_left =
        || async { count(&db, "SELECT COUNT(*) FROM watch_keys").await == i64::try_from(truth.len()).unwrap() };
    eventually(LIMIT, keys_left).await;
}
