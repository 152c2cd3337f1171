//! An end at any step, as by `kill -9`, and then again.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::compat::beside_cluster;
use crate::run::Run;
use crate::server::{PATIENCE, Start};
use crate::state_commands::{Person, a_state, file_with, lock_of};

/// The steps of a migration, as the binary names them.
const STEPS: &[&str] = &[
    "migrate.source_locked",
    "migrate.both_locked",
    "migrate.written",
    "migrate.verified",
    "migrate.left",
    "migrate.destination_free",
];

#[test]
fn every_step_of_a_migration_is_covered() {
    let source = include_str!("../../../src/cli/state/migrate/failpoints.rs");
    let named: Vec<&str> = source.split('"').filter(|text| text.starts_with("migrate.")).collect();
    assert_eq!(named, STEPS);
}

#[tokio::test]
async fn a_migration_between_stores_that_was_killed_ends_well_the_second_time() {
    let (server, token, namespace) = beside_cluster("again", |start| start).await;
    let me = Person::new(&server, &token);
    for (number, step) in STEPS.iter().enumerate() {
        let state = format!("{namespace}/state-{number}");
        me.ok(&["push", &state, &file_with(&a_state(1, "one"))]);
        let migrate = ["migrate", &state, "--from-store", "sqlite", "--to-store", "configmap"];
        crash(&me, &migrate, step);
        let out = me.ok(&migrate);
        let expected = match *step {
            "migrate.source_locked" | "migrate.both_locked" => "copied",
            "migrate.written" | "migrate.verified" => "already there",
            _ => "already moved",
        };
        assert!(out.contains(expected), "{step}: {out}");
        assert_eq!(me.ok(&["pull", &state, "--store", "configmap"]), a_state(1, "one"), "{step}");
        me.fails(5, "in the store configmap", &["pull", &state]);
        assert_eq!(lock_of(&me, &state), None, "{step}");
    }
}

#[tokio::test]
async fn a_migration_from_another_server_that_was_killed_ends_well_the_second_time() {
    let (old, new) = (Start::new().serve(), Start::new().serve());
    let (there, here) = (Person::first(&old), Person::first(&new));
    for (number, step) in STEPS.iter().enumerate() {
        let (source, state) = (format!("team-x/s{number}"), format!("team-a/s{number}"));
        there.ok(&["push", &source, &file_with(&a_state(1, "one"))]);
        let address = format!("{}/state/{source}", old.url);
        let migrate = ["migrate", &state, "--from", &address];
        let variables = [("TF_HTTP_USERNAME", "anybody"), ("TF_HTTP_PASSWORD", there.token.as_str())];
        let crashed =
            Run::of(here.command(&migrate).envs(variables).env("STATEWARD_FAILPOINTS", format!("{step}=crash")));
        assert!(crashed.code.is_none() && crashed.err.contains(step), "{crashed:#?}");
        // Nobody else gets in between: what is locked stays locked.
        if *step != "migrate.destination_free" {
            assert!(lock_of(&there, &source).is_some(), "{step}");
        }
        let out = Run::of(here.command(&migrate).envs(variables)).ok();
        assert!(out.contains("already") || number < 2, "{step}: {out}");
        assert_eq!(here.ok(&["pull", &state]), a_state(1, "one"), "{step}");
        there.fails(5, &format!("{}/state/{state}", new.url), &["pull", &source]);
        assert_eq!((lock_of(&here, &state), lock_of(&there, &source)), (None, None), "{step}");
        // And a file, which has no tombstone.
        let file = file_with(&a_state(2, "two"));
        let migrate = ["migrate", &state, "--from", &file];
        if *step != "migrate.left" {
            crash(&here, &migrate, step);
        }
        here.ok(&migrate);
        assert_eq!(here.ok(&["pull", &state]), a_state(2, "two"), "{step}");
        assert_eq!(lock_of(&here, &state), None, "{step}");
    }
}

#[tokio::test]
async fn a_migration_that_is_killed_in_the_middle_of_the_write_ends_well_the_second_time() {
    // The server waits in the middle of the write, so that there is something to kill.
    let server = Start::new().variable("STATEWARD_FAILPOINTS", "states.upload_named=delay(3000)").serve();
    let me = Person::first(&server);
    let state = testbed::states::generate(3000, testbed::seed("killed"), &testbed::states::Options::default());
    let state = String::from_utf8(state).unwrap();
    let file = file_with(&state);
    let migrate = ["migrate", "team-a/app", "--from", &file];
    let mut child = me.spawn(&migrate);
    testbed::eventually(PATIENCE, || async { lock_of(&me, "team-a/app").is_some() }).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lock_of(&me, "team-a/app").is_some(), "nobody else gets in between");
    me.fails(8, "migration", &["push", "team-a/app", &file_with(&a_state(1, "one"))]);
    let out = me.ok(&migrate);
    assert!(out.contains("copied") || out.contains("already there"), "{out}");
    assert!(me.ok(&["pull", "team-a/app"]) == state);
    assert_eq!(lock_of(&me, "team-a/app"), None);
}

#[tokio::test]
async fn an_interrupted_migration_releases_both_sides() {
    let (old, new) = (Start::new().serve(), Start::new().serve());
    let (there, here) = (Person::first(&old), Person::first(&new));
    there.ok(&["push", "team-x/app", &file_with(&a_state(1, "one"))]);
    let address = format!("{}/state/team-x/app", old.url);
    let mut command = here.command(&["migrate", "team-a/app", "--from", &address]);
    command.env("TF_HTTP_USERNAME", "x").env("TF_HTTP_PASSWORD", &there.token);
    command.env("STATEWARD_FAILPOINTS", "migrate.both_locked=delay(2000)").stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    testbed::eventually(PATIENCE, || async { lock_of(&here, "team-a/app").is_some() }).await;
    assert!(lock_of(&there, "team-x/app").is_some());
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!((lock_of(&here, "team-a/app"), lock_of(&there, "team-x/app")), (None, None));
    here.fails(3, "", &["pull", "team-a/app"]);
    assert_eq!(there.ok(&["pull", "team-x/app"]), a_state(1, "one"));
}

/// Runs it until it dies at this step.
#[track_caller]
fn crash(person: &Person, arguments: &[&str], step: &str) {
    let crashed = Run::of(person.command(arguments).env("STATEWARD_FAILPOINTS", format!("{step}=crash")));
    assert!(crashed.code.is_none() && crashed.err.contains(&format!("crashed at {step}")), "{crashed:#?}");
}
