//! Transactions behave as if they ran one after the other.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

use db::{Db, Error, Tx, params};

use crate::place::{Place, names, number, on_both, put};

on_both!(
    no_update_is_lost,
    no_update_is_lost_between_two_openings,
    a_read_sees_one_snapshot,
    write_skew_is_impossible,
    a_read_cannot_write,
    a_read_never_sees_half_of_a_write,
);

fn increment(tx: &mut Tx<'_>) -> Result<i64, Error> {
    let row = tx.query_opt("SELECT number FROM pairs WHERE name = 'counter'", &[])?;
    let next = row.map_or(Ok(0), |row| row.get::<i64>(0))? + 1;
    tx.execute("UPDATE pairs SET number = $1 WHERE name = 'counter'", params![next])?;
    Ok(next)
}

async fn count_on(handles: Vec<Db>, each: usize) {
    put(&handles[0], "counter", 0).await;
    let tasks = handles.iter().map(|db| {
        let db = db.clone();
        tokio::spawn(async move {
            for _ in 0..each {
                db.write(increment).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let expected = i64::try_from(handles.len() * each).unwrap();
    assert_eq!(number(&handles[0], "counter").await, Some(expected));
}

async fn no_update_is_lost(place: Place) {
    let db = place.with_pairs().await;
    count_on(vec![db; 4], testbed::scale().of(25, 250)).await;
}

async fn no_update_is_lost_between_two_openings(place: Place) {
    let one = place.with_pairs().await;
    let other = place.with_pairs().await;
    count_on(vec![one, other], testbed::scale().of(25, 250)).await;
}

async fn a_read_sees_one_snapshot(place: Place) {
    let db = place.with_pairs().await;
    put(&db, "a", 1).await;
    let (looked, has_looked) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let may_go_on = std::sync::Mutex::new(may_go_on);
    let reader = db.clone();
    let reading = tokio::spawn(async move {
        let body = move |tx: &mut Tx<'_>| {
            let count = "SELECT COUNT(*) FROM pairs";
            let before = tx.query_opt(count, &[])?.unwrap().get::<i64>(0)?;
            looked.send(()).unwrap();
            may_go_on.lock().unwrap().recv().unwrap();
            let after = tx.query_opt(count, &[])?.unwrap().get::<i64>(0)?;
            Ok::<_, Error>((before, after))
        };
        reader.read(body).await.unwrap()
    });
    tokio::task::spawn_blocking(move || has_looked.recv().unwrap()).await.unwrap();
    put(&db, "b", 2).await;
    go_on.send(()).unwrap();
    assert_eq!(reading.await.unwrap(), (1, 1));
    assert_eq!(names(&db).await, ["a", "b"]);
}

/// Two doctors on call; each may leave if the other stays.
async fn write_skew_is_impossible(place: Place) {
    let db = place.with_pairs().await;
    for round in 0..testbed::scale().of(10, 200) {
        db.write(|tx| {
            tx.execute("DELETE FROM pairs", &[])?;
            tx.execute("INSERT INTO pairs (name, number) VALUES ('a', 1), ('b', 1)", &[])
        })
        .await
        .unwrap();
        let leave = |who: &'static str| {
            let db = db.clone();
            tokio::spawn(async move {
                db.write(move |tx| {
                    let there = tx.query_opt("SELECT COUNT(*) FROM pairs WHERE number = 1", &[])?.unwrap();
                    if there.get::<i64>(0)? < 2 {
                        return Ok(0);
                    }
                    std::thread::yield_now();
                    tx.execute("UPDATE pairs SET number = 0 WHERE name = $1", params![who])
                })
                .await
                .unwrap()
            })
        };
        let (a, b) = (leave("a"), leave("b"));
        assert_eq!(a.await.unwrap() + b.await.unwrap(), 1, "round {round}");
    }
}

async fn a_read_cannot_write(place: Place) {
    let db = place.with_pairs().await;
    put(&db, "a", 1).await;
    for sql in ["DELETE FROM pairs", "INSERT INTO pairs (name, number) VALUES ('b', 2)", "CREATE TABLE t (a BIGINT)"] {
        let refused = db.read(move |tx| tx.execute(sql, &[])).await;
        assert!(matches!(refused, Err(Error::ReadOnly)), "{sql}: {refused:?}");
    }
    assert_eq!(names(&db).await, ["a"]);
}

async fn a_read_never_sees_half_of_a_write(place: Place) {
    let db = place.with_pairs().await;
    put(&db, "a", 0).await;
    put(&db, "b", 0).await;
    let writes = Arc::new(AtomicU32::new(0));
    let (writer, counter) = (db.clone(), Arc::clone(&writes));
    let writing = tokio::spawn(async move {
        for _ in 0..testbed::scale().of(50, 1000) {
            writer
                .write(|tx| {
                    tx.execute("UPDATE pairs SET number = number + 1 WHERE name = 'a'", &[])?;
                    tx.execute("UPDATE pairs SET number = number - 1 WHERE name = 'b'", &[])
                })
                .await
                .unwrap();
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut reads = 0;
    while !writing.is_finished() {
        let sum = db.read(|tx| {
            let one = tx.query_opt("SELECT number FROM pairs WHERE name = 'a'", &[])?.unwrap().get::<i64>(0)?;
            let other = tx.query_opt("SELECT number FROM pairs WHERE name = 'b'", &[])?.unwrap().get::<i64>(0)?;
            Ok::<_, Error>(one + other)
        });
        assert_eq!(sum.await.unwrap(), 0);
        reads += 1;
    }
    writing.await.unwrap();
    assert!(reads > 0);
}
