//! Migrations: numbered steps of SQL, each in a transaction of its own together with the row that says so.
//!
//! A process that is killed leaves either all of a step or nothing of it. Two processes may migrate at once: each step
//! is taken under a lock, after looking at what is there. Steps that were applied must never be edited; that is found
//! by their hash.

use crate::operation::{SCHEMA, now};
use crate::{Engine, Error, Row, Step, Tx, params};

/// The steps of one part of the program, in order. Append only.
#[derive(Clone, Copy, Debug)]
pub struct Migrations {
    /// Names the part, for example `access`.
    pub set: &'static str,
    /// Each may hold several statements.
    pub steps: &'static [&'static str],
}

/// Whether more steps may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Applied,
    UpToDate,
}

/// Creates this crate's own tables where they are missing.
pub(crate) fn bootstrap(tx: &mut Tx<'_>) -> Result<(), Error> {
    // Looked up first, so that a role without the right to create can use what an administrator has created.
    if tx.query_opt(exists(tx.engine()), params!["stateward_migrations"])?.is_some() {
        return Ok(());
    }
    lock(tx)?;
    match tx.query_opt(exists(tx.engine()), params!["stateward_migrations"])? {
        Some(_) => Ok(()),
        None => tx.batch(SCHEMA),
    }
}

/// Applies the first step of `migrations` that is not there yet.
pub(crate) fn advance(tx: &mut Tx<'_>, migrations: Migrations) -> Result<Progress, Error> {
    lock(tx)?;
    let applied = tx.query(
        "SELECT number, sha256 FROM stateward_migrations WHERE set_name = $1 ORDER BY number",
        params![migrations.set],
    )?;
    let applied = applied.iter().map(applied_step).collect::<Result<Vec<_>, _>>()?;
    let Some((number, sql)) = next(migrations, &applied)? else {
        return Ok(Progress::UpToDate);
    };
    tx.batch(sql).map_err(|error| failed(migrations.set, number, error.to_string()))?;
    tx.execute(
        "INSERT INTO stateward_migrations (set_name, number, sha256, at) VALUES ($1, $2, $3, $4)",
        params![migrations.set, number, sha256(sql), now()],
    )?;
    Step::MigrationBeforeCommit.hit();
    Ok(Progress::Applied)
}

/// The step to apply next, after checking those that were applied.
fn next(migrations: Migrations, applied: &[(i64, String)]) -> Result<Option<(i64, &'static str)>, Error> {
    let mut steps = (1..).zip(migrations.steps.iter().copied());
    for (number, hash) in applied {
        match steps.next() {
            None => {
                let reason = "the database was migrated by a newer version of this program: run that one";
                return Err(failed(migrations.set, *number, reason.to_owned()));
            }
            Some((expected, _)) if expected != *number => {
                let reason = format!("the database has no record of it, but of step {number}");
                return Err(failed(migrations.set, expected, reason));
            }
            Some((_, sql)) if sha256(sql) != *hash => {
                let reason = "it was applied with another text than this program has: steps must not be edited";
                return Err(failed(migrations.set, *number, reason.to_owned()));
            }
            Some(_) => {}
        }
    }
    Ok(steps.next())
}

fn applied_step(row: &Row) -> Result<(i64, String), Error> {
    Ok((row.get(0)?, row.get(1)?))
}

fn failed(set: &str, number: i64, reason: String) -> Error {
    Error::Migration { set: set.to_owned(), number, reason }
}

/// Held until the transaction ends. SQLite has its one writer.
fn lock(tx: &mut Tx<'_>) -> Result<(), Error> {
    match tx.engine() {
        Engine::Sqlite => Ok(()),
        // The number means nothing; every process of this program uses the same one.
        Engine::Postgres => tx.batch("SELECT pg_advisory_xact_lock(7162431150834219)"),
    }
}

/// Finds a table by its name.
pub(crate) fn exists(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1",
        // A scan, because `to_regclass` may answer from before the lock was waited for.
        Engine::Postgres => {
            "SELECT 1 FROM pg_tables WHERE CAST(tablename AS TEXT) = $1 AND schemaname = ANY(current_schemas(false)) LIMIT 1"
        }
    }
}

fn sha256(sql: &str) -> String {
    use std::fmt::Write;
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, sql.as_bytes());
    digest.as_ref().iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: Migrations = Migrations { set: "example", steps: &["one", "two"] };

    #[test]
    fn the_next_step_follows_from_what_was_applied() {
        let one = (1, sha256("one"));
        let two = (2, sha256("two"));
        let three = (3, sha256("three"));
        let table = [
            (vec![], Ok(Some((1, "one")))),
            (vec![one.clone()], Ok(Some((2, "two")))),
            (vec![one.clone(), two.clone()], Ok(None)),
            (vec![one, two.clone(), three], Err("step 3: the database was migrated by a newer")),
            (vec![(1, sha256("other"))], Err("step 1: it was applied with another text")),
            (vec![two], Err("step 1: the database has no record of it, but of step 2")),
        ];
        for (applied, expected) in table {
            match (next(SET, &applied), expected) {
                (Ok(step), Ok(expected)) => assert_eq!(step, expected),
                (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn the_hash_is_sha_256() {
        assert_eq!(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
