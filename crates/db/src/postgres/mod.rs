//! The engine on a server; its door is [`Postgres::submit`]. Not there yet: opening it says so.

use crate::job::{End, Job, Mode};
use crate::tx::Fault;
use crate::{Engine, Error, PostgresConfig, Row, Value};

pub(crate) struct Postgres;

/// One connection inside a transaction.
pub(crate) struct Session;

impl Postgres {
    pub(crate) fn open(_config: &PostgresConfig) -> Result<Postgres, Error> {
        Err(Error::Open { engine: Engine::Postgres, reason: "not supported yet".to_owned() })
    }

    pub(crate) fn submit(&self, _mode: Mode, job: Box<dyn Job>) {
        job.answer(End::Failed(Error::Closed));
    }

    pub(crate) async fn close(&self) {}
}

impl Session {
    pub(crate) fn execute(&self, _sql: &str, _params: &[Value]) -> Result<u64, Fault> {
        Err(Fault::last(Error::Closed))
    }

    pub(crate) fn query(&self, _sql: &str, _params: &[Value]) -> Result<Vec<Row>, Fault> {
        Err(Fault::last(Error::Closed))
    }

    pub(crate) fn batch(&self, _sql: &str) -> Result<(), Fault> {
        Err(Fault::last(Error::Closed))
    }
}
