//! A transaction is kept whole or not at all, and its failure is its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use db::{Config, Db, Error, params};

use crate::place::{Place, names, number, on_both, put};

on_both!(
    an_error_of_the_closure_undoes_its_writes,
    a_panic_undoes_its_own_writes_and_nothing_else,
    failing_and_panicking_closures_in_a_crowd_undo_only_themselves,
    a_swallowed_failure_keeps_nothing,
    a_closure_is_run_again_after_a_conflict,
    a_caller_who_stops_waiting_leaves_the_database_usable,
    after_close_every_call_says_so,
);

#[derive(Debug)]
enum Fault {
    Mine,
    Database(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Database(error)
    }
}

async fn an_error_of_the_closure_undoes_its_writes(place: Place) {
    let db = place.with_pairs().await;
    let refused = db.write(|tx| {
        tx.execute("INSERT INTO pairs (name, number) VALUES ('a', 1)", &[])?;
        Err::<(), _>(Fault::Mine)
    });
    assert!(matches!(refused.await, Err(Fault::Mine)));
    assert!(names(&db).await.is_empty());
}

async fn a_panic_undoes_its_own_writes_and_nothing_else(place: Place) {
    let db = place.with_pairs().await;
    let panicked = db.write(|tx| {
        tx.execute("INSERT INTO pairs (name, number) VALUES ('a', 1)", &[])?;
        assert!(tx.query("SELECT 1 FROM pairs", &[])?.is_empty(), "a panic of the test's own making");
        Ok::<_, Error>(())
    });
    assert!(matches!(panicked.await, Err(Error::Panicked)));
    let panicked = db.read(|_| -> Result<(), Error> { panic!("a panic of the test's own making") });
    assert!(matches!(panicked.await, Err(Error::Panicked)));
    put(&db, "b", 2).await;
    assert_eq!(names(&db).await, ["b"]);
}

async fn failing_and_panicking_closures_in_a_crowd_undo_only_themselves(place: Place) {
    let db = place.with_pairs().await;
    let tasks = (0..90_i64).map(|index| {
        let db = db.clone();
        tokio::spawn(async move {
            let written = db.write(move |tx| {
                let name = format!("{index:03}");
                tx.execute("INSERT INTO pairs (name, number) VALUES ($1, $2)", params![name, index])?;
                match index % 3 {
                    0 => Ok(()),
                    1 => Err(Fault::Mine),
                    _ => panic!("a panic of the test's own making"),
                }
            });
            match (index % 3, written.await) {
                (0, Ok(())) | (1, Err(Fault::Mine)) | (2, Err(Fault::Database(Error::Panicked))) => {}
                (_, other) => panic!("{index}: {other:?}"),
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let expected = (0..90).step_by(3).map(|index| format!("{index:03}")).collect::<Vec<_>>();
    assert_eq!(names(&db).await, expected);
}

async fn a_swallowed_failure_keeps_nothing(place: Place) {
    let db = place.with_pairs().await;
    put(&db, "a", 1).await;
    let aborted = db.write(|tx| {
        tx.execute("INSERT INTO pairs (name, number) VALUES ('b', 2)", &[])?;
        assert!(tx.execute("INSERT INTO pairs (name, number) VALUES ('a', 2)", &[]).is_err());
        assert!(matches!(tx.query("SELECT name FROM pairs", &[]), Err(Error::Aborted)));
        Ok::<_, Error>(())
    });
    assert!(matches!(aborted.await, Err(Error::Aborted)));
    assert_eq!(names(&db).await, ["a"]);
}

/// The first run of the closure is overtaken by a write of another opening, where the engine lets that happen.
async fn a_closure_is_run_again_after_a_conflict(place: Place) {
    let db = place.with_pairs().await;
    let other = place.with_pairs().await;
    put(&db, "a", 1).await;
    let runs = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&runs);
    let on_server = matches!(place, Place::Postgres(_));
    let written = db.write(move |tx| {
        let run = counter.fetch_add(1, Ordering::SeqCst);
        let before = tx.query_opt("SELECT number FROM pairs WHERE name = 'a'", &[])?.unwrap().get::<i64>(0)?;
        if run == 0 && on_server {
            let other = other.clone();
            let overtaking =
                async move { other.write(|tx| tx.execute("UPDATE pairs SET number = 10 WHERE name = 'a'", &[])).await };
            tokio::runtime::Handle::current().block_on(overtaking)?;
        }
        tx.execute("UPDATE pairs SET number = $1 WHERE name = 'a'", params![before + 1])
    });
    assert_eq!(written.await.unwrap(), 1);
    match place {
        Place::Postgres(_) => {
            assert_eq!((runs.load(Ordering::SeqCst), number(&db, "a").await), (2, Some(11)));
        }
        // Writers of SQLite wait instead: the lock is taken first.
        Place::Sqlite(_) => assert_eq!((runs.load(Ordering::SeqCst), number(&db, "a").await), (1, Some(2))),
    }
}

async fn a_caller_who_stops_waiting_leaves_the_database_usable(place: Place) {
    let db = place.with_pairs().await;
    for index in 0..30_i64 {
        let writing = db.write(move |tx| {
            std::thread::sleep(Duration::from_millis(2));
            let name = format!("{index:03}");
            tx.execute("INSERT INTO pairs (name, number) VALUES ($1, 1)", params![name])
        });
        let _ = tokio::time::timeout(Duration::from_millis(1), writing).await;
        let reading = db.read(|tx| {
            std::thread::sleep(Duration::from_millis(2));
            tx.query("SELECT name FROM pairs", &[])
        });
        let _ = tokio::time::timeout(Duration::from_millis(1), reading).await;
    }
    put(&db, "last", 1).await;
    assert_eq!(number(&db, "last").await, Some(1));
    db.ping().await.unwrap();
}

async fn after_close_every_call_says_so(place: Place) {
    let db = place.with_pairs().await;
    let clone = db.clone();
    put(&db, "a", 1).await;
    db.close().await;
    assert!(matches!(clone.ping().await, Err(Error::Closed)));
    let refused = clone.write(|tx| tx.execute("DELETE FROM pairs", &[])).await;
    assert!(matches!(refused, Err(Error::Closed)));
    if let Place::Sqlite(path) = &place {
        assert_eq!(std::fs::metadata(format!("{path}-wal")).map_or(0, |file| file.len()), 0);
    }
    assert_eq!(names(&place.open().await).await, ["a"]);
}

#[tokio::test]
async fn a_file_made_by_sqlite_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = testbed::process::scratch("db").unwrap();
    let path = directory.join("made/here/test.db");
    let db = Db::open(Config::sqlite(&path)).await.unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_file_name("test.db-wal")), 0o600);
    assert_eq!((mode(&directory.join("made")), mode(&directory.join("made/here"))), (0o700, 0o700));
    db.close().await;
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_by_name() {
    let directory = testbed::process::scratch("db").unwrap();
    let path = directory.join("letter.txt");
    std::fs::write(&path, "Dear Sir or Madam, this is not a database. ".repeat(100)).unwrap();
    let error = Db::open(Config::sqlite(&path)).await.unwrap_err();
    assert!(matches!(error, Error::Open { .. }) && error.to_string().contains("letter.txt"), "{error}");
    let error = Db::open(Config::sqlite("/proc/nothing/test.db")).await.unwrap_err();
    assert!(matches!(error, Error::Open { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_told_apart_without_the_password() {
    let server = testbed::Postgres::shared().unwrap();
    let nobody = server.url("postgres").replace("postgres:testbed-password@", "nobody:canary-password@");
    let table = [
        (server.url("missing"), "missing"),
        (nobody, "password authentication failed"),
        ("postgres://u:canary-password@127.0.0.1:1/d".to_owned(), "not available"),
        ("canary-password".to_owned(), "does not begin with postgres://"),
    ];
    for (url, text) in table {
        let Config::Postgres(mut config) = Config::postgres(url) else { unreachable!() };
        config.deadline = Duration::from_secs(2);
        let error = Db::open(Config::Postgres(config.clone())).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        for shown in [error.to_string(), format!("{error:?} {config:?}")] {
            assert!(!shown.contains("canary") && !shown.contains("testbed-password"), "{shown}");
        }
    }
}
