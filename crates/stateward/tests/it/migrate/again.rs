//! An end at any step, as by `kill -9`, and then again.

use crate::compat::beside_cluster;
use crate::run::Run;
use crate::server::Start;
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

/// Runs it until it dies at this step.
#[track_caller]
fn crash(person: &Person, arguments: &[&str], step: &str) {
    let crashed = Run::of(person.command(arguments).env("STATEWARD_FAILPOINTS", format!("{step}=crash")));
    assert!(crashed.code.is_none() && crashed.err.contains(&format!("crashed at {step}")), "{crashed:#?}");
}
