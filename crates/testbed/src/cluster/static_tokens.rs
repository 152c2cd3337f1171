//! Users of the API server's token file.
//!
//! It reads that file once, at its start, so that names and groups cannot be chosen by a test: there is a pool of
//! users instead, each with a group of its own and one in common, and every test takes the next.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many there are in each cluster.
const POOL: usize = 64;
/// The group that all of them are in.
pub const STATIC_TOKEN_GROUP: &str = "static-token-users";

/// A user who proves herself by a static token.
#[derive(Clone)]
pub struct StaticTokenUser {
    pub name: String,
    /// A group that nobody else is in, and [`STATIC_TOKEN_GROUP`].
    pub groups: Vec<String>,
    pub token: String,
}

/// Hands out the users of one cluster.
#[derive(Debug, Default)]
pub(super) struct Pool(AtomicUsize);

impl Pool {
    pub(super) fn take(&self) -> StaticTokenUser {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(number < POOL, "all {POOL} static token users are taken: raise POOL");
        user(number)
    }
}

/// The token file: `token,user,uid,"group,group"` per line.
pub(super) fn file() -> String {
    let line = |number| {
        let StaticTokenUser { name, groups, token } = user(number);
        format!("{token},{name},uid-{name},\"{}\"\n", groups.join(","))
    };
    (0..POOL).map(line).collect()
}

fn user(number: usize) -> StaticTokenUser {
    StaticTokenUser {
        name: format!("static-token-user-{number}"),
        groups: vec![format!("static-token-group-{number}"), STATIC_TOKEN_GROUP.to_owned()],
        token: format!("static-token-of-user-{number}"),
    }
}

impl std::fmt::Debug for StaticTokenUser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StaticTokenUser")
            .field("name", &self.name)
            .field("groups", &self.groups)
            .finish_non_exhaustive()
    }
}
