//! The embedded engine: one writer thread, several readers, one file.
//!
//! Its door is [`Sqlite::submit`]. Only the writer thread ever writes in this process; other processes may use the
//! same file. No answer goes out before its COMMIT is synced, except to notes.

mod backup;
mod connection;
pub(crate) mod statement;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::job::{End, Job, Mode, Verdict};
use crate::tx::{self, Failure, Fault};
use crate::{Backup, Error, Row, SqliteConfig, Tx, Value};

/// How many writes wait in line before callers have to wait outside.
const QUEUE: usize = 1024;

pub(crate) struct Sqlite {
    config: SqliteConfig,
    /// `None` once closed.
    queue: Mutex<Option<mpsc::Sender<writer::Order>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    readers: Arc<Readers>,
}

/// Idle connections; a permit is the right to take one.
struct Readers {
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    fn new(readers: Vec<Connection>) -> Arc<Readers> {
        Arc::new(Readers { permits: Semaphore::new(readers.len()), idle: Mutex::new(readers) })
    }
}

impl Sqlite {
    pub(crate) async fn open(config: SqliteConfig) -> Result<Sqlite, Error> {
        let opening = config.clone();
        let connections = tokio::task::spawn_blocking(move || {
            let writer = connection::open(&opening)?;
            Ok((writer, connection::open_readers(&opening)?))
        });
        let (connection, readers) = connections.await.map_err(|_| Error::Closed)??;
        let (queue, orders) = mpsc::channel(QUEUE);
        let deadline = config.deadline;
        let writer = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || writer::run(&connection, orders, deadline))
            .map_err(|error| connection::failed(&format!("cannot start its writer thread: {error}")))?;
        Ok(Sqlite {
            config,
            queue: Mutex::new(Some(queue)),
            writer: Mutex::new(Some(writer)),
            readers: Readers::new(readers),
        })
    }

    /// Without a writer; `None` if there is no such file.
    pub(crate) async fn open_as_it_is(config: SqliteConfig) -> Result<Option<Sqlite>, Error> {
        let opening = config.clone();
        let connections = tokio::task::spawn_blocking(move || match opening.path.try_exists() {
            Ok(false) => Ok(None),
            Ok(true) => connection::open_readers(&opening).map(Some),
            Err(error) => Err(connection::failed(&format!("cannot look for {}: {error}", opening.path.display()))),
        });
        let readers = connections.await.map_err(|_| Error::Closed)??;
        Ok(readers.map(|readers| Sqlite {
            config,
            queue: Mutex::new(None),
            writer: Mutex::new(None),
            readers: Readers::new(readers),
        }))
    }

    /// Carries the job out, or answers it with an error.
    pub(crate) async fn submit(&self, mode: Mode, job: Box<dyn Job>) {
        let write = match mode {
            Mode::Read => return self.read(job).await,
            Mode::Write(operation, keep) => writer::Write::Operation(operation, keep),
            Mode::Swap => writer::Write::Swap,
            Mode::Note => writer::Write::Note,
            Mode::Bare | Mode::Migrate => writer::Write::Own,
        };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(queue) = queue else {
            return job.answer(End::Failed(Error::Closed));
        };
        match timeout(self.config.deadline, queue.reserve()).await {
            Ok(Ok(place)) => place.send(writer::Order { write, job }),
            Ok(Err(_)) => job.answer(End::Failed(Error::Closed)),
            Err(_) => {
                let reason = format!("{QUEUE} writes are waiting already");
                job.answer(End::Failed(Error::Unavailable { reason }));
            }
        }
    }

    async fn read(&self, job: Box<dyn Job>) {
        let readers = Arc::clone(&self.readers);
        let permit = match timeout(self.config.deadline, readers.permits.acquire()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return job.answer(End::Failed(Error::Closed)),
            Err(_) => {
                let reason = format!("all {} readers are busy", self.config.readers);
                return job.answer(End::Failed(Error::Unavailable { reason }));
            }
        };
        // The permit goes back by hand: a caller who stops waiting must not free a place that is still in use.
        permit.forget();
        let readers = Arc::clone(&self.readers);
        let deadline = self.config.deadline;
        tokio::task::spawn_blocking(move || {
            let connection = readers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match connection {
                Some(connection) => {
                    read_on(&connection, job, deadline);
                    readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
                }
                None => job.answer(End::Failed(Error::Closed)),
            }
            readers.permits.add_permits(1);
        });
    }

    /// Rows of one statement, on the caller's own thread: what is found by its key is in memory nearly always.
    pub(crate) async fn look_up(&self, sql: &str, params: &[Value]) -> Result<Vec<Row>, Error> {
        let give_up = Instant::now() + self.config.deadline;
        loop {
            let permit = timeout(self.config.deadline, self.readers.permits.acquire()).await;
            let reason = || format!("all {} readers are busy", self.config.readers);
            let permit = permit.map_err(|_| Error::Unavailable { reason: reason() })?.map_err(|_| Error::Closed)?;
            let connection = self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = connection.ok_or(Error::Closed)?;
            let found = statement::query(&connection, sql, params);
            self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            drop(permit);
            match found {
                Ok(rows) => return Ok(rows),
                Err(Fault { failure: Failure::Conflict | Failure::Lost(_), .. }) if Instant::now() < give_up => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(fault) => return Err(fault.error),
            }
        }
    }

    pub(crate) async fn backup(&self, to: &std::path::Path) -> Result<Backup, Error> {
        let config = self.config.clone();
        let to = to.to_owned();
        tokio::task::spawn_blocking(move || backup::run(&config, &to)).await.map_err(|_| Error::Closed)?
    }

    /// The writer works off its queue, folds the log into the file and ends; then the readers go.
    pub(crate) async fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        }
        let all = u32::try_from(self.config.readers.max(1)).unwrap_or(u32::MAX);
        let _ = self.readers.permits.acquire_many(all).await;
        self.readers.permits.close();
        self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// One read on one connection. Only an interrupted recovery of the file can get in its way, hence the repetition.
fn read_on(connection: &Connection, mut job: Box<dyn Job>, deadline: Duration) {
    let give_up = Instant::now() + deadline;
    loop {
        if let Err(fault) = statement::batch(connection, "BEGIN") {
            return job.answer(End::Failed(fault.error));
        }
        let mut tx = Tx::new(tx::Connection::Sqlite(connection));
        let verdict = job.run(&mut tx);
        let failure = tx.failure();
        // Nothing can have been written, so that it does not matter how it ends.
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        let end = match (verdict, failure) {
            (Verdict::Panicked, _) => End::Failed(Error::Panicked),
            (_, Some(Failure::Conflict | Failure::Lost(_))) if Instant::now() < give_up => continue,
            (Verdict::Keep, Some(_)) => End::Failed(Error::Aborted),
            _ => End::Finished,
        };
        return job.answer(end);
    }
}
