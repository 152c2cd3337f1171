//! PostgreSQL goes away and comes back in mid-load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use db::{Error, params};
use testbed::Postgres;

use crate::place::{Place, names, put};

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_in_mid_load_is_survived_without_a_failed_write() {
    let server = Postgres::start().unwrap();
    let place = Place::Postgres(server.url(&server.create_database().unwrap()));
    let mut config = place.config();
    if let db::Config::Postgres(config) = &mut config {
        config.deadline = Duration::from_mins(1);
    }
    let db = db::Db::open(config).await.unwrap();
    db.migrate(&[crate::place::PAIRS]).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicI64::new(0));
    let tasks = (0..6).map(|task| {
        let (db, stop, written) = (db.clone(), Arc::clone(&stop), Arc::clone(&written));
        tokio::spawn(async move {
            let mut mine = Vec::new();
            for index in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("{task}-{index}");
                let row = name.clone();
                db.write(move |tx| tx.execute("INSERT INTO pairs (name, number) VALUES ($1, 1)", params![&row]))
                    .await
                    .unwrap();
                db.read(|tx| tx.query("SELECT COUNT(*) FROM pairs", &[])).await.unwrap();
                written.fetch_add(1, Ordering::Relaxed);
                mine.push(name);
            }
            mine
        })
    });
    let tasks = tasks.collect::<Vec<_>>();
    for _ in 0..testbed::scale().of(2, 10) {
        let before = written.load(Ordering::Relaxed);
        while written.load(Ordering::Relaxed) < before + 50 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::task::block_in_place(|| server.restart()).unwrap();
    }
    let before = written.load(Ordering::Relaxed);
    while written.load(Ordering::Relaxed) < before + 50 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut expected = Vec::new();
    for task in tasks {
        expected.extend(task.await.unwrap());
    }
    expected.sort();
    let mut there = names(&db).await;
    there.sort();
    assert_eq!(there, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_server_is_down_calls_fail_in_time_and_then_recover() {
    let server = Postgres::start().unwrap();
    let place = Place::Postgres(server.url(&server.create_database().unwrap()));
    let db::Config::Postgres(mut config) = place.config() else { unreachable!() };
    config.deadline = Duration::from_secs(2);
    let db = db::Db::open(db::Config::Postgres(config)).await.unwrap();
    db.migrate(&[crate::place::PAIRS]).await.unwrap();
    put(&db, "a", 1).await;
    server.stop().unwrap();
    let started = std::time::Instant::now();
    assert!(matches!(db.ping().await, Err(Error::Unavailable { .. })));
    let refused = db.write(|tx| tx.execute("DELETE FROM pairs", &[])).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    server.start_again().unwrap();
    db.ping().await.unwrap();
    assert_eq!(names(&db).await, ["a"]);
}
