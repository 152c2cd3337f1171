//! The door: what a hub stands on. What it does is in `work`, `store`, `storage` and `journal`, one file per thing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use db::{Db, Tx};
use jiff::Timestamp;
use keys::Keyring;
use tokio::sync::watch;
use uuid::Uuid;

use crate::changes::{Counted, Feed};
use crate::clock::Clock;
use crate::rules::names;
use crate::seal::Sealing;
use crate::storage::{self, Connect, Flights};
use crate::store::{Schemas, ensure_built_in};
use crate::{Error, Settings};

/// Typed records in a database. Clones share it.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    db: Db,
    sealing: Sealing,
    settings: Settings,
    connect: Arc<dyn Connect>,
    /// Names this hub in the journal; another one has another.
    process: String,
    schemas: Schemas,
    backends: storage::Known,
    flights: Flights,
    changes: watch::Sender<u64>,
    counted: Counted,
    clock: Clock,
    /// How much is being brought to its end, whether somebody waits for it or not.
    at_work: watch::Sender<usize>,
}

/// Counts for as long as it is there.
struct AtWork(Hub);

impl Hub {
    /// Opens the hub in a database that has [`crate::MIGRATIONS`]. Makes its first data key and the built-in record where they
    /// are missing. Somebody has to poll [`Hub::run`], too.
    pub async fn open(db: Db, keyring: Keyring, settings: Settings, connect: Arc<dyn Connect>) -> Result<Hub, Error> {
        names::check_namespace(&settings.namespace)?;
        let sealing = Sealing::new(db.clone(), keyring, settings.encryption_key.clone());
        sealing.ensure().await?;
        let clock = Clock::default();
        clock.set(&db).await?;
        let (unlocked, namespace, now) = (sealing.unlock().await?, settings.namespace.clone(), clock.now());
        let feed = Feed(db.engine());
        let prepare = move |tx: &mut Tx<'_>| {
            ensure_built_in(tx, &namespace, now, &unlocked)?;
            feed.mend(tx)
        };
        db.write(prepare).await?;
        Ok(Hub(Arc::new(Inner {
            db,
            sealing,
            settings,
            connect,
            process: Uuid::new_v4().to_string(),
            schemas: Schemas::default(),
            backends: storage::Known::default(),
            flights: Flights::default(),
            changes: watch::Sender::new(0),
            counted: Counted::default(),
            clock,
            at_work: watch::Sender::new(0),
        })))
    }

    /// Wraps the hub's data keys by the newest version of the named key; tells how many were under an older one.
    pub async fn rewrap(&self) -> Result<usize, Error> {
        self.0.sealing.rewrap().await
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn db(&self) -> &Db {
        &self.0.db
    }

    pub(crate) fn sealing(&self) -> &Sealing {
        &self.0.sealing
    }

    pub(crate) fn connector(&self) -> &dyn Connect {
        &*self.0.connect
    }

    pub(crate) fn process(&self) -> &str {
        &self.0.process
    }

    pub(crate) fn known_backends(&self) -> &storage::Known {
        &self.0.backends
    }

    /// The time by which leases are compared: that of the database.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(crate) fn flights(&self) -> &Flights {
        &self.0.flights
    }

    pub(crate) fn counted(&self) -> &Counted {
        &self.0.counted
    }

    pub(crate) fn feed(&self) -> Feed {
        Feed(self.0.db.engine())
    }

    pub(crate) fn notifier(&self) -> &watch::Sender<u64> {
        &self.0.changes
    }

    /// A write that changes records: those who wait for changes are told.
    pub(crate) async fn change<T, F>(&self, body: F) -> Result<T, Error>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let done = self.0.db.write(body).await?;
        self.tell_of_changes();
        Ok(done)
    }

    pub(crate) fn tell_of_changes(&self) {
        self.0.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Does something to its end, even if nobody waits for it any more: what was begun with a backend is not left to others
    /// because a client went away.
    pub(crate) async fn to_the_end<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
        T: Send + 'static,
    {
        match self.spawn(work).await {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_cancelled) => Err(Error::Database(db::Error::Closed)),
        }
    }

    /// Does something that nobody waits for; who stops gives it time.
    pub(crate) fn in_the_background<F>(&self, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Whoever waits for it does so by what is at work.
        drop(self.spawn(work));
    }

    /// Waits until nothing is at work any more, or until this time is over: what is left then is settled by whoever looks
    /// after the journal next. Tells whether everything was done.
    pub async fn rest(&self, within: Duration) -> bool {
        let mut at_work = self.0.at_work.subscribe();
        tokio::time::timeout(within, at_work.wait_for(|count| *count == 0)).await.is_ok()
    }

    fn spawn<T, F>(&self, work: F) -> tokio::task::JoinHandle<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.0.at_work.send_modify(|count| *count += 1);
        let at_work = AtWork(self.clone());
        tokio::spawn(async move {
            let _at_work = at_work;
            work.await
        })
    }

    pub(crate) fn schemas(&self) -> &Schemas {
        &self.0.schemas
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.0.at_work.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hub").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
