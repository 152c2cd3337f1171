//! A process that dies at any step leaves a database that is whole.

use std::path::Path;

use db::{Config, Db, Step};

use crate::child::{self, Role, STEPS};
use crate::place::{Place, names, on_both};

on_both!(
    a_crash_at_any_step_leaves_all_or_nothing,
    a_migration_killed_at_random_is_resumed,
    a_commit_that_fails_is_looked_up_both_ways,
);

async fn a_crash_at_any_step_leaves_all_or_nothing(place: Place) {
    for &step in Step::ALL {
        let fresh = match place {
            Place::Sqlite(_) => Place::sqlite(),
            Place::Postgres(_) => Place::postgres(),
        };
        // No arm for "any other": a new step does not compile without its scenario.
        match step {
            Step::BeforeCommit => {
                crash(Role::WriteOne, &fresh, step);
                assert!(names(&fresh.open().await).await.is_empty());
            }
            Step::AfterCommitBeforeAck => {
                crash(Role::WriteOne, &fresh, step);
                assert_eq!(names(&fresh.open().await).await, ["only"]);
            }
            Step::MigrationBeforeCommit => resume(&fresh, step, 0).await,
            Step::MigrationBetweenSteps => resume(&fresh, step, 1).await,
            Step::BackupBeforeRename => {
                if let Place::Sqlite(path) = &fresh {
                    crash(Role::Backup, &fresh, step);
                    let copy = format!("{path}.copy");
                    assert!(!Path::new(&copy).exists(), "a copy must not have its name before it is complete");
                    let db = fresh.with_pairs().await;
                    db.backup(Path::new(&copy)).await.unwrap();
                    assert!(names(&Db::open(Config::sqlite(&copy)).await.unwrap()).await.is_empty());
                    assert!(!Path::new(&format!("{copy}.partial")).exists());
                }
            }
        }
    }
}

fn crash(role: Role, place: &Place, step: Step) {
    let (status, log) = child::run(role, place, &format!("{}=crash", step.name()));
    assert!(testbed::process::crashed_at(status, &log, step.name()), "{status} {log}");
}

/// Crashes a migration in its first step and finishes it.
async fn resume(place: &Place, step: Step, applied: i64) {
    crash(Role::Migrate, place, step);
    let db = place.open().await;
    assert_eq!(steps_applied(&db).await, applied, "{step:?}");
    db.migrate(&[STEPS]).await.unwrap();
    assert_all_steps(&db).await;
}

async fn steps_applied(db: &Db) -> i64 {
    let count = db.read(|tx| tx.query_opt("SELECT COUNT(*) FROM stateward_migrations WHERE set_name = 'steps'", &[]));
    count.await.unwrap().unwrap().get(0).unwrap()
}

async fn assert_all_steps(db: &Db) {
    let rows = db.read(|tx| tx.query("SELECT number FROM steps ORDER BY number", &[])).await.unwrap();
    let numbers = rows.iter().map(|row| row.get::<i64>(0).unwrap()).collect::<Vec<_>>();
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
    assert_eq!(steps_applied(db).await, 8);
}

/// Every place in between: the kill comes after a random number of passes through a random step.
async fn a_migration_killed_at_random_is_resumed(place: Place) {
    let mut random = fastrand::Rng::with_seed(testbed::seed("a_migration_killed_at_random_is_resumed"));
    for _ in 0..testbed::scale().of(2, 30) {
        let fresh = match place {
            Place::Sqlite(_) => Place::sqlite(),
            Place::Postgres(_) => Place::postgres(),
        };
        let mut deaths = 0;
        loop {
            let step = random.choice([Step::MigrationBeforeCommit, Step::MigrationBetweenSteps]).unwrap();
            let arm = format!("{}=crash:{}", step.name(), random.u32(0..3));
            let (status, log) = child::run(Role::Migrate, &fresh, &arm);
            if status.success() {
                break;
            }
            assert!(testbed::process::crashed_at(status, &log, step.name()), "{status} {log}");
            deaths += 1;
            assert!(deaths < 200, "it makes no progress");
        }
        assert_all_steps(&fresh.open().await).await;
    }
}

/// In a child, because an armed step is for the whole process.
async fn a_commit_that_fails_is_looked_up_both_ways(place: Place) {
    let db = place.with_pairs().await;
    // COMMIT took place although its answer was an error: the write is reported as done.
    let (status, log) = child::run(Role::WriteOne, &place, &format!("{}=fail", Step::AfterCommitBeforeAck.name()));
    assert!(status.success(), "{log}");
    assert_eq!(names(&db).await, ["only"]);
    db.write(|tx| tx.execute("DELETE FROM pairs", &[])).await.unwrap();
    // COMMIT did not take place: nothing is there, and the write is not reported as done.
    let (status, log) = child::run(Role::WriteOne, &place, &format!("{}=fail", Step::BeforeCommit.name()));
    assert!(!status.success() && log.contains("Unavailable"), "{status} {log}");
    assert!(names(&db).await.is_empty());
    let left = db.read(|tx| tx.query("SELECT id FROM stateward_operations WHERE state = 'probe'", &[])).await.unwrap();
    assert!(left.is_empty());
}
