//! The transaction that a closure gets: statements in, rows out, the same on both engines.
//!
//! It keeps in mind whether a statement failed, and why, because the closure may hide that; the engines decide by it
//! whether to repeat, and never commit after a failure.

use std::fmt;

use crate::{Engine, Error, Row, Value, postgres, sqlite};

/// An open transaction.
pub struct Tx<'a> {
    connection: Connection<'a>,
    failure: Option<Failure>,
}

pub(crate) enum Connection<'a> {
    Sqlite(&'a rusqlite::Connection),
    Postgres(&'a postgres::Session),
}

/// A failed statement: what the closure is told, and what the engine makes of it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    pub(crate) failure: Failure,
}

/// What a failed statement means for the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Another transaction was in the way: run the closure again.
    Conflict,
    /// The connection is of no use any more: run the closure again on another one.
    Lost(String),
    /// It would fail again.
    Final,
}

impl Fault {
    pub(crate) fn last(error: Error) -> Fault {
        Fault { error, failure: Failure::Final }
    }
}

impl<'a> Tx<'a> {
    pub(crate) fn new(connection: Connection<'a>) -> Tx<'a> {
        Tx { connection, failure: None }
    }

    /// Runs a statement that returns no rows; tells how many rows it changed.
    pub fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64, Error> {
        self.guard(sql, params)?;
        let done = match &self.connection {
            Connection::Sqlite(connection) => sqlite::statement::execute(connection, sql, params),
            Connection::Postgres(session) => session.execute(sql, params),
        };
        self.note(done)
    }

    /// Runs a statement and returns its rows.
    pub fn query(&mut self, sql: &str, params: &[Value]) -> Result<Vec<Row>, Error> {
        self.guard(sql, params)?;
        let done = match &self.connection {
            Connection::Sqlite(connection) => sqlite::statement::query(connection, sql, params),
            Connection::Postgres(session) => session.query(sql, params),
        };
        self.note(done)
    }

    /// The only row, if there is one; more than one is an error.
    pub fn query_opt(&mut self, sql: &str, params: &[Value]) -> Result<Option<Row>, Error> {
        let mut rows = self.query(sql, params)?;
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            more => {
                let reason = format!("{more} rows where at most one was expected");
                self.note(Err(Fault::last(Error::Sql { reason })))
            }
        }
    }

    /// Runs several statements without parameters: a step of a migration.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), Error> {
        if self.failure.is_some() {
            return Err(Error::Aborted);
        }
        let done = match &self.connection {
            Connection::Sqlite(connection) => sqlite::statement::batch(connection, sql),
            Connection::Postgres(session) => session.batch(sql),
        };
        self.note(done)
    }

    pub(crate) fn engine(&self) -> Engine {
        match self.connection {
            Connection::Sqlite(_) => Engine::Sqlite,
            Connection::Postgres(_) => Engine::Postgres,
        }
    }

    /// The first failure of a statement, if any.
    pub(crate) fn failure(self) -> Option<Failure> {
        self.failure
    }

    fn guard(&mut self, sql: &str, params: &[Value]) -> Result<(), Error> {
        if self.failure.is_some() {
            return Err(Error::Aborted);
        }
        check(sql, params).or_else(|error| self.note(Err(Fault::last(error))))
    }

    fn note<T>(&mut self, done: Result<T, Fault>) -> Result<T, Error> {
        done.map_err(|fault| {
            self.failure = Some(fault.failure);
            fault.error
        })
    }
}

impl fmt::Debug for Tx<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tx").field("engine", &self.engine()).field("failure", &self.failure).finish()
    }
}

/// Refuses statements that would take the transaction out of this crate's hands, and texts that PostgreSQL cannot hold.
pub(crate) fn check(sql: &str, params: &[Value]) -> Result<(), Error> {
    let word = first_word(sql);
    if RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved)) {
        let reason = format!("{} is not for transactions' closures", word.to_ascii_uppercase());
        return Err(Error::Sql { reason });
    }
    match params.iter().position(|value| matches!(value, Value::Text(text) if text.contains('\0'))) {
        Some(index) => Err(Error::Nul { parameter: index + 1 }),
        None => Ok(()),
    }
}

/// The keyword that a statement begins with, after white space and comments.
fn first_word(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    loop {
        let comment = match rest {
            _ if rest.starts_with("--") => rest.split_once('\n'),
            _ if rest.starts_with("/*") => rest.split_once("*/"),
            _ if rest.starts_with(';') => Some(("", &rest[1..])),
            _ => break,
        };
        rest = comment.map_or("", |(_, after)| after.trim_start());
    }
    rest.split(|character: char| !character.is_ascii_alphabetic()).next().unwrap_or_default()
}

/// First words of statements that would take the transaction or the connection out of this crate's hands.
const RESERVED: &[&str] = &[
    "abort",
    "analyze",
    "attach",
    "begin",
    "commit",
    "detach",
    "discard",
    "end",
    "pragma",
    "prepare",
    "release",
    "reset",
    "rollback",
    "savepoint",
    "set",
    "start",
    "vacuum",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_do_not_hide_the_first_word() {
        let table = [
            ("COMMIT", "COMMIT"),
            ("  end;", "end"),
            ("-- a\n -- b\nrollback", "rollback"),
            ("/* a */ /**/begin", "begin"),
            (";; set x = 1", "set"),
            ("-- nothing else", ""),
            ("/* open", ""),
            ("SELECT 1 -- commit", "SELECT"),
            ("", ""),
        ];
        for (sql, word) in table {
            assert_eq!(first_word(sql), word, "{sql}");
        }
    }
}
