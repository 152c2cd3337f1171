//! Durable writes. Both sides end every write with a sync; what `db` adds is a queue to its writer thread and the row
//! of the operation id, what it saves is the sync that writers at the same time share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use anyhow::Result;
use db::{Db, Migrations, params};

use crate::measure::{Bench, Comparison, Limit, Question};
use crate::sqlite;

const SCHEMA: &str = "CREATE TABLE bench_items (id BIGINT PRIMARY KEY, text TEXT NOT NULL)";
const INSERT: &str = "INSERT INTO bench_items (id, text) VALUES ($1, $2)";
const TEXT: &str = "a text of about the size of a small record, so that a page holds some tens of such rows";

const ONE: Question = Question {
    ours: "one writer",
    against: "bare SQLite",
    limit: Limit {
        at_least: 0.2,
        why: "a write is two rows and two thread hops more than the bare one; a fast disk shows all of that, a slow none",
    },
};

const MANY: Question = Question {
    ours: "32 writers at once",
    against: "bare SQLite",
    limit: Limit {
        at_least: 1.5,
        why: "writers at the same time share a sync: no gain means that they do not any more; the faster the disk \
              syncs, the smaller it is, down to 1.2 where a sync costs nothing",
    },
};

pub(super) fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let path = bench.path("db-write.db");
    let db = bench.wait_for(async {
        let db = Db::open(db::Config::sqlite(path)).await?;
        db.migrate(&[Migrations { set: "bench", steps: &[SCHEMA] }]).await?;
        sqlite::settle_through(&db).await?;
        anyhow::Ok(db)
    })?;
    let bare = sqlite::open(&bench.path("db-write-bare.db"))?;
    bare.execute_batch(SCHEMA)?;
    sqlite::settle(&bare)?;
    let ids = Arc::new(AtomicI64::new(0));
    let ours = (db.clone(), Arc::clone(&ids));
    let writers = |count| bench.together(count, &ours, |(db, ids)| async move { write(&db, &ids).await });
    let floor = || bench.alone(|| sqlite::commit_one(&bare, INSERT, (ids.fetch_add(1, Relaxed), TEXT)));
    let compared = vec![bench.compare(ONE, || writers(1), floor)?, bench.compare(MANY, || writers(32), floor)?];
    bench.wait_for(db.close());
    Ok(compared)
}

async fn write(db: &Db, ids: &AtomicI64) -> Result<()> {
    let id = ids.fetch_add(1, Relaxed);
    Ok(db.write(move |tx| tx.execute(INSERT, params![id, TEXT]).map(drop)).await?)
}
