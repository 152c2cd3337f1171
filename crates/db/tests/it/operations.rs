//! The same operation never takes place twice, and it can be asked whether it did.

use db::{Error, OperationId, Outcome};

use crate::place::{Place, names, number, on_both, put};

on_both!(
    an_operation_takes_place_once,
    an_operation_that_failed_may_be_tried_again,
    of_many_at_once_one_takes_place,
    old_operations_are_swept,
);

async fn an_operation_takes_place_once(place: Place) {
    let db = place.with_pairs().await;
    let operation = OperationId::parse("request:42").unwrap();
    assert!(!db.took_place(&operation).await.unwrap());
    let insert = |tx: &mut db::Tx<'_>| tx.execute("INSERT INTO pairs (name, number) VALUES ('a', 1)", &[]);
    assert_eq!(db.write_once::<_, Error, _>(&operation, insert).await.unwrap(), Outcome::Done(1));
    assert_eq!(db.write_once::<_, Error, _>(&operation, insert).await.unwrap(), Outcome::Already);
    assert!(db.took_place(&operation).await.unwrap());
    let again = place.open().await;
    assert_eq!(again.write_once::<_, Error, _>(&operation, insert).await.unwrap(), Outcome::Already);
    assert!(!db.took_place(&OperationId::new()).await.unwrap());
    assert_eq!(names(&db).await, ["a"]);
}

async fn an_operation_that_failed_may_be_tried_again(place: Place) {
    let db = place.with_pairs().await;
    let operation = OperationId::new();
    let refused = db.write_once(&operation, |tx| tx.execute("INSERT INTO nowhere (a) VALUES (1)", &[])).await;
    assert!(matches!(refused, Err(Error::Sql { .. })), "{refused:?}");
    assert!(!db.took_place(&operation).await.unwrap());
    let done = db.write_once(&operation, |tx| tx.execute("INSERT INTO pairs (name, number) VALUES ('a', 1)", &[]));
    assert_eq!(done.await.unwrap(), Outcome::Done(1));
}

async fn of_many_at_once_one_takes_place(place: Place) {
    let one = place.with_pairs().await;
    let other = place.open().await;
    put(&one, "a", 0).await;
    let operation = OperationId::new();
    let tasks = (0..20).map(|index| {
        let (db, operation) = (if index % 2 == 0 { one.clone() } else { other.clone() }, operation.clone());
        tokio::spawn(async move {
            db.write_once(&operation, |tx| tx.execute("UPDATE pairs SET number = number + 1 WHERE name = 'a'", &[]))
                .await
        })
    });
    let mut done = 0;
    for task in tasks.collect::<Vec<_>>() {
        if let Outcome::Done(_) = task.await.unwrap().unwrap() {
            done += 1;
        }
    }
    assert_eq!((done, number(&one, "a").await), (1, Some(1)));
}

async fn old_operations_are_swept(place: Place) {
    let db = place.with_pairs().await;
    db.write(|tx| {
        for index in 0..50 {
            let sql = format!(
                "INSERT INTO stateward_operations (id, at, state) VALUES ('p{index}', 0, 'plain'), ('o{index}', 0, 'once')"
            );
            tx.execute(&sql, &[])?;
        }
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
    let kept = OperationId::new();
    db.write_once(&kept, |_| Ok::<_, Error>(())).await.unwrap();
    for _ in 0..600 {
        db.write(|_| Ok::<_, Error>(())).await.unwrap();
    }
    let give_up = std::time::Instant::now() + std::time::Duration::from_mins(1);
    loop {
        let old = db.read(|tx| tx.query("SELECT id FROM stateward_operations WHERE at = 0", &[])).await.unwrap();
        if old.is_empty() {
            break;
        }
        assert!(std::time::Instant::now() < give_up, "{} old rows are still there", old.len());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(db.took_place(&kept).await.unwrap());
}
