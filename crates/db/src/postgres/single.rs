//! One statement that is its own transaction: one round trip in place of three, and no thread that waits.

use std::time::Instant;

use deadpool_postgres::{Object, Pool};
use tokio::time::timeout;

use super::attempt::{connection, discard};
use super::{Limits, Postgres, faults, pause, session};
use crate::tx::{Failure, Fault};
use crate::{Error, OperationId, Row, Value};

/// How a statement ended.
enum Ended<T> {
    Done(T),
    /// Nothing was done.
    Refused(Fault),
    /// It may have been done.
    Lost(Fault),
}

impl Postgres {
    /// Rows of one statement, which is repeated as long as there is time.
    pub(crate) async fn look_up(&self, sql: &str, params: &[Value]) -> Result<Vec<Row>, Error> {
        let give_up = Instant::now() + self.limits.call;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let fault =
                match self.once(&self.pool, give_up, async |client| session::fetch(client, sql, params).await).await {
                    Ended::Done(rows) => return Ok(rows),
                    Ended::Refused(fault) | Ended::Lost(fault) => fault,
                };
            wait_or_fail(fault, attempts, give_up).await?;
        }
    }

    /// How many rows one statement changed. It is repeated only while it is certain that nothing was done.
    pub(crate) async fn swap(&self, sql: &str, params: &[Value]) -> Result<u64, Error> {
        self.change(&self.pool, sql, params).await
    }

    /// The same, answered before it is on disk.
    pub(crate) async fn note(&self, sql: &str, params: &[Value]) -> Result<u64, Error> {
        self.change(&self.notes, sql, params).await
    }

    async fn change(&self, pool: &Pool, sql: &str, params: &[Value]) -> Result<u64, Error> {
        let give_up = Instant::now() + self.limits.call;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let fault = match self.once(pool, give_up, async |client| session::change(client, sql, params).await).await
            {
                Ended::Done(changed) => return Ok(changed),
                Ended::Refused(fault) => fault,
                Ended::Lost(_) => return Err(Error::UnknownOutcome { operation: OperationId::new() }),
            };
            wait_or_fail(fault, attempts, give_up).await?;
        }
    }

    async fn once<T>(
        &self,
        pool: &Pool,
        give_up: Instant,
        run: impl AsyncFnOnce(&Object) -> Result<T, session::Failed>,
    ) -> Ended<T> {
        let wait = give_up.saturating_duration_since(Instant::now());
        let client = match connection(pool, self.limits, wait).await {
            Ok(client) => client,
            Err(fault) => return Ended::Refused(fault),
        };
        match timeout(Limits::silence(self.limits.statement), run(&client)).await {
            Ok(Ok(value)) => Ended::Done(value),
            Ok(Err(session::Failed::Before(fault))) => {
                if let Failure::Lost(_) = fault.failure {
                    discard(client);
                }
                Ended::Refused(fault)
            }
            Ok(Err(session::Failed::Statement(error))) if faults::refused(&error) => {
                Ended::Refused(faults::fault(&error))
            }
            Ok(Err(session::Failed::Statement(error))) => {
                discard(client);
                Ended::Lost(faults::fault(&error))
            }
            Err(_) => {
                discard(client);
                // Others that wait in the pool have most likely died with this one.
                pool.retain(|_, _| false);
                Ended::Lost(faults::lost("a connection to PostgreSQL has gone silent"))
            }
        }
    }
}

/// Waits before the next attempt, if there is to be one.
async fn wait_or_fail(fault: Fault, attempts: u32, give_up: Instant) -> Result<(), Error> {
    let pause = pause(attempts);
    match fault.failure {
        Failure::Final => Err(fault.error),
        Failure::Lost(reason) if Instant::now() + pause >= give_up => Err(Error::Unavailable { reason }),
        Failure::Conflict if Instant::now() + pause >= give_up => Err(Error::Conflict { attempts }),
        Failure::Lost(_) | Failure::Conflict => {
            tokio::time::sleep(pause).await;
            Ok(())
        }
    }
}
