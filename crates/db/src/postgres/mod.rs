//! The engine on a server: a pool of connections, one per transaction.
//!
//! Its door is [`Postgres::submit`]. Each call has a deadline; what failed before COMMIT was sent is repeated within it,
//! and a COMMIT without an answer is found out about (see [`settle`]), never guessed.

mod attempt;
mod connect;
mod faults;
mod session;
mod settle;
mod single;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use deadpool_postgres::Pool;

pub(crate) use connect::check;
pub(crate) use session::Session;

use crate::job::{End, Job, Mode, job};
use crate::operation::{Keep, SWEEP, WRITES_PER_SWEEP, swept_before};
use crate::tx::Failure;
use crate::{Error, OperationId, PostgresConfig, params};
use attempt::Attempt;
use connect::Commit;

/// What the server takes as a limit of time at most: milliseconds in 31 bits, almost 25 days.
const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

/// A migration may rewrite a table; nothing else may take this long.
const MIGRATION: Duration = Duration::from_mins(10);

#[derive(Clone)]
pub(crate) struct Postgres {
    pool: Pool,
    /// Makes connections for questions about lost ones.
    fresh: Pool,
    /// Connections whose COMMIT does not wait for the disk.
    notes: Pool,
    limits: Limits,
    unswept: Arc<AtomicU32>,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// A whole call.
    call: Duration,
    /// One statement: less than the call, so that there is time for another connection when this one hangs.
    statement: Duration,
    /// The first statement on a connection from the pool, which is answered at once if the connection is alive.
    begin: Duration,
    /// Making a connection.
    connect: Duration,
}

impl Limits {
    /// How long the client waits for an answer: the server's own limit comes first, so that this one is only for
    /// a server that has gone silent.
    fn silence(statement: Duration) -> Duration {
        statement + statement / 10
    }

    fn new(deadline: Duration) -> Limits {
        let deadline = deadline.min(LONGEST);
        let connect = (deadline / 2).min(Duration::from_secs(5));
        Limits { call: deadline, statement: deadline / 2, begin: deadline / 4, connect }
    }
}

impl Postgres {
    /// Connects to nothing yet.
    pub(crate) fn open(config: &PostgresConfig) -> Result<Postgres, Error> {
        let limits = Limits::new(config.deadline);
        let pool = connect::pool(config, limits, Commit::OnDisk)?;
        let fresh = connect::pool(config, limits, Commit::OnDisk)?;
        let notes = connect::pool(config, limits, Commit::Soon)?;
        Ok(Postgres { pool, fresh, notes, limits, unswept: Arc::default() })
    }

    /// Carries the job out, or answers it with an error, on a task of its own: a caller who stops waiting does not
    /// leave a connection in the middle of a transaction.
    pub(crate) fn submit(&self, mode: Mode, job: Box<dyn Job>) {
        let postgres = self.clone();
        tokio::spawn(async move {
            let write = matches!(mode, Mode::Write(..));
            if let Some((job, end)) = postgres.drive(mode, job).await {
                job.answer(end);
            }
            if write {
                postgres.sweep_now_and_then();
            }
        });
    }

    pub(crate) async fn close(&self) {
        self.pool.close();
        // What was begun ends within its deadline; connections are dropped as they come back.
        let give_up = Instant::now() + self.limits.call;
        while self.pool.status().size > 0 && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.fresh.close();
        self.notes.close();
    }

    /// Repeats until the job has an end. `None` when the job itself was lost with its thread.
    async fn drive(&self, mode: Mode, mut job: Box<dyn Job>) -> Option<(Box<dyn Job>, End)> {
        let mut give_up = Instant::now() + self.limits.call;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (returned, attempt) = attempt::run(self, &mode, job, give_up).await?;
            job = returned;
            let failure = match attempt {
                Attempt::Over(end) => return Some((job, end)),
                Attempt::Again(failure) => failure,
                Attempt::Unknown(backend) => match &mode {
                    Mode::Write(operation, _) => {
                        let asked = Instant::now();
                        match settle::took_place(self, operation, &backend).await {
                            Ok(true) => return Some((job, End::Finished)),
                            // It never will: the same operation may be tried again, in the time that was left.
                            Ok(false) => give_up += asked.elapsed(),
                            Err(error) => return Some((job, unknown(operation, &error))),
                        }
                        Failure::Lost("the connection was lost during COMMIT".to_owned())
                    }
                    // It is for its caller to read back; see `single`, which is how these are done.
                    Mode::Swap | Mode::Note => {
                        return Some((job, End::Failed(Error::UnknownOutcome { operation: OperationId::new() })));
                    }
                    // These look at what is there before they do anything, so that they may be repeated.
                    Mode::Read | Mode::Bare | Mode::Migrate => {
                        Failure::Lost("the connection was lost during COMMIT".to_owned())
                    }
                },
            };
            let pause = pause(attempts);
            if Instant::now() + pause >= give_up {
                let error = match failure {
                    Failure::Lost(reason) => Error::Unavailable { reason },
                    Failure::Conflict | Failure::Final => Error::Conflict { attempts },
                };
                return Some((job, End::Failed(error)));
            }
            tracing::debug!(attempts, ?failure, "repeating a transaction");
            tokio::time::sleep(pause).await;
        }
    }

    fn sweep_now_and_then(&self) {
        if self.unswept.fetch_add(1, Ordering::Relaxed) + 1 < WRITES_PER_SWEEP {
            return;
        }
        self.unswept.store(0, Ordering::Relaxed);
        let (job, answer) = job(|tx| {
            for keep in [Keep::Briefly, Keep::Long] {
                tx.execute(SWEEP, params![keep.state(), swept_before(keep)])?;
            }
            Ok::<_, Error>(())
        });
        self.submit(Mode::Bare, job);
        tokio::spawn(async move {
            if let Ok(Err(error)) = answer.await {
                tracing::warn!(%error, "failed to sweep old operations; trying again later");
            }
        });
    }
}

fn unknown(operation: &OperationId, error: &Error) -> End {
    tracing::warn!(%operation, %error, "failed to find out whether a COMMIT took place");
    End::Failed(Error::UnknownOutcome { operation: operation.clone() })
}

/// Grows to half a second; random, so that two transactions do not meet again.
fn pause(attempts: u32) -> Duration {
    let most = 4_u64 << attempts.min(7);
    Duration::from_millis(fastrand::u64(0..=most))
}
