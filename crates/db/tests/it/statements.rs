//! What a single statement does is the same on both engines.

use db::{Error, Value, Violation, params};

use crate::place::{Place, names, number, on_both, put};

on_both!(
    placeholders_are_bound_by_number_in_any_order_and_repeated,
    values_come_back_as_they_went_in,
    counts_sums_and_existence_are_integers,
    upserts_and_returning_work,
    violated_constraints_are_told_apart_by_name,
    wrong_statements_are_refused_and_named,
    a_transaction_cannot_be_ended_from_inside,
    no_error_shows_a_value,
    a_look_up_finds_one_row_or_none_and_refuses_more,
    of_many_swaps_of_one_row_each_value_is_seen_by_one,
    a_note_changes_what_a_swap_would_and_is_seen_at_once,
);

async fn placeholders_are_bound_by_number_in_any_order_and_repeated(place: Place) {
    let db = place.with_pairs().await;
    db.write(|tx| {
        tx.execute("INSERT INTO pairs (number, name, data) VALUES ($2, $1, $3)", params!["a", 7, b"x".as_slice()])?;
        tx.execute("INSERT INTO pairs (name, number) VALUES ($1, $2), ($3, $2)", params!["b", 8, "c"])?;
        let eleven = (1..=11).map(Value::from).collect::<Vec<_>>();
        let sum = tx.query_opt(
            "SELECT CAST($11 AS BIGINT) - CAST($1 AS BIGINT) * 2 - CAST($2 AS BIGINT) - CAST($3 AS BIGINT) \
             - CAST($4 AS BIGINT) - CAST($5 AS BIGINT) - CAST($6 AS BIGINT) - CAST($7 AS BIGINT) - CAST($8 AS BIGINT) \
             - CAST($9 AS BIGINT) - CAST($10 AS BIGINT) - CAST($1 AS BIGINT)",
            &eleven,
        )?;
        assert_eq!(sum.unwrap().get::<i64>(0)?, 11 - 3 - 54);
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
    assert_eq!((number(&db, "a").await, number(&db, "b").await, number(&db, "c").await), (Some(7), Some(8), Some(8)));
}

async fn values_come_back_as_they_went_in(place: Place) {
    let db = place.open().await;
    db.migrate(&[db::Migrations { set: "v", steps: &["CREATE TABLE v (i BIGINT, t TEXT, b BYTEA)"] }]).await.unwrap();
    let every_byte = (0..=255).collect::<Vec<u8>>();
    let rows = [
        (Some(i64::MIN), Some("çé 漢字 🙂 '\"\\ $1".to_owned()), Some(every_byte)),
        (Some(i64::MAX), Some(String::new()), Some(Vec::new())),
        (None, None, None),
    ];
    for row in rows {
        let (i, t, b) = row.clone();
        let back = db.write(move |tx| {
            tx.execute("DELETE FROM v", &[])?;
            tx.execute("INSERT INTO v (i, t, b) VALUES ($1, $2, $3)", params![i, t.clone(), b.clone()])?;
            let row = tx.query_opt("SELECT i, t, b FROM v", &[])?.unwrap();
            Ok::<_, Error>((row.get::<Option<i64>>(0)?, row.get::<Option<String>>(1)?, row.get::<Option<Vec<u8>>>(2)?))
        });
        assert_eq!(back.await.unwrap(), row);
    }
}

async fn counts_sums_and_existence_are_integers(place: Place) {
    let db = place.with_pairs().await;
    put(&db, "a", 2).await;
    put(&db, "b", 3).await;
    let row = db.read(|tx| {
        let sql = "SELECT COUNT(*), CAST(SUM(number) AS BIGINT), EXISTS(SELECT 1 FROM pairs WHERE name = $1), \
                   MAX(number) FROM pairs WHERE number < $2";
        tx.query_opt(sql, params!["a", 100])
    });
    let row = row.await.unwrap().unwrap();
    let figures = (0..4).map(|index| row.get::<i64>(index).unwrap()).collect::<Vec<_>>();
    assert_eq!(figures, [2, 5, 1, 3]);
}

async fn upserts_and_returning_work(place: Place) {
    let db = place.with_pairs().await;
    for expected in [1, 11, 21] {
        let row = db.write(|tx| {
            tx.query_opt(
                "INSERT INTO pairs (name, number) VALUES ($1, 1) \
                 ON CONFLICT (name) DO UPDATE SET number = pairs.number + $2 RETURNING number",
                params!["a", 10],
            )
        });
        assert_eq!(row.await.unwrap().unwrap().get::<i64>(0).unwrap(), expected);
    }
    let changed = db
        .write(|tx| tx.execute("INSERT INTO pairs (name, number) VALUES ('a', 1) ON CONFLICT (name) DO NOTHING", &[]));
    assert_eq!(changed.await.unwrap(), 0);
}

const CHILD: &str = "CREATE TABLE child (parent TEXT NOT NULL REFERENCES pairs (name))";

async fn violated_constraints_are_told_apart_by_name(place: Place) {
    let db = place.with_pairs().await;
    db.migrate(&[db::Migrations { set: "child", steps: &[CHILD] }]).await.unwrap();
    put(&db, "a", 1).await;
    let table = [
        ("INSERT INTO pairs (name, number) VALUES ('a', 1)", Violation::Unique, "pairs"),
        ("INSERT INTO pairs (name, number) VALUES ('b', -2000000)", Violation::Check, "number"),
        ("INSERT INTO pairs (name, number) VALUES ('b', NULL)", Violation::NotNull, "pairs.number"),
        ("INSERT INTO child (parent) VALUES ('nobody')", Violation::ForeignKey, ""),
    ];
    for (sql, expected, text) in table {
        match db.write(move |tx| tx.execute(sql, &[])).await.unwrap_err() {
            Error::Constraint { violation, name } => {
                assert_eq!(violation, expected);
                assert!(name.contains(text), "{name}");
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(names(&db).await, ["a"]);
}

async fn wrong_statements_are_refused_and_named(place: Place) {
    let db = place.with_pairs().await;
    let table: [(&str, Vec<Value>, &str); 4] = [
        ("SELECT name FROM nowhere", vec![], "nowhere"),
        ("SELEKT 1", vec![], "syntax"),
        ("SELECT name FROM pairs WHERE name = $1", vec![], "was given 0 parameters"),
        ("SELECT name FROM pairs WHERE name = $1", params!["a", "b"].to_vec(), "was given 2 parameters"),
    ];
    for (sql, params, text) in table {
        let error = db.read(move |tx| tx.query(sql, &params)).await.unwrap_err();
        assert!(matches!(error, Error::Sql { .. }), "{sql}: {error:?}");
        assert!(error.to_string().contains(text), "{sql}: {error}");
    }
    let select = "SELECT name FROM pairs WHERE number = $1 AND name = $2";
    let error = db.read(move |tx| tx.query(select, params![1, "a\0b"])).await.unwrap_err();
    assert!(matches!(error, Error::Nul { parameter: 2 }) && error.to_string().contains("$2"), "{error:?}");
    put(&db, "a", 1).await;
    put(&db, "b", 1).await;
    let error = db.read(|tx| tx.query_opt("SELECT name FROM pairs", &[])).await.unwrap_err();
    assert!(error.to_string().contains("2 rows"), "{error}");
    let error = db.read(|tx| tx.query_opt("SELECT MAX(name) AS highest FROM pairs", &[])?.unwrap().get::<i64>(0));
    assert_eq!(error.await.unwrap_err().to_string(), "column 'highest' holds text, not an integer");
}

async fn a_transaction_cannot_be_ended_from_inside(place: Place) {
    let db = place.with_pairs().await;
    for sql in ["COMMIT", "  rollback", "-- x\n/**/ end", "BEGIN", "SAVEPOINT x", "set x = 1", "PRAGMA query_only = 0"]
    {
        let refused = db.write(move |tx| {
            tx.execute("INSERT INTO pairs (name, number) VALUES ('a', 1)", &[])?;
            tx.execute(sql, &[])
        });
        let refused = refused.await;
        assert!(matches!(refused, Err(Error::Sql { .. })), "{sql}: {refused:?}");
        assert!(names(&db).await.is_empty(), "{sql}");
    }
}

async fn no_error_shows_a_value(place: Place) {
    let db = place.with_pairs().await;
    put(&db, "canary", 4_242_424_242).await;
    let table: [(&str, Vec<Value>); 5] = [
        ("INSERT INTO pairs (name, number) VALUES ($1, $2)", params!["canary", 4_242_424_242].to_vec()),
        ("INSERT INTO pairs (name, number) VALUES ($1, $2)", params!["canary2", -4_242_424_242].to_vec()),
        ("INSERT INTO pairs (name, number) VALUES ($1, $2)", params!["canary\0", 4_242_424_242].to_vec()),
        ("INSERT INTO pairs (name, number) VALUES ($1, $2)", params!["canary3", None::<i64>].to_vec()),
        ("SELECT canary FROM pairs WHERE name = $2", params!["canary"].to_vec()),
    ];
    for (sql, params) in table {
        let error = db.write(move |tx| tx.query(sql, &params)).await.unwrap_err();
        for shown in [error.to_string(), format!("{error:?}")] {
            let hidden = !shown.contains("4242424242") && (sql.contains("SELECT canary") || !shown.contains("canary"));
            assert!(hidden, "{shown}");
        }
    }
    if let Place::Postgres(_) = place {
        let cast = db.read(|tx| tx.query("SELECT CAST(CAST($1 AS TEXT) AS BIGINT)", params!["canary"])).await;
        assert_eq!(cast.unwrap_err().to_string(), "failed to run a statement: SQLSTATE 22P02");
    }
}

async fn a_look_up_finds_one_row_or_none_and_refuses_more(place: Place) {
    let db = place.with_pairs().await;
    for name in ["a", "b"] {
        put(&db, name, 7).await;
    }
    let found = db.look_up("SELECT number FROM pairs WHERE name = $1", params!["a"]).await.unwrap();
    assert_eq!(found.unwrap().get::<i64>(0).unwrap(), 7);
    assert!(db.look_up("SELECT number FROM pairs WHERE name = $1", params!["c"]).await.unwrap().is_none());
    assert!(matches!(db.look_up("SELECT name FROM pairs", &[]).await, Err(Error::Sql { .. })));
    for wrong in ["COMMIT", "SELECT nothing FROM nowhere"] {
        assert!(matches!(db.look_up(wrong, &[]).await, Err(Error::Sql { .. })), "{wrong}");
    }
    // It sees what was written before it, and readers do not run out.
    for round in 0..50 {
        put(&db, &format!("n{round}"), round).await;
        let name = format!("n{round}");
        let row = db.look_up("SELECT number FROM pairs WHERE name = $1", params![&name]).await.unwrap();
        assert_eq!(row.unwrap().get::<i64>(0).unwrap(), round);
    }
}

const SWAP: &str = "UPDATE pairs SET number = $2 WHERE name = 'counter' AND number = $1";

async fn of_many_swaps_of_one_row_each_value_is_seen_by_one(place: Place) {
    let db = place.with_pairs().await;
    put(&db, "counter", 0).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _task in 0..8 {
        let db = db.clone();
        tasks.spawn(async move {
            let mut won = 0;
            while won < 10 {
                let seen = number(&db, "counter").await.unwrap();
                won += i64::try_from(db.swap(SWAP, vec![seen.into(), (seen + 1).into()]).await.unwrap()).unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(number(&db, "counter").await, Some(80));
    let insert = "INSERT INTO pairs (name, number) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    assert_eq!(db.swap(insert, vec!["new".into(), 1.into()]).await.unwrap(), 1);
    assert_eq!(db.swap(insert, vec!["new".into(), 2.into()]).await.unwrap(), 0);
    assert!(matches!(db.swap("BEGIN", Vec::new()).await, Err(Error::Sql { .. })));
    let twice = db.swap("INSERT INTO pairs (name, number) VALUES ($1, 3)", vec!["new".into()]).await;
    assert!(matches!(twice, Err(Error::Constraint { violation: Violation::Unique, .. })), "{twice:?}");
    assert_eq!(number(&db, "new").await, Some(1));
}

async fn a_note_changes_what_a_swap_would_and_is_seen_at_once(place: Place) {
    let db = place.with_pairs().await;
    put(&db, "counter", 0).await;
    for seen in 0..20 {
        assert_eq!(db.note(SWAP, vec![seen.into(), (seen + 1).into()]).await.unwrap(), 1);
        assert_eq!(number(&db, "counter").await, Some(seen + 1));
        assert_eq!(db.note(SWAP, vec![seen.into(), 0.into()]).await.unwrap(), 0);
        put(&db, &format!("between-{seen}"), seen).await;
    }
    assert!(matches!(db.note("COMMIT", Vec::new()).await, Err(Error::Sql { .. })));
    let twice = db.note("INSERT INTO pairs (name, number) VALUES ('counter', $1)", vec![3.into()]).await;
    assert!(matches!(twice, Err(Error::Constraint { violation: Violation::Unique, .. })), "{twice:?}");
    let (db, again) = (place.open().await, db);
    assert_eq!(number(&db, "counter").await, Some(20), "also from another connection");
    again.close().await;
    assert_eq!(number(&place.open().await, "counter").await, Some(20), "and after the end");
}
