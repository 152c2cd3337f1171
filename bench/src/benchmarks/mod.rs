//! The benchmarks, one file each. A new one is a file and a line in [`ALL`].

mod access_review;
mod access_token;
mod audit;
mod db_read;
mod db_write;
mod explorer_index;
mod http;
mod hub;
mod states_apply;
mod states_cycle;
mod states_size;

use ::http::header::AUTHORIZATION;
use ::http::{HeaderMap, HeaderValue};
use anyhow::Result;

use crate::measure::{Bench, Comparison};
use crate::report::Row;
use crate::states::Store;

/// One benchmark: both sides set up, and one or more comparisons of them.
#[derive(Debug)]
pub(crate) struct Benchmark {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: Run,
}

/// What a benchmark measures.
#[derive(Debug)]
pub(crate) enum Run {
    /// Rates alone.
    Rates(fn(&Bench) -> Result<Vec<Comparison>>),
    /// Something else too.
    Rows(fn(&Bench) -> Result<Vec<Row>>),
}

/// Every benchmark, in the order in which they run: the ones that need no other program first.
pub(crate) const ALL: &[Benchmark] = &[
    Benchmark {
        name: "db-write",
        about: "durable writes through db, against bare SQLite",
        run: Run::Rates(db_write::run),
    },
    Benchmark { name: "db-read", about: "point reads through db, against bare SQLite", run: Run::Rates(db_read::run) },
    Benchmark {
        name: "audit",
        about: "acts on disk before their answer, against bare syncs",
        run: Run::Rates(audit::run),
    },
    Benchmark {
        name: "access-token",
        about: "static tokens, against a bare SQLite point read",
        run: Run::Rates(access_token::run),
    },
    Benchmark {
        name: "explorer-index",
        about: "questions, revocation, ingest, memory and warm start of 10,000, 100,000 and 1,000,000 rows, against goals",
        run: Run::Rows(explorer_index::run),
    },
    Benchmark {
        name: "access-review",
        about: "decisions by a real API server: cached, uncached and bare",
        run: Run::Rates(access_review::run),
    },
    Benchmark {
        name: "http",
        about: "a real `stateward serve`: with and without a token, TLS or not",
        run: Run::Rates(http::run),
    },
    Benchmark {
        name: "hub",
        about: "records over GraphQL with 1,000, 10,000 and 100,000 of them, against fewer and against bare SQLite",
        run: Run::Rows(hub::run),
    },
    Benchmark {
        name: "states-cycle-sqlite",
        about: "LOCK, GET, POST, UNLOCK of 10 kB, against bare SQLite transactions and every --peer",
        run: Run::Rows(|bench| states_cycle::run(bench, Store::Sqlite)),
    },
    Benchmark {
        name: "states-cycle-postgres",
        about: "LOCK, GET, POST, UNLOCK of 10 kB, against bare PostgreSQL transactions and every --peer",
        run: Run::Rows(|bench| states_cycle::run(bench, Store::Postgres)),
    },
    Benchmark {
        name: "states-cycle-configmap",
        about: "LOCK, GET, POST, UNLOCK of 10 kB, against bare GET and PUT of ConfigMaps and every --peer",
        run: Run::Rows(|bench| states_cycle::run(bench, Store::ConfigMap)),
    },
    Benchmark {
        name: "states-cycle-secret",
        about: "LOCK, GET, POST, UNLOCK of 10 kB, against bare GET and PUT of Secrets and every --peer",
        run: Run::Rows(|bench| states_cycle::run(bench, Store::Secret)),
    },
    Benchmark {
        name: "states-cycle-s3",
        about: "LOCK, GET, POST, UNLOCK of 10 kB, against bare conditional puts and every --peer",
        run: Run::Rows(|bench| states_cycle::run(bench, Store::S3)),
    },
    Benchmark {
        name: "states-apply",
        about: "a `tofu apply` without changes, against tofu's own backends",
        run: Run::Rows(states_apply::run),
    },
    Benchmark {
        name: "states-size",
        about: "states of 10, 110 and 300 MB: time, CPU, memory, stored bytes",
        run: Run::Rows(states_size::run),
    },
];

/// The headers of a request that shows a token.
fn bearer(token: &str) -> Result<HeaderMap> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}
