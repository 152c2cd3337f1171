//! Copies of a SQLite database that is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use db::{Config, Db, Error};

use crate::place::{Place, names, put};

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_made_while_writing_is_whole_and_has_every_row_acknowledged_before() {
    let place = Place::sqlite();
    let Place::Sqlite(path) = &place else { unreachable!() };
    let db = place.with_pairs().await;
    let acknowledged = Arc::new(std::sync::Mutex::new(Vec::new()));
    let stop = Arc::new(AtomicBool::new(false));
    let tasks = (0..4).map(|task| {
        let (db, acknowledged, stop) = (db.clone(), Arc::clone(&acknowledged), Arc::clone(&stop));
        tokio::spawn(async move {
            for index in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("{task}-{index}");
                put(&db, &name, 1).await;
                acknowledged.lock().unwrap().push(name);
            }
        })
    });
    let tasks = tasks.collect::<Vec<_>>();
    for round in 0..testbed::scale().of(5, 50) {
        let enough = (round + 1) * 20;
        while acknowledged.lock().unwrap().len() < enough {
            tokio::task::yield_now().await;
        }
        let before = acknowledged.lock().unwrap().clone();
        let copy = format!("{path}.copy{round}");
        let made = db.backup(copy.as_ref()).await.unwrap();
        assert_eq!(made.bytes, std::fs::metadata(&copy).unwrap().len());
        let raw = rusqlite::Connection::open(&copy).unwrap();
        let integrity: String = raw.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok");
        drop(raw);
        // A restored copy is a database like any other.
        let restored = Db::open(Config::sqlite(&copy)).await.unwrap();
        let there = names(&restored).await;
        let missing = before.iter().filter(|name| there.binary_search(name).is_err()).collect::<Vec<_>>();
        assert!(missing.is_empty(), "round {round}: {missing:?}");
        put(&restored, "after", 1).await;
        restored.close().await;
    }
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_copy_replaces_nothing_and_leaves_nothing_behind() {
    let place = Place::sqlite();
    let Place::Sqlite(path) = &place else { unreachable!() };
    let db = place.with_pairs().await;
    let copy = format!("{path}.copy");
    std::fs::write(&copy, "precious").unwrap();
    let error = db.backup(copy.as_ref()).await.unwrap_err();
    assert!(error.to_string().contains("already"), "{error}");
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "precious");
    let nowhere = format!("{path}.d/missing/copy");
    assert!(matches!(db.backup(nowhere.as_ref()).await, Err(Error::Backup { .. })));
    let other = format!("{path}.other");
    let (one, two) = tokio::join!(db.backup(other.as_ref()), db.backup(other.as_ref()));
    assert_eq!(i32::from(one.is_ok()) + i32::from(two.is_ok()), 1, "{one:?} {two:?}");
    let directory = std::path::Path::new(path).parent().unwrap();
    let left = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("partial")));
}

#[tokio::test]
async fn postgres_names_the_program_for_that() {
    let db = Place::postgres().open().await;
    let error = db.backup("/nowhere/copy".as_ref()).await.unwrap_err();
    assert!(error.to_string().contains("pg_dump"), "{error}");
}
