//! A process that dies at any step of a chunked write leaves the old state or the new one.
//!
//! The test runs itself as the child that dies: an armed step aborts the whole process.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use states::failpoints::Step;
use states::store::{Expect, StoreError};
use states::{Sealing, Settings, States};
use testbed::Process;
use testbed::process::{crashed_at, scratch};

use crate::places::{Place, big_state, fresh, no_time, read, settings, write};
use crate::sealed::{key_file_in, sealing};

const CHILD: &str = "STATES_CRASH_CHILD";
const KEY: &str = "STATES_CRASH_KEY";
const SWEEPER: &str = "STATES_CRASH_SWEEPER";
/// In what the other sweeper prints, once for each sweep.
const SWEPT: &str = "swept everything";
/// How often it is looked whether the other sweeper has swept once more.
const LOOK: Duration = Duration::from_millis(20);
/// The longest that the others rest between two sweeps.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
const PAUSE_VARIABLE: &str = "STATES_CRASH_PAUSE_MS";
const KEPT_VARIABLE: &str = "STATES_CRASH_KEPT";
/// How often a writer that never came to its step is tried again, beside others that rest four times as long.
const ATTEMPTS: u32 = 6;

/// How many versions are kept, and how many the child writes: enough to fill a page of old ones and to drop it.
const KEPT: usize = 22;
const WRITES: u64 = 36;
/// How many the child keeps where a sweep is to die: what is dropped is what there is to sweep.
const KEPT_TO_SWEEP: usize = 2;

/// Every third fits the head, some of them only until there is a newer one; the others are chunks.
fn body(place: &Place, number: u64) -> Vec<u8> {
    // Half of it is left when it is compressed.
    let limits = place.store.limits();
    let size = match number % 6 {
        0 => 20_000,
        3 => limits.inline_history.max(20_000) * 3 / 2,
        _ => 5 * limits.inline,
    };
    big_state(number, size)
}

fn hasty(sealing: Sealing) -> Settings {
    Settings { times: no_time(), versions: KEPT, sealing, ..settings() }
}

/// What the child does; a plain test otherwise, which has nothing to do.
#[tokio::test]
async fn child_that_writes_until_it_dies() {
    let Ok(description) = std::env::var(CHILD) else { return };
    failpoint::arm_from(&std::env::var("STATES_CRASH_AT").unwrap()).unwrap();
    let place = Place::open(&description).await;
    let versions = std::env::var(KEPT_VARIABLE).unwrap().parse().unwrap();
    let states = place.states(Settings { versions, ..hasty(Sealing::default()) });
    let state = states.at(place.key("crashed"));
    for number in 2..=WRITES {
        write(&state, &body(&place, number), None, "ann").await.unwrap();
        states.sweep().await;
    }
    // From now on everything is to be sealed, and what is there too.
    let key = std::env::var(KEY).unwrap();
    place.states(hasty(sealing(key.as_ref()))).sweep().await;
}

/// The second process that sweeps, until it is killed; a plain test otherwise, which has nothing to do.
#[tokio::test]
async fn child_that_sweeps_until_it_is_killed() {
    let Ok(description) = std::env::var(SWEEPER) else { return };
    let place = Place::open(&description).await;
    let key = std::env::var(KEY).unwrap();
    let pause = Duration::from_millis(std::env::var(PAUSE_VARIABLE).unwrap().parse().unwrap());
    let states = place.states(hasty(Sealing { key: None, ..sealing(key.as_ref()) }));
    loop {
        states.sweep().await;
        #[expect(clippy::print_stderr, reason = "the process that waits for it reads it")]
        {
            eprintln!("{SWEPT}");
        }
        tokio::time::sleep(pause).await;
    }
}

/// Sweeps in this process and in another one, from here to [`Sweepers::end`].
struct Sweepers {
    here: tokio::task::JoinHandle<()>,
    there: Process,
}

impl Sweepers {
    fn start(states: &States, description: &str, key: &std::path::Path, pause: Duration) -> Sweepers {
        let log = scratch("sweeper").unwrap().join("log");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "--nocapture", "crash::child_that_sweeps_until_it_is_killed"])
            .env(SWEEPER, description)
            .env(PAUSE_VARIABLE, pause.as_millis().to_string())
            .env(KEY, key);
        let there = Process::spawn("a sweeper", &mut command, &log).unwrap();
        let states = states.clone();
        let here = tokio::spawn(async move {
            loop {
                states.sweep().await;
                tokio::time::sleep(pause).await;
            }
        });
        let mut sweepers = Sweepers { here, there };
        sweepers.sweep_on();
        sweepers
    }

    /// Waits until the other process has swept once more.
    fn sweep_on(&mut self) {
        let log = self.there.log();
        let rounds = |log: &str| log.matches(SWEPT).count();
        let begun = std::time::Instant::now();
        while rounds(&self.there.log()) <= rounds(&log) {
            let is_running = self.there.ended().is_none() && begun.elapsed() < Duration::from_mins(5);
            assert!(is_running, "the other sweeper ended or hangs: {}", self.there.log_tail());
            std::thread::sleep(LOOK);
        }
    }

    /// Neither has ended or failed meanwhile.
    async fn end(mut self) {
        tokio::task::block_in_place(|| self.sweep_on());
        self.there.kill();
        assert!(!self.here.is_finished(), "the sweeper here ended");
        self.here.abort();
        assert!(self.here.await.is_err_and(|error| error.is_cancelled()), "the sweeper here failed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_leaves_the_old_state_or_the_new_one_in_sqlite() {
    crash_everywhere("sqlite").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_leaves_the_old_state_or_the_new_one_in_postgresql() {
    crash_everywhere("postgres").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_leaves_the_old_state_or_the_new_one_in_config_maps() {
    crash_everywhere("configmap").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_leaves_the_old_state_or_the_new_one_in_secrets() {
    crash_everywhere("secret").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_leaves_the_old_state_or_the_new_one_in_s3() {
    crash_everywhere("s3").await;
}

/// How long the others rest between two sweeps at first. The longer, the more is left for the writer to do itself.
fn first_pause() -> Duration {
    Duration::from_millis(testbed::scale().of(200, 20))
}

async fn crash_everywhere(kind: &str) {
    let mut died_at = BTreeSet::new();
    // What is written to etcd stays there until it is compacted: six times all steps are more than it takes.
    let often = if matches!(kind, "configmap" | "secret") { 2 } else { 6 };
    for step in Step::ALL {
        for passes in testbed::scale().of(0..1, 0..often) {
            let attempts = if passes == 0 { ATTEMPTS } else { 1 };
            for attempt in 0..attempts {
                let pause = LONGEST_PAUSE.min(first_pause() * 4_u32.pow(attempt));
                if dies_and_recovers(*step, passes, pause, &fresh(kind).await).await {
                    died_at.insert(step.name());
                    break;
                }
            }
        }
    }
    let all: BTreeSet<&str> = Step::ALL.iter().map(|step| step.name()).collect();
    assert_eq!(died_at, all, "every step is reached");
}

async fn dies_and_recovers(step: Step, passes: u32, pause: Duration, description: &str) -> bool {
    let place = Place::open(description).await;
    let key = key_file_in(&scratch("keys").unwrap());
    let states = place.states(hasty(Sealing { key: None, ..sealing(&key) }));
    let state = states.at(place.key("crashed"));
    let body = |number| body(&place, number);
    write(&state, &body(1), None, "ann").await.unwrap();
    let sweepers = tokio::task::block_in_place(|| Sweepers::start(&states, description, &key, pause));

    let log = scratch("child").unwrap().join("log");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", "crash::child_that_writes_until_it_dies"])
        .env(CHILD, description)
        .env(KEY, &key)
        .env(KEPT_VARIABLE, if step == Step::SweepHeadWritten { KEPT_TO_SWEEP } else { KEPT }.to_string())
        .env("STATES_CRASH_AT", format!("{}=crash:{passes}", step.name()));
    let mut child = Process::spawn("a writer", &mut command, &log).unwrap();
    // The sweeper of this process goes on meanwhile.
    let status = tokio::task::block_in_place(|| child.wait(Duration::from_mins(10))).unwrap();
    let died = crashed_at(status, &child.log(), step.name());
    assert!(died || status.success(), "{step:?} {passes}: {}", child.log_tail());

    // Old or new, never torn, and the next write goes through.
    let head = state.head().await.unwrap().unwrap();
    let bytes = read(&state).await.expect("a state");
    assert!(bytes == body(head.last_version), "{step:?} {passes}: version {}", head.last_version);
    write(&state, &body(100), None, "ann").await.unwrap();
    assert!(read(&state).await.unwrap() == body(100));
    sweepers.end().await;
    swept_clean(&states, &place).await;
    died
}

/// After a sweep when all deadlines are over, there are exactly the chunks that somebody can reach.
async fn swept_clean(states: &States, place: &Place) {
    let state = states.at(place.key("crashed"));
    // The uploads of the dead writer wait for their deadline: end it for them.
    // What the other sweepers began may take place after their end: then it is done on what that left.
    loop {
        let found = place.store.read_head(&place.key("crashed")).await.unwrap().unwrap();
        let mut head = found.head;
        for upload in &mut head.uploads {
            upload.deadline = Timestamp::UNIX_EPOCH;
        }
        head.operations.push(uuid::Uuid::new_v4());
        let expected = Expect::Revision(found.revision);
        match place.store.write_head(&place.key("crashed"), &head, &expected).await {
            Err(StoreError::Conflict) => {}
            other => break drop(other.unwrap()),
        }
    }
    // What is stored anew lets go of what it was before: that is for the next sweep.
    state.upkeep().await.unwrap();
    assert_eq!(states.sweep().await.failures, 0);
    let head = state.head().await.unwrap().unwrap();
    assert_eq!(head.uploads, []);
    let versions = state.versions().await.unwrap();
    let mut named: BTreeSet<uuid::Uuid> = head.pages.iter().map(|page| page.extent.upload).collect();
    named.extend(head.seal.iter().map(|key| key.copy));
    for version in &versions {
        if let states::head::Body::Chunks { extent, .. } = &version.body {
            named.insert(extent.upload);
        }
        let bytes = crate::places::collect(state.open(version.clone()).await.unwrap()).await;
        let number = if version.number == head.last_version { 100 } else { version.number };
        assert!(bytes == body(place, number), "version {}", version.number);
    }
    let there = place.uploads_before(Timestamp::MAX).await;
    let strays: Vec<_> = there.iter().filter(|stray| !named.contains(&stray.upload)).collect();
    // Chunks put after the head was swept wait for their own deadline, an hour from now.
    assert!(strays.iter().all(|stray| stray.deadline > Timestamp::now()), "{strays:?}");
    assert_eq!(there.len() - strays.len(), named.len());
}
