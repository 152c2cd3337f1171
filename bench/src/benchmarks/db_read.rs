//! Point reads. A bare prepared statement is only a walk down a tree in memory; a read through `db` also takes a place
//! among the readers, a thread that may block, and a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use anyhow::{Context, Result};
use db::{Db, Migrations, params};

use crate::measure::{Bench, Comparison, Limit, Question};
use crate::sqlite;

const ROWS: i64 = 10_000;
const SCHEMA: &str = "CREATE TABLE bench_items (id BIGINT PRIMARY KEY, text TEXT NOT NULL)";
const SELECT: &str = "SELECT text FROM bench_items WHERE id = $1";

const ONE: Question = Question {
    ours: "one reader",
    against: "bare SQLite",
    limit: Limit {
        at_least: 0.02,
        why: "two thread hops and a snapshot, against a few microseconds of work in memory",
    },
};

const MANY: Question = Question {
    ours: "16 readers at once",
    against: "bare SQLite",
    limit: Limit { at_least: 0.05, why: "as for one reader, but the hops of one overlap with the work of others" },
};

pub(super) fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let path = bench.path("db-read.db");
    let file = path.clone();
    let db = bench.wait_for(async move {
        let db = Db::open(db::Config::sqlite(file)).await?;
        db.migrate(&[Migrations { set: "bench", steps: &[SCHEMA] }]).await?;
        let fill = |tx: &mut db::Tx<'_>| {
            (0..ROWS).try_for_each(|id| {
                let sql = "INSERT INTO bench_items (id, text) VALUES ($1, $2)";
                tx.execute(sql, params![id, format!("text {id}")]).map(drop)
            })
        };
        db.write(fill).await?;
        Ok::<_, db::Error>(db)
    })?;
    // The same file: both sides walk the same tree.
    let bare = sqlite::open(&path)?;
    let ids = Arc::new(AtomicI64::new(0));
    let ours = (db.clone(), Arc::clone(&ids));
    let readers = |count| bench.together(count, &ours, |(db, ids)| async move { read(&db, next(&ids)).await });
    let floor = || {
        bench.alone(|| {
            let text: String = bare.prepare_cached(SELECT)?.query_row([next(&ids)], |row| row.get(0))?;
            std::hint::black_box(text);
            Ok(())
        })
    };
    let compared = vec![bench.compare(ONE, || readers(1), floor)?, bench.compare(MANY, || readers(16), floor)?];
    bench.wait_for(db.close());
    Ok(compared)
}

async fn read(db: &Db, id: i64) -> Result<()> {
    let row = db.read(move |tx| tx.query_opt(SELECT, params![id])).await?.context("a row is missing")?;
    std::hint::black_box(row.get::<String>(0)?);
    Ok(())
}

/// Walks through all rows in an order that jumps: 7919 is prime.
fn next(ids: &AtomicI64) -> i64 {
    ids.fetch_add(7919, Relaxed).rem_euclid(ROWS)
}
