//! Operation ids: the trace that a write leaves in its own transaction, so that it can be asked whether it took place.

use std::fmt;
use std::time::Duration;

use crate::Error;

/// Names one write. The row with this id commits together with what the write did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OperationId(String);

impl OperationId {
    /// A fresh id (UUID version 7).
    #[expect(clippy::new_without_default, reason = "every one differs: a default would mislead")]
    pub fn new() -> OperationId {
        OperationId(uuid::Uuid::now_v7().to_string())
    }

    /// An id that came from outside, such as a request's idempotency key.
    pub fn parse(text: &str) -> Result<OperationId, Error> {
        // The alphabet has no quote: an id may stand inside the text of a statement.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
        match text.len() {
            1..=128 if text.bytes().all(fits) => Ok(OperationId(text.to_owned())),
            _ => Err(Error::OperationId),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// How `Db::write_once` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It took place now.
    Done(T),
    /// It had taken place before; the closure did not run.
    Already,
}

/// Who needs the row of an operation later, which tells how long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Only the write itself, while it does not know whether it was committed.
    Briefly,
    /// Whoever repeats the operation.
    Long,
}

impl Keep {
    pub(crate) fn state(self) -> &'static str {
        match self {
            Keep::Briefly => "plain",
            Keep::Long => "once",
        }
    }

    /// Longer than any call can take, or than anybody repeats one.
    pub(crate) fn for_(self) -> Duration {
        match self {
            Keep::Briefly => Duration::from_hours(1),
            Keep::Long => Duration::from_hours(24),
        }
    }
}

/// What the crate itself needs in every database. The index is for sweeping old rows.
pub(crate) const SCHEMA: &str = "
CREATE TABLE stateward_operations (id TEXT PRIMARY KEY, at BIGINT NOT NULL, state TEXT NOT NULL);
CREATE INDEX stateward_operations_by_age ON stateward_operations (state, at);
CREATE TABLE stateward_migrations (
    set_name TEXT NOT NULL, number BIGINT NOT NULL, sha256 TEXT NOT NULL, at BIGINT NOT NULL,
    PRIMARY KEY (set_name, number)
);
";

/// Inserts the row of an operation, or nothing when it is there.
pub(crate) const INSERT: &str =
    "INSERT INTO stateward_operations (id, at, state) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";

/// Removes some rows of one state that are older than a time: bounded, so that no write waits long behind it.
pub(crate) const SWEEP: &str = "DELETE FROM stateward_operations WHERE id IN \
    (SELECT id FROM stateward_operations WHERE state = $1 AND at < $2 ORDER BY at LIMIT 2000)";

/// A sweep follows after this many writes; it removes more rows than that, so that the table does not grow.
pub(crate) const WRITES_PER_SWEEP: u32 = 500;

pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// The time before which rows of this kind go.
pub(crate) fn swept_before(keep: Keep) -> i64 {
    now() - i64::try_from(keep.for_().as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_from_outside_hold_nothing_that_sql_could_take_for_its_own() {
        for good in ["a", "0190-aB.c_d:e", &"x".repeat(128)] {
            assert_eq!(OperationId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "it's", "é", "a;b", "a\0b", &"x".repeat(129)] {
            assert!(matches!(OperationId::parse(bad), Err(Error::OperationId)), "{bad:?}");
        }
        let fresh = OperationId::new();
        assert_eq!(OperationId::parse(fresh.as_str()).unwrap(), fresh);
        assert_ne!(OperationId::new(), fresh);
    }
}
