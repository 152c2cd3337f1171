//! A process that dies at any step between an event, its key, its row, the copy and the acknowledgement, or in the middle of a
//! removal: the next one has what the clusters have, at its first sync.
//!
//! The test runs itself as the child that dies: an armed step aborts the whole process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use explorer::failpoints::Step;
use explorer::service::{Authorizer, Local, NewCluster, Rules};
use explorer::{Explorer, Index};
use futures::{StreamExt as _, stream};
use kube::config::KubeConfigOptions;
use testbed::process::crashed_at;
use testbed::{Cluster, Process, eventually, scale, seed};

use super::maps::Maps;
use super::world::{HOME, LIMIT, Place, local, reader, second, synced};

const CHILD: &str = "EXPLORER_SERVICE_CHILD";
const ARMED: &str = "EXPLORER_SERVICE_ARMED";
/// What the child says when it has everything, if no step is armed.
const COLLECTED: &str = "everything is collected";

/// What the child does; a plain test otherwise, which has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn child_that_collects_until_it_dies() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let place = Place { directory: directory.into() };
    let armed = std::env::var(ARMED).unwrap();
    let mut options = place.options(&["v1/ConfigMap"]).await;
    let kubeconfig = kube::config::Kubeconfig::read_from(place.directory.join("home")).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    options.local = Some(Local {
        name: HOME.to_owned(),
        client: kube::Client::try_from(config.clone()).unwrap(),
        address: config,
        authorizer: Authorizer::Rbac,
        tokens: BTreeMap::new(),
    });
    failpoint::arm_from(&armed).unwrap();
    let explorer = Explorer::open(options).await.unwrap();
    synced(&explorer, HOME, 1).await;
    if armed.is_empty() {
        println!("{COLLECTED}");
        return std::future::pending().await;
    }
    let kubeconfig = std::fs::read_to_string(place.directory.join("leaf")).unwrap();
    loop {
        let leaf = NewCluster { name: "leaf".to_owned(), kubeconfig: kubeconfig.clone(), rules: Rules::default() };
        explorer.add_cluster(leaf).await.unwrap();
        synced(&explorer, "leaf", 1).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        explorer.remove_cluster("leaf").await.unwrap();
    }
}

/// Every step, with how many hits may pass first: of what happens often, every hit is another moment.
fn steps() -> Vec<(&'static str, u32)> {
    let own = Step::ALL.iter().map(|step| {
        let passes = match step {
            Step::IndexedBeforeCopy => 200,
            // The names of two clusters are taken, then one is removed.
            Step::KeysPurged | Step::RowsPurged => 3,
            _ => 10,
        };
        (step.name(), passes)
    });
    let of_streams = watch::failpoints::Step::ALL.iter().map(|step| {
        use watch::failpoints::Step;
        let passes = match step {
            Step::Received | Step::KeysWritten => 20,
            Step::HandedOut => 300,
            Step::Compared | Step::RemovalBegun | Step::RemovalBeforeCommit | Step::Removed => 6,
            Step::Acknowledged | Step::KeysRemoved => 3,
        };
        (step.name(), passes)
    });
    own.chain(of_streams).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_misses_nothing_and_shows_nothing_that_is_gone() {
    let mut random = fastrand::Rng::with_seed(seed("explorer service crash"));
    let mut died_at = BTreeSet::new();
    for (step, most) in steps() {
        let rounds: Vec<_> = (0..scale().of(1, 20)).map(|_| (random.u32(..most), random.fork())).collect();
        let rounds = rounds.into_iter().map(|(passes, random)| dies_and_misses_nothing(step, passes, random));
        // Some at a time: much of a round is waiting for the child.
        let rounds: Vec<()> = stream::iter(rounds).buffer_unordered(3).collect().await;
        assert!(!rounds.is_empty());
        died_at.insert(step);
    }
    let all = Step::ALL.len() + watch::failpoints::Step::ALL.len();
    assert_eq!(died_at.len(), all, "every step is reached");
}

/// A collector in a process of its own, with a step armed or none.
fn child(place: &Place, armed: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", "service::crash::child_that_collects_until_it_dies"])
        .env(CHILD, &place.directory)
        .env(ARMED, armed);
    Process::spawn("a collector", &mut command, &place.directory.join("log")).unwrap()
}

/// A collector that has everything, and is killed.
pub(super) async fn collect_and_kill(place: &Place, home: &Cluster) {
    write(&place.directory, "home", home);
    let mut child = child(place, "");
    eventually(LIMIT, || async {
        let log = child.log();
        if log.contains(COLLECTED) { Ok(()) } else { Err(log) }
    })
    .await;
    child.kill();
}

fn write(directory: &Path, name: &str, cluster: &Cluster) {
    std::fs::write(directory.join(name), reader(cluster).yaml()).unwrap();
}

async fn dies_and_misses_nothing(step: &str, passes: u32, mut random: fastrand::Rng) {
    let random = &mut random;
    let (home, leaf) = (Cluster::shared().await, second().await);
    let here = Maps::new(home, HOME, "crash").await;
    let there = Maps::new(leaf, "leaf", "crash").await;
    here.create_many(20).await;
    there.create_many(20).await;
    let place = Place::new();
    write(&place.directory, "home", home);
    write(&place.directory, "leaf", leaf);
    let mut child = child(&place, &format!("{step}=crash:{passes}"));
    let began = std::time::Instant::now();
    while child.ended().is_none() && began.elapsed() < LIMIT {
        here.steps(random, 30, 4).await;
        there.steps(random, 30, 4).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = child.wait(Duration::from_secs(1)).unwrap_or_else(|error| panic!("{step} {passes}: {error:#}"));
    assert!(crashed_at(status, &child.log(), step), "{step} {passes}: {}", child.log_tail());

    // Gone while nobody looked.
    here.steps(random, 30, 20).await;
    there.steps(random, 30, 20).await;
    let mut options = place.options(&["v1/ConfigMap"]).await;
    options.local = Some(local(&reader(home)));
    let explorer = Explorer::open(options).await.unwrap();
    explorer.read(Index::audit).unwrap();
    synced(&explorer, HOME, 1).await;
    assert_eq!(here.rows(&explorer).await, here.truth().await, "{step} {passes}: equal at the first sync");
    let is_there = explorer.clusters().iter().any(|report| report.name == "leaf");
    if is_there {
        synced(&explorer, "leaf", 1).await;
        let names: BTreeSet<String> = there.truth().await.into_keys().collect();
        assert_eq!(kept(&explorer, &there), names, "{step} {passes}");
        explorer.remove_cluster("leaf").await.unwrap();
    }
    assert!(!explorer.read(Index::known_clusters).contains("leaf"), "{step} {passes}: something is left");
    explorer.read(Index::audit).unwrap();
    explorer.close().await;
    // Every later round would list them too.
    here.delete_all().await;
    there.delete_all().await;
}

/// The names of the rows of a namespace, whoever may see them.
fn kept(explorer: &Explorer, maps: &Maps) -> BTreeSet<String> {
    let everything = explorer::Visibility::default().with(maps.cluster.clone(), explorer::index::View::Everything);
    let text = format!("ns:{}", maps.namespace);
    let query = explorer::Query { limit: 0, ..explorer::Query::parse(&text).unwrap() };
    let page = explorer.read(|index| index.query(&query, &everything));
    page.rows.into_iter().map(|found| found.row.key.name).collect()
}
