//! Finding out whether a COMMIT without an answer took place.
//!
//! The row of the operation was inserted by the lost transaction before its COMMIT was sent. Whoever inserts the same
//! id on another connection is made to wait by the unique index until that transaction has ended: if the id is then
//! taken, it was committed; if not, it was rolled back and can never be committed. So that the wait is short, the old
//! server process is ended first, if it is still the same one.

use std::time::{Duration, Instant};

use deadpool_postgres::{ClientWrapper, Object};
use tokio::time::{sleep, timeout, timeout_at};
use tokio_postgres::SimpleQueryMessage;

use super::{Postgres, attempt, faults};
use crate::operation::now;
use crate::{Error, OperationId};

/// A process of the server. A number may be given to another process later, a number and a start time never.
#[derive(Clone, Debug, Default)]
pub(super) struct Backend {
    pid: String,
    started: String,
}

/// The answer is read by [`backend`].
pub(super) const WHO_AM_I: &str =
    "SELECT pid, extract(epoch FROM backend_start)::text FROM pg_stat_get_activity(pg_backend_pid())";

/// The process that answered [`WHO_AM_I`].
pub(super) fn backend(answers: &[SimpleQueryMessage]) -> Option<Backend> {
    answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(Backend { pid: row.get(0)?.to_owned(), started: row.get(1)?.to_owned() }),
        _ => None,
    })
}

/// Whether the transaction of `operation`, whose COMMIT went to `backend`, was committed. The answer is final.
pub(super) async fn took_place(postgres: &Postgres, operation: &OperationId, backend: &Backend) -> Result<bool, Error> {
    let give_up = Instant::now() + postgres.limits.call;
    let mut last = Error::Unavailable { reason: "PostgreSQL cannot be reached".to_owned() };
    while Instant::now() < give_up {
        match timeout_at(give_up.into(), ask(postgres, operation, backend)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => last = error,
            Err(_) => break,
        }
        sleep(Duration::from_millis(50)).await;
    }
    Err(last)
}

/// Ends the server process, if it is still there. Best effort: its own time limits end it otherwise.
pub(super) async fn terminate(postgres: &Postgres, backend: &Backend) {
    let end = async {
        let client = fresh(postgres).await?;
        client.batch_execute(&terminating(backend)).await.map_err(|error| faults::fault(&error).error)
    };
    if let Ok(Err(error)) = timeout(postgres.limits.connect, end).await {
        tracing::debug!(%error, "failed to end a lost server process");
    }
}

async fn ask(postgres: &Postgres, operation: &OperationId, backend: &Backend) -> Result<bool, Error> {
    let client = fresh(postgres).await?;
    // An operation id holds no quote. The row must not stay: it would stand for something that did not take place.
    let sql = format!(
        "{}; BEGIN ISOLATION LEVEL READ COMMITTED; INSERT INTO stateward_operations (id, at, state) \
         VALUES ('{operation}', {}, 'probe') ON CONFLICT (id) DO NOTHING",
        terminating(backend),
        now()
    );
    let answers = timeout(postgres.limits.statement, client.simple_query(&sql)).await;
    let answers = answers.map_err(|_| Error::Unavailable { reason: "PostgreSQL does not answer".to_owned() })?;
    let answers = answers.map_err(|error| faults::fault(&error).error)?;
    // Dropping the connection rolls back.
    match answers.last() {
        Some(SimpleQueryMessage::CommandComplete(inserted)) => Ok(*inserted == 0),
        _ => Err(Error::Unavailable { reason: "PostgreSQL gave an unexpected answer".to_owned() }),
    }
}

fn terminating(backend: &Backend) -> String {
    // Both texts came from the server as numbers; anything else matches no process.
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && !text.is_empty();
    if number(&backend.pid) && number(&backend.started) {
        format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE pid = {} AND extract(epoch FROM backend_start)::text = '{}'",
            backend.pid, backend.started
        )
    } else {
        "SELECT 1".to_owned()
    }
}

/// A connection that nobody has used before: those in the pool may all be dead or busy.
async fn fresh(postgres: &Postgres) -> Result<ClientWrapper, Error> {
    // Nothing is ever given back to this pool, so that it always makes a new one.
    let made = attempt::connection(&postgres.fresh, postgres.limits, postgres.limits.connect).await;
    made.map(Object::take).map_err(|fault| fault.error)
}
