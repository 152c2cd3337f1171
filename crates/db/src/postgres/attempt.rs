//! One attempt at one transaction on one connection.
//!
//! A connection goes back to the pool only after its transaction has ended for certain; in all other cases it is
//! dropped, which ends it on the server too.

use std::time::{Duration, Instant};

use deadpool_postgres::{Object, Pool, PoolError, TimeoutType, Timeouts};
use tokio::time::timeout;
use tokio_postgres::SimpleQueryMessage;

use super::session::Session;
use super::settle::{self, Backend};
use super::{Limits, MIGRATION, Postgres, faults};
use crate::job::{End, Job, Mode, Verdict};
use crate::operation::now;
use crate::tx::{self, Failure, Fault};
use crate::{Error, Step, Tx};

/// How an attempt ended.
pub(super) enum Attempt {
    Over(End),
    /// Nothing was committed, for a reason that may pass.
    Again(Failure),
    /// COMMIT was sent and not answered.
    Unknown(Backend),
}

/// `None` when the job was lost with its thread.
pub(super) async fn run(
    postgres: &Postgres,
    mode: &Mode,
    job: Box<dyn Job>,
    give_up: Instant,
) -> Option<(Box<dyn Job>, Attempt)> {
    let client =
        match connection(&postgres.pool, postgres.limits, give_up.saturating_duration_since(Instant::now())).await {
            Ok(client) => client,
            Err(fault) => return Some((job, after(fault))),
        };
    let begun = match begin(postgres, mode, &client).await {
        Ok(begun) => begun,
        Err(fault) => {
            discard(client);
            return Some((job, after(fault)));
        }
    };
    if let Begun::Already = begun {
        roll_back(postgres, client).await;
        return Some((job, Attempt::Over(End::Already)));
    }
    let session = Session::new(client, limit(postgres, mode));
    // The pool has at most as many connections as there are threads waiting here.
    let ran = tokio::task::spawn_blocking(move || {
        let mut job = job;
        let mut tx = Tx::new(tx::Connection::Postgres(&session));
        let verdict = job.run(&mut tx);
        let failure = tx.failure();
        (job, session, verdict, failure)
    });
    let (job, session, verdict, failure) = ran.await.ok()?;
    let client = session.into_client();
    let attempt = match (verdict, failure) {
        (Verdict::Keep, None) => commit(postgres, mode, client, begun).await,
        (Verdict::Panicked, _) => {
            roll_back(postgres, client).await;
            Attempt::Over(End::Failed(Error::Panicked))
        }
        (_, Some(Failure::Lost(reason))) => {
            discard(client);
            // It may still hold locks that the next attempt needs.
            if let Begun::Fresh(Some(backend)) = &begun {
                settle::terminate(postgres, backend).await;
            }
            Attempt::Again(Failure::Lost(reason))
        }
        (_, Some(Failure::Conflict)) => {
            roll_back(postgres, client).await;
            Attempt::Again(Failure::Conflict)
        }
        (Verdict::Keep, Some(Failure::Final)) => {
            roll_back(postgres, client).await;
            Attempt::Over(End::Failed(Error::Aborted))
        }
        (Verdict::Undo, _) => {
            roll_back(postgres, client).await;
            Attempt::Over(End::Finished)
        }
    };
    Some((job, attempt))
}

/// Where a transaction stands after its first statements.
enum Begun {
    /// With the server process that runs it, where that matters.
    Fresh(Option<Backend>),
    /// The operation is there already.
    Already,
}

/// A connection of `pool`, waiting for at most `wait` until one is free.
pub(super) async fn connection(pool: &Pool, limits: Limits, wait: Duration) -> Result<Object, Fault> {
    let timeouts = Timeouts { wait: Some(wait), create: Some(limits.connect), recycle: Some(limits.connect) };
    pool.timeout_get(&timeouts).await.map_err(|error| match error {
        PoolError::Closed => Fault::last(Error::Closed),
        PoolError::Timeout(TimeoutType::Wait) => Fault::last(Error::Unavailable {
            reason: format!("all {} connections to PostgreSQL are busy", pool.status().max_size),
        }),
        PoolError::Backend(error) => faults::connecting(&error),
        PoolError::Timeout(_) => faults::lost("PostgreSQL did not accept a connection in time"),
        PoolError::PostCreateHook(_) | PoolError::NoRuntimeSpecified => {
            faults::lost("PostgreSQL did not accept the settings of a new connection")
        }
    })
}

/// One round trip: the transaction, who runs it, and the row of the operation.
async fn begin(postgres: &Postgres, mode: &Mode, client: &Object) -> Result<Begun, Fault> {
    let sql = match mode {
        Mode::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".to_owned(),
        // Each statement sees what others have committed, also what was waited for.
        Mode::Bare | Mode::Swap | Mode::Note => "BEGIN ISOLATION LEVEL READ COMMITTED".to_owned(),
        Mode::Migrate => {
            let limit = MIGRATION.as_millis();
            format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {limit}; \
                 SET LOCAL lock_timeout = {limit}"
            )
        }
        // An operation id holds no quote.
        Mode::Write(operation, keep) => format!(
            "BEGIN ISOLATION LEVEL SERIALIZABLE; {}; INSERT INTO stateward_operations (id, at, state) \
             VALUES ('{operation}', {}, '{}') ON CONFLICT (id) DO NOTHING",
            settle::WHO_AM_I,
            now(),
            keep.state()
        ),
    };
    let answers = if let Ok(answers) = timeout(postgres.limits.begin, client.simple_query(&sql)).await {
        answers.map_err(|error| faults::fault(&error))?
    } else {
        // Others that wait in the pool have most likely died with this one.
        postgres.pool.retain(|_, _| false);
        return Err(faults::lost("a connection to PostgreSQL has gone silent"));
    };
    let inserted = answers.iter().rev().find_map(|answer| match answer {
        SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
        _ => None,
    });
    match mode {
        Mode::Write(..) if inserted == Some(0) => Ok(Begun::Already),
        Mode::Write(..) => Ok(Begun::Fresh(settle::backend(&answers))),
        _ => Ok(Begun::Fresh(None)),
    }
}

async fn commit(postgres: &Postgres, mode: &Mode, client: Object, begun: Begun) -> Attempt {
    let backend = match begun {
        Begun::Fresh(backend) => backend.unwrap_or_default(),
        Begun::Already => Backend::default(),
    };
    if let Mode::Write(..) = mode
        && Step::BeforeCommit.check().is_err()
    {
        // As if COMMIT had been lost on its way.
        discard(client);
        return Attempt::Unknown(backend);
    }
    let lost = match timeout(Limits::silence(limit(postgres, mode)), client.batch_execute("COMMIT")).await {
        Ok(Ok(())) => match mode {
            Mode::Write(..) => Step::AfterCommitBeforeAck.check().is_err(),
            _ => false,
        },
        Ok(Err(error)) if faults::refused(&error) => {
            discard(client);
            return after(faults::fault(&error));
        }
        Ok(Err(_)) | Err(_) => true,
    };
    match (lost, mode) {
        (false, _) => Attempt::Over(End::Finished),
        // It has read what it wanted.
        (true, Mode::Read) => {
            discard(client);
            Attempt::Over(End::Finished)
        }
        (true, _) => {
            discard(client);
            Attempt::Unknown(backend)
        }
    }
}

/// How long the server may take for one statement.
fn limit(postgres: &Postgres, mode: &Mode) -> Duration {
    match mode {
        Mode::Migrate => MIGRATION,
        Mode::Read | Mode::Write(..) | Mode::Swap | Mode::Note | Mode::Bare => postgres.limits.statement,
    }
}

async fn roll_back(postgres: &Postgres, client: Object) {
    match timeout(postgres.limits.begin, client.batch_execute("ROLLBACK")).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => discard(client),
    }
}

/// Closes a connection whose state is not known.
pub(super) fn discard(client: Object) {
    drop(Object::take(client));
}

fn after(fault: Fault) -> Attempt {
    match fault.failure {
        Failure::Final => Attempt::Over(End::Failed(fault.error)),
        passing => Attempt::Again(passing),
    }
}
