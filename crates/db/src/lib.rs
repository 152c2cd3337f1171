//! The same SQL on embedded SQLite and on PostgreSQL, with migrations.
//!
//! The one door is [`Db`]: open, migrate, read, write. A transaction is a plain closure over a [`Tx`], never a future,
//! so that nobody can wait for the network inside one. It may run more than once: it is repeated when the database
//! asks for that, and only its last run counts. No value of a parameter and no password may ever appear in an
//! [`Error`], and no type of an engine may leave this crate.
//!
//! # The SQL that both engines understand
//! - Placeholders are `$1`, `$2`, ... in any order, repeated at will. A parameter that stands alone in a select list
//!   needs a type: `CAST($1 AS BIGINT)`.
//! - Columns are `BIGINT`, `TEXT` or `BYTEA`. Times are `BIGINT` milliseconds, booleans `BIGINT` 0 or 1. SQLite converts
//!   a value of another kind where PostgreSQL refuses it: bind what the column is.
//! - `INSERT ... ON CONFLICT ... DO UPDATE|NOTHING` and `RETURNING` (through [`Tx::query`]) are fine; `COUNT(*)` is a
//!   `BIGINT`, but a sum is `CAST(SUM(x) AS BIGINT)`. Text holds no NUL byte. Order is bytewise only under
//!   `COLLATE "C"`-like databases: give an `ORDER BY` on text no meaning beyond paging.
//! - A statement that fails ends the transaction: all later ones answer [`Error::Aborted`], and nothing is written,
//!   whatever the closure returns. Ask with `ON CONFLICT DO NOTHING` instead of catching a violated constraint.
//! - `BEGIN`, `COMMIT`, `SAVEPOINT`, `PRAGMA`, `SET` and their like belong to this crate and are refused.

mod config;
mod database;
mod error;
mod job;
mod migrate;
mod operation;
mod postgres;
mod sqlite;
mod tx;
mod value;

#[doc(hidden)]
pub mod failpoints;

pub use config::{Config, PostgresConfig, SqliteConfig};
pub use database::{Backup, Db, Engine};
pub use error::{Error, Violation};
#[doc(hidden)]
pub use failpoints::Step;
pub use migrate::Migrations;
pub use operation::{OperationId, Outcome};
pub use tx::Tx;
pub use value::{FromValue, Row, Value};

#[cfg(feature = "testing")]
pub use config::Synchronous;
