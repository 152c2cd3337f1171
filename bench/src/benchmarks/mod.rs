//! The benchmarks, one file each. A new one is a file and a line in [`ALL`].

mod access_review;
mod access_token;
mod audit;
mod db_read;
mod db_write;
mod http;

use ::http::header::AUTHORIZATION;
use ::http::{HeaderMap, HeaderValue};
use anyhow::Result;

use crate::measure::{Bench, Comparison};

/// One benchmark: both sides set up, and one or more comparisons of them.
#[derive(Debug)]
pub(crate) struct Benchmark {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Bench) -> Result<Vec<Comparison>>,
}

/// Every benchmark, in the order in which they run: the ones that need no other program first.
pub(crate) const ALL: &[Benchmark] = &[
    Benchmark { name: "db-write", about: "durable writes through db, against bare SQLite", run: db_write::run },
    Benchmark { name: "db-read", about: "point reads through db, against bare SQLite", run: db_read::run },
    Benchmark { name: "audit", about: "acts on disk before their answer, against bare syncs", run: audit::run },
    Benchmark {
        name: "access-token",
        about: "static tokens, against a bare SQLite point read",
        run: access_token::run,
    },
    Benchmark {
        name: "access-review",
        about: "decisions by a real API server: cached, uncached and bare",
        run: access_review::run,
    },
    Benchmark { name: "http", about: "a real `stateward serve`: with and without a token, TLS or not", run: http::run },
];

/// The headers of a request that shows a token.
fn bearer(token: &str) -> Result<HeaderMap> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}
