//! A process that dies anywhere leaves a log that opens again, holds all that was acknowledged, and is not called
//! tampered with.
//!
//! The child is this test executable again: the test `child` does nothing unless the variable says what.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use access::audit::{Fault, Intent, Step};
use failpoint::Action;
use testbed::process::crashed_at;
use testbed::{Process, scale};

use super::{Place, act, decision, eventually, intent, told};

const ROLE: &str = "STATEWARD_AUDIT_CHILD";
const ROOT: &str = "STATEWARD_AUDIT_ROOT";
const ARMED: &str = "STATEWARD_AUDIT_ARMED";

/// Runs only in a child process.
#[tokio::test]
async fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    failpoint::arm_from(&std::env::var(ARMED).unwrap_or_default()).unwrap();
    let place = small(Place::at(std::env::var_os(ROOT).unwrap().into()));
    match role.as_str() {
        "writer" => write_for_ever(&place).await,
        "failing" => fail_to_sync(&place).await,
        "traced" => write_a_few(&place).await,
        other => panic!("no role {other}"),
    }
}

/// Small files and few of them, so that a short life sees rotations and expiries.
fn small(place: Place) -> Place {
    place.rotating_at(3000).keeping(3)
}

async fn write_for_ever(place: &Place) {
    let audit = place.open().await;
    for i in 0.. {
        audit.record(decision(&format!("d{i}"))).await;
        // To stdout at once: what was acknowledged counts even if the next moment is the last.
        let promised = audit.intend(intent(&format!("i{i}")), Intent::Written).await.unwrap();
        println!("acknowledged {} i{i}", promised.n);
        let pair = [format!("a{i}"), format!("b{i}")];
        let [first, second] = &pair;
        let (first, second) = tokio::join!(audit.commit(act(first).after(&promised)), audit.commit(act(second)));
        for (receipt, name) in [first, second].into_iter().zip(pair) {
            println!("acknowledged {} {name}", receipt.unwrap().n);
        }
    }
}

fn spawn(place: &Place, role: &str, armed: &str, log: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "audit::crash::child", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(ROOT, &place.root).env(ARMED, armed);
    Process::spawn("audit child", &mut command, &place.root.join(log)).unwrap()
}

/// The acknowledged numbers and names in a child's output.
fn acknowledged(log: &str) -> BTreeMap<u64, String> {
    let line = |line: &str| {
        // The harness writes the test's name before the first line.
        let (number, name) = line.split_once("acknowledged ")?.1.split_once(' ')?;
        Some((number.parse().ok()?, name.to_owned()))
    };
    // The last line may be half written: what was not told in full does not count.
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole.lines().filter_map(line).collect()
}

/// Nothing is called tampering, everything acknowledged is there or expired by a checkpoint, and of acts the database knows.
async fn nothing_is_lost(place: &Place, acknowledged: &BTreeMap<u64, String>, when: &str) {
    let is_act = |(_, name): &(&u64, &String)| !name.starts_with('i');
    let (last, head) = (acknowledged.iter().rfind(is_act), place.head().await);
    if let Some((last, _)) = last {
        let known = head.expect("the log has a head").n;
        assert!(known >= *last, "{when}: line {last} was acknowledged, the database knows {known}");
    }
    let before = place.verify().await;
    assert!(!before.tampered(), "{when}, before the next start: {}", told(&before));
    place.open().await.close().await;
    let report = place.verify().await;
    assert!(!report.tampered(), "{when}: {}", told(&report));
    if before.has(Fault::Torn) {
        assert!(report.has(Fault::RecordedTorn), "{when}: {}", told(&report));
    }
    let lines = place.lines();
    for (n, name) in acknowledged {
        match lines.get(n) {
            Some(line) => assert_eq!(line["name"], **name, "{when}: line {n}"),
            None => assert!(*n < report.first, "{when}: line {n} is lost"),
        }
    }
}

/// What must have gone before a step can be reached, and how many hits pass first.
fn scenario(step: Step) -> (Option<Step>, u32) {
    match step {
        Step::MidWrite
        | Step::AfterWriteBeforeSync
        | Step::AfterSyncBeforeAck
        | Step::AfterSyncBeforeHead
        | Step::AfterHead => (None, 20),
        Step::RotateBeforeRename | Step::RotateAfterRename => (None, 1),
        Step::ExpireBeforeDelete => (None, 2),
        Step::CreateBeforeKey => (None, 0),
        Step::TornBeforeRecord => (Some(Step::MidWrite), 0),
    }
}

#[tokio::test]
async fn a_crash_at_any_step_loses_nothing_acknowledged_and_is_no_tampering() {
    for step in Step::ALL {
        let place = small(Place::new("crash"));
        let (first, passes) = scenario(*step);
        let mut told = BTreeMap::new();
        for (step, passes) in first.map(|first| (first, 20)).into_iter().chain([(*step, passes)]) {
            let armed = format!("{}=crash:{passes}", step.name());
            let mut child = spawn(&place, "writer", &armed, step.name());
            let status = child.wait(Duration::from_mins(2)).unwrap();
            assert!(crashed_at(status, &child.log(), step.name()), "{}: {}", step.name(), child.log_tail());
            told.extend(acknowledged(&child.log()));
        }
        if passes > 0 {
            assert!(!told.is_empty(), "{}: something was acknowledged before", step.name());
        }
        if *step == Step::CreateBeforeKey {
            place.open().await.close().await;
        }
        nothing_is_lost(&place, &told, step.name()).await;
    }
}

#[tokio::test]
async fn a_process_killed_again_and_again_loses_nothing_acknowledged() {
    let place = small(Place::new("kill"));
    let mut random = fastrand::Rng::with_seed(testbed::seed("audit kill"));
    let mut total = 0;
    for round in 0..scale().of(12, 150) {
        let log = format!("round-{round}");
        let mut child = spawn(&place, "writer", "", &log);
        let enough = random.usize(1..120);
        let path = place.root.join(&log);
        let count = || std::fs::read_to_string(&path).map_or(0, |log| acknowledged(&log).len());
        child.wait_until(Duration::from_mins(2), || count() >= enough).unwrap();
        child.kill();
        let told = acknowledged(&child.log());
        total += told.len();
        nothing_is_lost(&place, &told, &log).await;
    }
    eprintln!("{total} acknowledged commits survived");
}

#[tokio::test]
async fn a_failed_sync_takes_the_group_back_and_the_log_goes_on() {
    let place = small(Place::new("failing"));
    let mut child = spawn(&place, "failing", "", "failing");
    let status = child.wait(Duration::from_mins(2)).unwrap();
    assert!(status.success(), "{}", child.log());
    nothing_is_lost(&place, &acknowledged(&child.log()), "after failed syncs").await;
    let report = place.verify().await;
    assert!(report.has(Fault::RecordedGap), "{}", told(&report));
    assert!(place.lines().values().all(|line| line["name"] != "refused"));
}

/// In a process of its own, because an armed step is armed for all.
async fn fail_to_sync(place: &Place) {
    let audit = place.open().await;
    for step in [Step::AfterWriteBeforeSync, Step::MidWrite] {
        let receipt = audit.commit(act("good")).await.unwrap();
        println!("acknowledged {} good", receipt.n);
        let promised = audit.intend(intent("promised"), Intent::Written).await.unwrap();
        println!("acknowledged {} promised", promised.n);
        failpoint::arm(step.name(), Action::Fail, 0);
        audit.record(decision("lost")).await;
        assert!(audit.commit(act("refused").after(&promised)).await.is_err());
        assert!(audit.health().is_err());
        // Nothing more is begun on a disk that has just failed.
        for how in [Intent::Written, Intent::Durable] {
            assert!(audit.intend(intent("refused"), how).await.is_err());
        }
        // What was promised before stays, whether it was synced by then or not.
        assert_eq!(place.lines()[&promised.n]["name"], "promised");
        // No half line stays in the file.
        assert!(std::fs::read_to_string(place.directory().join("audit.log")).unwrap().ends_with('\n'));
        failpoint::disarm(step.name());
        eventually("the log is well again", || audit.health().is_ok()).await;
        let receipt = audit.commit(act("again")).await.unwrap();
        println!("acknowledged {} again", receipt.n);
    }
    audit.close().await;
}

async fn write_a_few(place: &Place) {
    let audit = place.open().await;
    for i in 0..TRACED {
        let receipt = audit.commit(act(&format!("traced-{i}-"))).await.unwrap();
        println!("acknowledged {} traced-{i}-", receipt.n);
    }
    audit.close().await;
}

const TRACED: usize = 8;

#[tokio::test]
async fn a_trace_shows_a_sync_between_each_line_and_its_acknowledgement() {
    let place = small(Place::new("trace"));
    let trace = place.root.join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "4096", "-e", "trace=pwrite64,fdatasync,write", "-o"]).arg(&trace);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "audit::crash::child", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, "traced").env(ROOT, &place.root);
    let mut child = Process::spawn("strace", &mut command, &place.root.join("traced")).unwrap();
    let status = child.wait(Duration::from_mins(2)).unwrap();
    assert!(status.success(), "{}", child.log());
    let trace = std::fs::read_to_string(trace).unwrap();
    for i in 0..TRACED {
        let name = format!("traced-{i}-");
        assert!(is_synced_before_told(&trace, &name), "{name} was acknowledged before it was on disk");
        // The same look at a trace without its syncs fails: it is the syncs that it sees.
        let without: String = trace.split_inclusive('\n').filter(|line| !line.contains("fdatasync")).collect();
        assert!(!is_synced_before_told(&without, &name));
    }
}

/// Whether a sync of the log came back well after the line with this name was written and before it was acknowledged.
fn is_synced_before_told(trace: &str, name: &str) -> bool {
    let lines: Vec<&str> = trace.lines().collect();
    let told = lines.iter().position(|line| line.contains("acknowledged") && line.contains(name)).unwrap();
    let written = |line: &&str| line.contains("pwrite64(") && line.contains("audit.log>") && line.contains(name);
    let written = lines[..told].iter().rposition(written).expect("the line is written before it is acknowledged");
    let mut begun = Vec::new();
    lines[written..told].iter().any(|line| {
        // Calls of several threads interleave: the beginning and the end of one may be apart.
        let thread = line.split(' ').next().unwrap_or_default();
        if line.contains("fdatasync(") && line.contains("audit.log>") {
            begun.push(thread);
        }
        line.contains("fdatasync") && line.ends_with("= 0") && begun.contains(&thread)
    })
}
