//! What can go wrong, told apart by what the caller can do about it.
//!
//! The texts go to logs and operators: they name files, tables, constraints and SQLSTATEs, never the value of a
//! parameter and never the URL. A server's own words are passed on only where they speak about the statement and not
//! about the data (see `postgres::faults`).

use std::path::PathBuf;

use crate::{Engine, OperationId};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings or the database itself are wrong: trying again does not help.
    #[error("failed to open the {engine} database: {reason}")]
    Open { engine: Engine, reason: String },

    /// The URL rules TLS out while a CA says that it is wanted: one of both is a mistake.
    #[error("failed to open the PostgreSQL database: the URL says sslmode=disable while a CA file is given")]
    TlsOff,

    /// It cannot be reached, or is too busy, for now: answer 503 and try again later. Nothing was written.
    #[error("the database is not available: {reason}")]
    Unavailable { reason: String },

    /// Other transactions kept getting in the way. Nothing was written.
    #[error("gave up after {attempts} attempts that conflicted with other transactions")]
    Conflict { attempts: u32 },

    /// A rule of the schema forbids the change. Nothing was written.
    #[error("{violation} constraint violated: {name}")]
    Constraint { violation: Violation, name: String },

    /// The disk is full. Nothing was written.
    #[error("the disk of the database is full")]
    Full,

    /// A statement tried to write inside a read.
    #[error("a read tried to write")]
    ReadOnly,

    /// An earlier statement of the transaction failed, so that nothing of it is kept.
    #[error("an earlier statement of this transaction failed; nothing was written")]
    Aborted,

    /// The closure panicked. Nothing was written.
    #[error("the transaction's closure panicked; nothing was written")]
    Panicked,

    /// The statement is wrong.
    #[error("failed to run a statement: {reason}")]
    Sql { reason: String },

    /// A text for the statement holds a NUL, which no text of a database can: that is for whoever wrote it to change.
    #[error("the text of ${parameter} holds a NUL byte")]
    Nul { parameter: usize },

    /// A column holds something else than was asked for.
    #[error("column '{column}' holds {found}, not {wanted}")]
    Column { column: String, found: &'static str, wanted: &'static str },

    /// The schema cannot be brought to what this program needs.
    #[error("failed to migrate '{set}', step {number}: {reason}")]
    Migration { set: String, number: i64, reason: String },

    /// No back-up was made.
    #[error("failed to back up to {to}: {reason}", to = to.display())]
    Backup { to: PathBuf, reason: String },

    /// COMMIT was sent, its answer was lost, and asking about it was impossible too. `Db::took_place` tells, once
    /// the database is back.
    #[error("it is not known whether operation {operation} took place: the database went away during COMMIT")]
    UnknownOutcome { operation: OperationId },

    /// The text is not an operation id.
    #[error("an operation id is 1 to 128 letters, digits, '.', '_', ':' or '-'")]
    OperationId,

    /// `Db::close` was called.
    #[error("the database is closed")]
    Closed,
}

/// Which rule of the schema was violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    Unique,
    ForeignKey,
    NotNull,
    Check,
    Other,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Violation::Unique => "unique",
            Violation::ForeignKey => "foreign key",
            Violation::NotNull => "not null",
            Violation::Check => "check",
            Violation::Other => "integrity",
        })
    }
}
