//! Schemas are brought up to date by whoever comes first, once.

use db::{Db, Error, Migrations};

use crate::place::{Place, names, on_both};

on_both!(
    steps_are_applied_in_order_and_once,
    sets_are_independent,
    an_edited_step_is_refused,
    a_database_newer_than_the_program_is_refused,
    a_failing_step_leaves_nothing_of_itself,
    several_processes_may_migrate_at_once,
    a_database_that_is_opened_as_it_is_stays_as_it_is,
);

const ONE: &str = "CREATE TABLE pairs (name TEXT, number BIGINT); INSERT INTO pairs (name, number) VALUES ('one', 1);";
const TWO: &str = "INSERT INTO pairs (name, number) VALUES ('two', 2)";
const BAD: &str = "INSERT INTO pairs (name, number) VALUES ('half', 2); INSERT INTO nowhere (a) VALUES (1);";
const THREE: &str = "INSERT INTO pairs (name, number) VALUES ('three', 3); CREATE INDEX by_number ON pairs (number);";

async fn steps_are_applied_in_order_and_once(place: Place) {
    let db = place.open().await;
    db.migrate(&[Migrations { set: "s", steps: &[ONE, TWO] }]).await.unwrap();
    assert_eq!(names(&db).await, ["one", "two"]);
    for _ in 0..2 {
        db.migrate(&[Migrations { set: "s", steps: &[ONE, TWO, THREE] }]).await.unwrap();
        assert_eq!(names(&db).await, ["one", "three", "two"]);
    }
}

async fn sets_are_independent(place: Place) {
    let db = place.open().await;
    let sets = [Migrations { set: "a", steps: &[ONE] }, Migrations { set: "b", steps: &[TWO, THREE] }];
    db.migrate(&sets).await.unwrap();
    db.migrate(&[Migrations { set: "a", steps: &[ONE] }]).await.unwrap();
    assert_eq!(names(&db).await, ["one", "three", "two"]);
}

async fn an_edited_step_is_refused(place: Place) {
    let db = place.open().await;
    db.migrate(&[Migrations { set: "s", steps: &[ONE, TWO] }]).await.unwrap();
    let error = db.migrate(&[Migrations { set: "s", steps: &[ONE, "SELECT 1", THREE] }]).await.unwrap_err();
    assert!(matches!(&error, Error::Migration { set, number: 2, .. } if set == "s"), "{error:?}");
    assert!(error.to_string().contains("must not be edited"), "{error}");
    assert_eq!(names(&db).await, ["one", "two"]);
}

async fn a_database_newer_than_the_program_is_refused(place: Place) {
    let db = place.open().await;
    db.migrate(&[Migrations { set: "s", steps: &[ONE, TWO] }]).await.unwrap();
    let error = db.migrate(&[Migrations { set: "s", steps: &[ONE] }]).await.unwrap_err();
    assert!(error.to_string().contains("step 2: the database was migrated by a newer version"), "{error}");
}

async fn a_failing_step_leaves_nothing_of_itself(place: Place) {
    let db = place.open().await;
    let error = db.migrate(&[Migrations { set: "s", steps: &[ONE, BAD, THREE] }]).await.unwrap_err();
    assert!(matches!(&error, Error::Migration { number: 2, .. }), "{error:?}");
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert_eq!(names(&db).await, ["one"]);
    db.migrate(&[Migrations { set: "s", steps: &[ONE, TWO] }]).await.unwrap();
    assert_eq!(names(&db).await, ["one", "two"]);
}

async fn several_processes_may_migrate_at_once(place: Place) {
    // Each opening has its own connections and writer, as a process has.
    let tasks = (0..6).map(|_| {
        let place = place.clone();
        tokio::spawn(async move {
            let db = place.open().await;
            db.migrate(&[Migrations { set: "s", steps: &[ONE, TWO, THREE] }]).await.unwrap();
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(names(&place.open().await).await, ["one", "three", "two"]);
}

async fn a_database_that_is_opened_as_it_is_stays_as_it_is(place: Place) {
    match Db::open_as_it_is(place.config()).await.unwrap() {
        Some(empty) => assert!(!empty.has_table("stateward_migrations").await.unwrap()),
        None => assert!(matches!(&place, Place::Sqlite(path) if !std::path::Path::new(path).exists())),
    }
    let db = place.open().await;
    db.migrate(&[Migrations { set: "s", steps: &[ONE] }]).await.unwrap();
    let as_it_is = Db::open_as_it_is(place.config()).await.unwrap().unwrap();
    assert!(as_it_is.has_table("pairs").await.unwrap());
    assert!(!as_it_is.has_table("pair").await.unwrap());
    assert_eq!(names(&as_it_is).await, ["one"]);
    as_it_is.close().await;
    assert_eq!(names(&db).await, ["one"]);
}
