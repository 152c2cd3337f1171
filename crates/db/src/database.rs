//! `Db`, the one door: it hands closures to the engine and waits for their answer.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::job::{Answer, Job, Mode, job};
use crate::migrate::{self, Migrations, Progress};
use crate::operation::{INSERT, Keep, OperationId, Outcome, now};
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::{Config, Error, Row, Step, Tx, Value, params, tx};

/// A database. Clones share it.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

enum Inner {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// What stands behind a [`Db`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

impl fmt::Display for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Engine::Sqlite => "SQLite",
            Engine::Postgres => "PostgreSQL",
        })
    }
}

/// A finished back-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    pub path: PathBuf,
    pub bytes: u64,
}

impl Db {
    /// Opens the database and creates this crate's own tables.
    pub async fn open(config: Config) -> Result<Db, Error> {
        let inner = match config {
            Config::Sqlite(config) => Inner::Sqlite(Sqlite::open(config).await?),
            Config::Postgres(config) => Inner::Postgres(Postgres::open(&config)?),
        };
        let db = Db { inner: Arc::new(inner) };
        db.own(Mode::Bare, migrate::bootstrap).await?;
        Ok(db)
    }

    /// Opens what is there for reading, as it is: nothing is created, brought up to date or written, and each write is
    /// refused. `None` if there is no such file; a server is asked only when something is read.
    pub async fn open_as_it_is(config: Config) -> Result<Option<Db>, Error> {
        let inner = match config {
            Config::Sqlite(config) => Sqlite::open_as_it_is(config).await?.map(Inner::Sqlite),
            Config::Postgres(config) => Some(Inner::Postgres(Postgres::open(&config)?)),
        };
        Ok(inner.map(|inner| Db { inner: Arc::new(inner) }))
    }

    /// Whether there is a table of this name.
    pub async fn has_table(&self, table: &str) -> Result<bool, Error> {
        Ok(self.look_up(migrate::exists(self.engine()), params![table]).await?.is_some())
    }

    /// Applies the steps that are missing, set by set. Safe to repeat, and to run in several processes at once.
    pub async fn migrate(&self, sets: &[Migrations]) -> Result<(), Error> {
        for &set in sets {
            while self.own(Mode::Migrate, move |tx| migrate::advance(tx, set)).await? == Progress::Applied {
                tracing::info!(set = set.set, "applied a migration step");
                Step::MigrationBetweenSteps.hit();
            }
        }
        Ok(())
    }

    /// Runs `body` on one snapshot. Writes are refused.
    pub async fn read<T, E, F>(&self, body: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (job, answer) = job(body);
        done(self.submit(Mode::Read, job, answer).await?)
    }

    /// Runs `body` in one serializable transaction; commits when it returns `Ok`, else nothing is written. `Ok` means
    /// that the write is on disk. `body` is run again when another transaction gets in its way. It must be quick: on
    /// SQLite all other writers wait for it.
    ///
    /// Dropping the future does not stop the write: it takes place or not, and nobody is told.
    pub async fn write<T, E, F>(&self, body: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (job, answer) = job(body);
        done(self.submit(Mode::Write(OperationId::new(), Keep::Briefly), job, answer).await?)
    }

    /// Like [`Db::write`], but the same operation never takes place twice: not after a crash, an unknown outcome or
    /// in another process. Operations are remembered for 24 hours.
    pub async fn write_once<T, E, F>(&self, operation: &OperationId, body: F) -> Result<Outcome<T>, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (job, answer) = job(body);
        self.submit(Mode::Write(operation.clone(), Keep::Long), job, answer).await
    }

    /// The only row that one statement finds, if there is one; the same as a [`Db::read`] of nothing else, for less: on
    /// PostgreSQL it is one round trip, on SQLite it waits for no thread. For rows that are found by their key.
    pub async fn look_up(&self, sql: &str, params: &[Value]) -> Result<Option<Row>, Error> {
        tx::check(sql, params)?;
        let mut rows = match &*self.inner {
            Inner::Sqlite(sqlite) => sqlite.look_up(sql, params).await?,
            Inner::Postgres(postgres) => postgres.look_up(sql, params).await?,
        };
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            more => Err(Error::Sql { reason: format!("{more} rows where at most one was expected") }),
        }
    }

    /// Runs one statement that changes rows only if they are what the caller has seen, and tells how many it changed; `Ok`
    /// means that it is on disk. Less than a [`Db::write`], and for that it leaves no operation: after
    /// [`Error::UnknownOutcome`] the caller has to read back what is there, and look for a mark of its own in it.
    pub async fn swap(&self, sql: &'static str, params: Vec<Value>) -> Result<u64, Error> {
        tx::check(sql, &params)?;
        match &*self.inner {
            Inner::Sqlite(_) => self.own(Mode::Swap, move |tx| tx.execute(sql, &params)).await,
            Inner::Postgres(postgres) => postgres.swap(sql, &params).await,
        }
    }

    /// Like [`Db::swap`], but `Ok` means only that the database has it: the end of this process does not undo it; a power cut,
    /// or a crash of the database server, may undo the latest of them. For what is worth no sync of its own.
    pub async fn note(&self, sql: &'static str, params: Vec<Value>) -> Result<u64, Error> {
        tx::check(sql, &params)?;
        match &*self.inner {
            Inner::Sqlite(_) => self.own(Mode::Note, move |tx| tx.execute(sql, &params)).await,
            Inner::Postgres(postgres) => postgres.note(sql, &params).await,
        }
    }

    /// Whether an operation took place. Waits for a transaction that is still at it, so that the answer is final for
    /// an operation whose write has returned.
    pub async fn took_place(&self, operation: &OperationId) -> Result<bool, Error> {
        let operation = operation.clone();
        // The row is inserted only to meet the other one, if there is one: the error rolls it back.
        let probe = self.own(Mode::Bare, move |tx| {
            let inserted = tx.execute(INSERT, params![operation.as_str(), now(), "probe"])?;
            Err::<(), _>(Probe::TookPlace(inserted == 0))
        });
        match probe.await {
            Err(Probe::TookPlace(it_did)) => Ok(it_did),
            Err(Probe::Failed(error)) => Err(error),
            Ok(()) => Err(Error::Closed),
        }
    }

    /// Copies the database to the file `to` while it is in use. The copy appears under its name only when it is
    /// complete, checked and on disk; a file that is there already is never replaced.
    pub async fn backup(&self, to: &Path) -> Result<Backup, Error> {
        match &*self.inner {
            Inner::Sqlite(sqlite) => sqlite.backup(to).await,
            Inner::Postgres(_) => Err(Error::Backup {
                to: to.to_owned(),
                reason: "the database is PostgreSQL: use pg_dump, or the back-up of whoever runs the server".to_owned(),
            }),
        }
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), Error> {
        self.read(|tx| tx.query("SELECT 1 FROM stateward_migrations LIMIT 1", &[]).map(drop)).await
    }

    pub fn engine(&self) -> Engine {
        match &*self.inner {
            Inner::Sqlite(_) => Engine::Sqlite,
            Inner::Postgres(_) => Engine::Postgres,
        }
    }

    /// Finishes what was begun and lets the database go, for all clones.
    pub async fn close(self) {
        match &*self.inner {
            Inner::Sqlite(sqlite) => sqlite.close().await,
            Inner::Postgres(postgres) => postgres.close().await,
        }
    }

    /// A transaction of this crate's own.
    async fn own<T, E, F>(&self, mode: Mode, body: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let (job, answer) = job(body);
        done(self.submit(mode, job, answer).await?)
    }

    async fn submit<T, E: From<Error>>(
        &self,
        mode: Mode,
        job: Box<dyn Job>,
        answer: Answer<T, E>,
    ) -> Result<Outcome<T>, E> {
        match &*self.inner {
            Inner::Sqlite(sqlite) => sqlite.submit(mode, job).await,
            Inner::Postgres(postgres) => postgres.submit(mode, job),
        }
        answer.await.unwrap_or_else(|_| Err(E::from(Error::Closed)))
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Db").field("engine", &self.engine()).finish_non_exhaustive()
    }
}

/// How `took_place` gets its answer out of a transaction that must not be kept.
enum Probe {
    TookPlace(bool),
    Failed(Error),
}

impl From<Error> for Probe {
    fn from(error: Error) -> Probe {
        Probe::Failed(error)
    }
}

/// `Already` cannot come for a fresh id, nor where there is none.
fn done<T, E: From<Error>>(outcome: Outcome<T>) -> Result<T, E> {
    match outcome {
        Outcome::Done(value) => Ok(value),
        Outcome::Already => Err(E::from(Error::Conflict { attempts: 1 })),
    }
}
