//! Nothing that a test started outlives the run, however the run ends.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use testbed::process::{self, Process};
use testbed::{Cluster, eventually};

/// Set in the environment of a run within the run: where it tells what it started.
const TELL: &str = "TESTBED_INNER_RUN_TELLS";
const LIMIT: Duration = Duration::from_mins(2);

#[tokio::test]
async fn a_killed_test_run_leaves_no_process_and_no_directory() {
    if start_if_inner_run().await {
        return std::future::pending().await;
    }
    let mut inner = InnerRun::start().await;
    assert!(inner.data.join("audit.log").exists() && inner.pids.iter().all(|&pid| runs(pid)), "{inner:?}");
    inner.process.kill();
    inner.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn a_test_run_that_ends_with_a_panic_leaves_no_process_and_no_directory() {
    assert!(!start_if_inner_run().await, "the inner run panics on purpose");
    let mut inner = InnerRun::start().await;
    let status = inner.process.wait(LIMIT).expect("it ends by itself");
    assert!(!status.success() && inner.process.log().contains("the inner run panics on purpose"), "{status}");
    inner.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn a_private_cluster_ends_with_its_value() {
    let cluster = Cluster::own().await;
    let (pids, data) = (cluster.pids(), cluster.directory().to_owned());
    assert!(pids.len() == 3 && pids.iter().all(|&pid| runs(pid)), "{pids:?}");
    drop(cluster);
    assert!(!pids.iter().any(|&pid| runs(pid)), "{pids:?}");
    assert!(!data.exists(), "{}", data.display());
}

#[test]
fn a_program_that_ends_before_it_is_ready_is_told_with_its_log() {
    let directory = process::scratch("early-end").expect("make a directory");
    let mut command = Command::new("sh");
    command.args(["-c", "echo no room here; exit 3"]);
    let mut program = Process::spawn("shell", &mut command, &directory.join("log")).expect("start a shell");
    let error = program.wait_until(LIMIT, || false).expect_err("it ends").to_string();
    assert!(error.contains("exit status: 3") && error.contains("no room here"), "{error}");
}

/// The test of this name in a process of its own, with the shared cluster of that process.
#[derive(Debug)]
struct InnerRun {
    process: Process,
    pids: Vec<u32>,
    data: PathBuf,
}

impl InnerRun {
    /// Returns when the cluster runs.
    async fn start() -> InnerRun {
        let directory = process::scratch("inner-run").expect("make a directory");
        let told = directory.join("told");
        let this_test = std::thread::current().name().expect("a test has a name").to_owned();
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", &this_test, "--nocapture"]).env(TELL, &told);
        let process = Process::spawn("inner run", &mut command, &directory.join("log")).expect("start a test run");

        let told = eventually(LIMIT, || async { std::fs::read_to_string(&told) }).await;
        let mut lines = told.lines();
        let data = PathBuf::from(lines.next().expect("the data directory"));
        let pids: Vec<u32> = lines.map(|line| line.parse().expect("a pid")).collect();
        assert_eq!(pids.len(), 3, "etcd, API server and controller-manager: {told}");
        InnerRun { process, pids, data }
    }

    async fn wait_until_nothing_is_left(&self) {
        eventually(LIMIT, || async { !self.pids.iter().any(|&pid| runs(pid)) }).await;
        eventually(LIMIT, || async { !self.data.exists() }).await;
    }
}

/// Starts the shared cluster and tells of it, if this is the run within the run.
async fn start_if_inner_run() -> bool {
    let Some(tell) = std::env::var_os(TELL).map(PathBuf::from) else { return false };
    let cluster = Cluster::shared().await;
    let pids: Vec<String> = cluster.pids().iter().map(u32::to_string).collect();
    // Renamed into place, so that it is never read half-written.
    let draft = tell.with_extension("draft");
    std::fs::write(&draft, format!("{}\n{}\n", cluster.directory().display(), pids.join("\n"))).expect("tell");
    std::fs::rename(&draft, &tell).expect("tell");
    true
}

/// A dead process that nobody has waited for yet does not run.
fn runs(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}
