//! The writer thread: takes what is waiting, runs it in one transaction, commits once, then answers all.
//!
//! Each of several jobs has a savepoint of its own, so that one that fails undoes only itself. When the transaction as a
//! whole is lost, its jobs run again one by one, so that each gets an answer of its own.

use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::connection::{fault, patiently};
use super::statement;
use crate::job::{End, Job, Verdict};
use crate::operation::{INSERT, Keep, OperationId, SWEEP, WRITES_PER_SWEEP, now, swept_before};
use crate::tx::{self, Fault};
use crate::{Error, Step, Tx, params};

/// How many jobs share one COMMIT at most: enough to spread the cost of the sync, few enough to answer soon.
const GROUP: usize = 64;

/// A job and what it leaves behind.
pub(super) struct Order {
    pub(super) write: Write,
    pub(super) job: Box<dyn Job>,
}

pub(super) enum Write {
    /// The row of its operation.
    Operation(OperationId, Keep),
    /// Nothing: its caller reads back what became of it.
    Swap,
    /// The same, and its COMMIT need not be synced.
    Note,
    /// Nothing: it is one of this crate's own, which may be repeated.
    Own,
}

impl Write {
    fn operation(&self) -> Option<&OperationId> {
        match self {
            Write::Operation(operation, _) => Some(operation),
            Write::Swap | Write::Note | Write::Own => None,
        }
    }
}

/// Works until the queue is closed and empty.
pub(super) fn run(connection: &Connection, mut orders: mpsc::Receiver<Order>, deadline: Duration) {
    let durable = match connection.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0)) {
        Ok(level) => level,
        Err(error) => return tracing::error!(%error, "failed to ask how commits are synced: the database is closed"),
    };
    let mut unswept = 0;
    while let Some(first) = orders.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP
            && let Ok(order) = orders.try_recv()
        {
            group.push(order);
        }
        unswept += u32::try_from(group.len()).unwrap_or(u32::MAX);
        if group.iter().all(|order| matches!(order.write, Write::Note)) {
            if commit_unsynced(connection, group, deadline, durable).is_err() {
                // Better no writer than one whose answers are not on disk.
                break;
            }
        } else {
            commit_together(connection, group, deadline);
        }
        if unswept >= WRITES_PER_SWEEP {
            unswept = 0;
            sweep(connection);
        }
    }
    // So that a copy of the file alone is complete after an orderly end.
    if let Err(error) = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)") {
        tracing::warn!(%error, "failed to fold the write-ahead log into the database file");
    }
}

/// How a transaction of several jobs ended.
enum Group {
    /// Carried out; each job has its end.
    Committed(Vec<End>),
    /// Nothing of it is there, for this reason.
    Lost(Error),
    /// Nobody can tell whether it is there.
    Unknown,
}

/// The write-ahead log is not synced, but checkpoints are, so that a power cut loses the end and damages nothing. The next
/// COMMIT that is synced takes these with it. `durable` is how others are synced.
fn commit_unsynced(
    connection: &Connection,
    group: Vec<Order>,
    deadline: Duration,
    durable: i64,
) -> rusqlite::Result<()> {
    // Off, in a test, stays off.
    connection.execute_batch(&format!("PRAGMA synchronous = {}", durable.min(NORMAL)))?;
    commit_together(connection, group, deadline);
    let restored = connection.execute_batch(&format!("PRAGMA synchronous = {durable}"));
    if let Err(error) = &restored {
        tracing::error!(%error, "failed to make commits durable again: the database is closed");
    }
    restored
}

/// SQLite's number for it.
const NORMAL: i64 = 1;

fn commit_together(connection: &Connection, mut group: Vec<Order>, deadline: Duration) {
    match transaction(connection, &mut group, deadline) {
        Group::Committed(ends) => {
            for (order, end) in group.into_iter().zip(ends) {
                order.job.answer(end);
            }
        }
        Group::Lost(error) => match <[Order; 1]>::try_from(group) {
            Ok([only]) => only.job.answer(End::Failed(error)),
            Err(group) => {
                for order in group {
                    commit_together(connection, vec![order], deadline);
                }
            }
        },
        Group::Unknown => {
            for order in group {
                let operation = order.write.operation().cloned().unwrap_or_else(OperationId::new);
                order.job.answer(End::Failed(Error::UnknownOutcome { operation }));
            }
        }
    }
}

fn transaction(connection: &Connection, group: &mut [Order], deadline: Duration) -> Group {
    if let Err(error) = patiently(deadline, || statement::control(connection, "BEGIN IMMEDIATE")) {
        return Group::Lost(match fault(&error).error {
            Error::Conflict { .. } => Error::Unavailable { reason: "another process keeps it locked".to_owned() },
            other => other,
        });
    }
    let mut ends = Vec::with_capacity(group.len());
    let (mut witness, mut swapped) = (None, false);
    // One alone is undone with its transaction.
    let run = if let [_] = group { carry_out } else { in_savepoint };
    let mut keeps = group.len() > 1;
    for order in group.iter_mut() {
        let done = run(connection, order).unwrap_or_else(|fault| Done::undone(End::Failed(fault.error)));
        // A full disk or a failed read makes SQLite roll all of it back by itself.
        if connection.is_autocommit() {
            return Group::Lost(match done.end {
                End::Failed(error) => error,
                _ => Error::Unavailable { reason: "SQLite gave the transaction up".to_owned() },
            });
        }
        keeps |= done.is_kept;
        if done.is_kept {
            // The transaction is whole, so that any operation that was kept speaks for all.
            witness = order.write.operation().cloned().or(witness);
            swapped |= matches!(order.write, Write::Swap | Write::Note);
        }
        ends.push(done.end);
    }
    if !keeps {
        return match statement::control(connection, "ROLLBACK") {
            Ok(()) => Group::Committed(ends),
            Err(error) => Group::Lost(fault(&error).error),
        };
    }
    let done = if group.iter().any(|order| !matches!(order.write, Write::Own)) {
        commit(connection)
    } else {
        statement::control(connection, "COMMIT").map_err(|error| fault(&error).error)
    };
    match done {
        Ok(()) => Group::Committed(ends),
        Err(error) => {
            if !connection.is_autocommit() {
                let _ = connection.execute_batch("ROLLBACK");
            }
            // Without a witness nobody can tell; a disk that is full refused before the last page was written.
            if swapped && witness.is_none() && !matches!(error, Error::Full) {
                return Group::Unknown;
            }
            settle(connection, witness.as_ref(), ends, error, deadline)
        }
    }
}

/// What a job has to be told, and whether anything of it is to be committed.
struct Done {
    end: End,
    is_kept: bool,
}

impl Done {
    fn undone(end: End) -> Done {
        Done { end, is_kept: false }
    }
}

/// Runs one job of several. `Err` when its savepoint itself failed.
fn in_savepoint(connection: &Connection, order: &mut Order) -> Result<Done, Fault> {
    let control = |sql| statement::control(connection, sql).map_err(|error| fault(&error));
    control("SAVEPOINT job")?;
    let done = carry_out(connection, order)?;
    if !connection.is_autocommit() {
        if !done.is_kept {
            control("ROLLBACK TO job")?;
        }
        control("RELEASE job")?;
    }
    Ok(done)
}

/// Runs one job. `Err` when the row of its operation could not be written.
fn carry_out(connection: &Connection, order: &mut Order) -> Result<Done, Fault> {
    if let Write::Operation(operation, keep) = &order.write
        && statement::execute(connection, INSERT, params![operation.as_str(), now(), keep.state()])? == 0
    {
        return Ok(Done::undone(End::Already));
    }
    let mut tx = Tx::new(tx::Connection::Sqlite(connection));
    let verdict = order.job.run(&mut tx);
    let failure = tx.failure();
    Ok(match (verdict, failure) {
        (Verdict::Keep, None) => Done { end: End::Finished, is_kept: true },
        (Verdict::Keep, Some(_)) => Done::undone(End::Failed(Error::Aborted)),
        (Verdict::Undo, _) => Done::undone(End::Finished),
        (Verdict::Panicked, _) => Done::undone(End::Failed(Error::Panicked)),
    })
}

fn commit(connection: &Connection) -> Result<(), Error> {
    Step::BeforeCommit.check().map_err(|error| injected(&error))?;
    statement::control(connection, "COMMIT").map_err(|error| fault(&error).error)?;
    Step::AfterCommitBeforeAck.check().map_err(|error| injected(&error))
}

/// COMMIT failed. The log may nevertheless hold all of it, to be found by the next recovery, until something else
/// is written in its place: so the answer is looked up by a write that must succeed.
fn settle(
    connection: &Connection,
    witness: Option<&OperationId>,
    ends: Vec<End>,
    error: Error,
    deadline: Duration,
) -> Group {
    let operation = match witness {
        Some(operation) if !matches!(error, Error::Full) => operation,
        // Nothing to ask for, or refused before the last page was written.
        _ => return Group::Lost(error),
    };
    let inserted = patiently(deadline, || {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let asked = (|| {
            let absent = connection.execute(INSERT, (operation.as_str(), now(), "probe"))?;
            connection.execute("DELETE FROM stateward_operations WHERE state = 'probe'", ())?;
            connection.execute_batch("COMMIT")?;
            Ok(absent)
        })();
        if asked.is_err() && !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        asked
    });
    tracing::warn!(%error, resolved = inserted.is_ok(), "COMMIT failed; looked up whether it took place");
    match inserted {
        Ok(0) => Group::Committed(ends),
        Ok(_) => Group::Lost(error),
        Err(_) => Group::Unknown,
    }
}

fn sweep(connection: &Connection) {
    for keep in [Keep::Briefly, Keep::Long] {
        if let Err(fault) = statement::execute(connection, SWEEP, params![keep.state(), swept_before(keep)]) {
            tracing::warn!(error = %fault.error, "failed to sweep old operations; trying again later");
        }
    }
}

fn injected(error: &std::io::Error) -> Error {
    Error::Unavailable { reason: error.to_string() }
}
