//! Nothing that a test started outlives the run, however the run ends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testbed::process::{self, Process};
use testbed::{Cluster, eventually};

/// Set in the environment of the run that is killed: where it tells what it started.
const TELL: &str = "TESTBED_KILLED_RUN_TELLS";

#[tokio::test]
async fn a_killed_test_run_leaves_no_process_and_no_directory() {
    if let Some(told) = std::env::var_os(TELL) {
        return start_a_cluster_and_hang(Path::new(&told)).await;
    }
    let directory = process::scratch("killed-run").expect("make a directory");
    let told = directory.join("told");
    let this_test = std::thread::current().name().expect("a test has a name").to_owned();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", &this_test, "--nocapture"]).env(TELL, &told);
    let mut run = Process::spawn("test run", &mut command, &directory.join("log")).expect("start a test run");

    let limit = Duration::from_secs(120);
    let told = eventually(limit, || async { std::fs::read_to_string(&told) }).await;
    let mut lines = told.lines();
    let data = PathBuf::from(lines.next().expect("the data directory"));
    let pids: Vec<u32> = lines.map(|line| line.parse().expect("a pid")).collect();
    assert_eq!(pids.len(), 3, "etcd, API server and controller-manager: {told}");
    assert!(data.join("audit.log").exists() && pids.iter().all(|&pid| runs(pid)), "they run before the kill");

    run.kill();
    eventually(limit, || async { !pids.iter().any(|&pid| runs(pid)) }).await;
    eventually(limit, || async { !data.exists() }).await;
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
    let error = program.wait_until(Duration::from_secs(60), || false).expect_err("it ends").to_string();
    assert!(error.contains("exit status: 3") && error.contains("no room here"), "{error}");
}

async fn start_a_cluster_and_hang(tell: &Path) {
    let cluster = Cluster::own().await;
    let pids: Vec<String> = cluster.pids().iter().map(u32::to_string).collect();
    // Renamed into place, so that it is never read half-written.
    let draft = tell.with_extension("draft");
    std::fs::write(&draft, format!("{}\n{}\n", cluster.directory().display(), pids.join("\n"))).expect("tell");
    std::fs::rename(&draft, tell).expect("tell");
    std::future::pending::<()>().await;
}

/// A dead process that nobody has waited for yet does not run.
fn runs(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}
