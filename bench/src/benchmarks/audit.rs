//! Acts that must be on disk before their answer. The floor of one commit is a line written and synced by hand, with the
//! commit in a database that a log without a head that follows would need; the floor of many is a sync for each line.

use std::fs::File;
use std::io::Write as _;

use access::audit::{self, Audit, Entry, Outcome, Source, What, Who};
use anyhow::{Context, Result};
use db::Db;

use crate::measure::{Bench, Comparison, Limit, Question};
use crate::sqlite;

const SCHEMA: &str = "CREATE TABLE heads (n BIGINT PRIMARY KEY, mac TEXT NOT NULL)";
const HEAD: &str = "INSERT INTO heads (n, mac) VALUES ($1, $2) ON CONFLICT (n) DO UPDATE SET mac = excluded.mac";
/// As long as a line of the log with these fields.
const LINE: [u8; 360] = [b'x'; 360];

const MANY: Question = Question {
    ours: "64 commits at once",
    against: "write and fdatasync each",
    limit: Limit {
        at_least: 1.5,
        why: "all that wait share one sync and one head: no gain means that they do not any more; in \
              memory, where a sync costs nothing, there is none",
    },
};

const ONE: Question = Question {
    ours: "one commit at a time",
    against: "write, fdatasync, SQLite commit",
    limit: Limit {
        at_least: 0.15,
        why: "the chain, the queue and the operation row come on top; a fast disk shows all of that, a slow none",
    },
};

pub(super) fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let (database, config) = (bench.path("audit.db"), audit::Config::new(bench.path("audit"), bench.path("audit.key")));
    let (db, log) = bench.wait_for(async {
        let db = Db::open(db::Config::sqlite(database)).await?;
        db.migrate(&[audit::MIGRATIONS]).await?;
        sqlite::settle_through(&db).await?;
        // The writer belongs to the runtime that it is opened on.
        let log = Audit::open(config, db.clone()).await?;
        anyhow::Ok((db, log))
    })?;
    let path = bench.path("audit-bare.log");
    let file = File::options().create_new(true).append(true).open(&path);
    let file = file.with_context(|| format!("failed to create {}", path.display()))?;
    let bare = sqlite::open(&bench.path("audit-bare.db"))?;
    bare.execute_batch(SCHEMA)?;
    sqlite::settle(&bare)?;
    let synced_line = || -> Result<()> {
        (&file).write_all(&LINE)?;
        Ok(file.sync_data()?)
    };
    let mac = "0".repeat(64);
    let commits = |count| {
        bench.together(count, &log, |log| async move {
            let _on_record = log.commit(act()).await?;
            Ok(())
        })
    };
    let line_and_head = || {
        synced_line()?;
        sqlite::commit_one(&bare, HEAD, (1, &mac))
    };
    let compared = vec![
        bench.compare(MANY, || commits(64), || bench.alone(synced_line))?,
        bench.compare(ONE, || commits(1), || bench.alone(line_and_head))?,
    ];
    bench.wait_for(async {
        log.close().await;
        db.close().await;
    });
    Ok(compared)
}

fn act() -> Entry {
    let who = Who::new("jane", Source::Token).groups(&["dev", "system:authenticated"]);
    Entry::act(who, What::resource("update", "stateward.dev", "states"), Outcome::Done)
        .namespace("team")
        .name("network")
}
