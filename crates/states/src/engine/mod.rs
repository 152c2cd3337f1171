//! The engine: locks, versions, uploads and history, the same on every store.
//!
//! The door is [`States`], which finds the store of a namespace, and [`State`], one state in its store. Every change is
//! one swap of the head, decided anew on what is there each time (see [`change`](self)); everything that a head names is
//! already in the store when the head begins to name it.

mod chain;
mod change;
mod chunks;
mod difference;
mod history;
mod inspect;
mod listing;
mod locking;
mod loss;
mod manifest;
mod memory;
mod outputs;
mod read;
mod rebuild;
mod reseal;
mod restore;
mod rollback;
mod seal;
mod shrink;
mod sweep;
mod tombstone;
mod upkeep;
mod write;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use access::Pattern;
use futures::future::BoxFuture;
use jiff::SignedDuration;

use crate::Error;
use crate::codec;
use crate::head::{Head, StateKey};
use crate::key::Key;
use crate::lock::{Owners, Rules};
use crate::metrics::Metrics;
use crate::store::{Expect, Found, Store, StoreError, Swapped};
use crate::uploads::Uploads;

use memory::Memory;
use upkeep::Upkeep;

pub use inspect::{Differences, ResourcePage, ResourceQuery};
pub(crate) use listing::{Found as FoundState, each_head};
pub(crate) use locking::Ends;
pub use locking::{Force, Unlocked};
pub use outputs::Outputs;
pub use read::Reading;
pub use rollback::RolledBack;
pub use seal::Sealing;
pub use write::Written;

/// What the engine is told.
#[derive(Clone, Debug)]
pub struct Settings {
    pub lock_expiry: Option<Duration>,
    pub forced_unlock: ForcedUnlock,
    /// How many versions are kept at least, the current one included.
    pub versions: usize,
    /// Versions older than this go, also when there are few; the current one stays.
    pub version_age: Option<Duration>,
    pub codec: codec::Limits,
    /// Where uploads wait that are too large for memory.
    pub spool: PathBuf,
    /// How many uploads larger than a first piece may be under way at once: each takes some memory.
    pub uploads: usize,
    /// Bytes per second below which an upload loses its place to one that waits; 0: never.
    pub upload_rate: u64,
    /// The largest LockInfo.
    pub lock_info_bytes: usize,
    pub stored_bytes: StoredBytes,
    pub times: Times,
    pub sealing: Sealing,
}

/// How many bytes one state with its older versions may take of a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredBytes {
    /// Where the store is not made for much; `None`: what the store says itself.
    pub in_cluster: Option<u64>,
    pub elsewhere: Option<u64>,
}

/// How long things may take that others wait for.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For the chunks of one upload, once its body is here.
    pub upload: Duration,
    /// How long chunks stay of versions that are dropped or sealed, for those who are reading them.
    pub linger: Duration,
    /// How long chunks stay whose head vanished.
    pub grace: Duration,
    /// How far the clocks of two servers may be apart.
    pub skew: Duration,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            upload: Duration::from_mins(60),
            linger: Duration::from_mins(60),
            grace: Duration::from_hours(7 * 24),
            skew: Duration::from_mins(5),
        }
    }
}

/// Whether locks can be broken over HTTP at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedUnlock {
    WithPermission,
    Off,
}

/// All states of this server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct States(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stores: Stores,
    settings: Arc<Settings>,
    uploads: Uploads,
    metrics: Metrics,
    upkeep: Arc<Upkeep>,
    memory: Arc<Memory>,
}

/// Which store keeps what.
#[derive(Clone, Debug)]
pub struct Stores {
    /// The first whose pattern matches the namespace counts.
    pub routes: Vec<(Pattern, Arc<dyn Store>)>,
    /// For namespaces that no route names.
    pub default: Arc<dyn Store>,
    /// Stores that are reached in another way, for the sweeper.
    pub others: Vec<Arc<dyn Store>>,
}

impl States {
    pub fn new(stores: Stores, settings: Settings) -> States {
        States::measured(stores, settings, Metrics::default())
    }

    /// With counters that somebody reads.
    pub fn measured(stores: Stores, settings: Settings, metrics: Metrics) -> States {
        let uploads = Uploads::new(settings.uploads, settings.upload_rate);
        let (settings, upkeep, memory) = (Arc::new(settings), Arc::default(), Arc::default());
        States(Arc::new(Inner { stores, settings, uploads, metrics, upkeep, memory }))
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn uploads(&self) -> &Uploads {
        &self.0.uploads
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// One state, in the store of its namespace.
    pub fn at(&self, key: Key) -> State {
        let Stores { routes, default, .. } = &self.0.stores;
        let routed = routes.iter().find(|(pattern, _)| pattern.matches(key.namespace()));
        let store = routed.map_or(default, |(_, store)| store).clone();
        self.in_store(store, key)
    }

    /// One state, in a store that does not follow from its namespace.
    pub fn in_store(&self, store: Arc<dyn Store>, key: Key) -> State {
        let Inner { settings, upkeep, memory, .. } = &*self.0;
        let (settings, upkeep, memory) = (settings.clone(), upkeep.clone(), memory.clone());
        let (owners, seen_key, glimpse, creating) = (Owners::ToldApart, Arc::default(), Arc::default(), Creating(None));
        State { store, key, settings, upkeep, memory, owners, seen_key, glimpse, creating }
    }

    /// Every store once.
    pub fn stores(&self) -> Vec<Arc<dyn Store>> {
        let Stores { routes, default, others } = &self.0.stores;
        let mut stores: Vec<Arc<dyn Store>> = vec![default.clone()];
        for store in routes.iter().map(|(_, store)| store).chain(others) {
            if stores.iter().all(|known| known.name() != store.name()) {
                stores.push(store.clone());
            }
        }
        stores
    }
}

/// One state.
#[derive(Clone, Debug)]
pub struct State {
    store: Arc<dyn Store>,
    key: Key,
    settings: Arc<Settings>,
    upkeep: Arc<Upkeep>,
    memory: Arc<Memory>,
    owners: Owners,
    /// The key that the head had when it was read last.
    seen_key: Arc<Mutex<Option<StateKey>>>,
    /// A head that was looked at for the sake of a change which is still to come.
    glimpse: Arc<Mutex<Option<Glimpse>>>,
    creating: Creating,
}

/// A head that a change begins with.
struct Glimpse {
    head: Head,
    expected: Expect,
    /// It was not read just now: it is good for a swap, and for no answer.
    remembered: bool,
}

/// Whether somebody who was let in to change a state may make a new one, asked when it turns out not to be there.
#[derive(Clone)]
struct Creating(Option<Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>>);

impl State {
    /// The same state, where whoever knows the ID of a lock is its holder.
    #[must_use]
    pub fn with_owners(self, owners: Owners) -> State {
        State { owners, ..self }
    }

    /// The same state, for a change by somebody who was let in because it is there: should it not be, `may` decides.
    #[must_use]
    pub fn asking_to_create(self, may: impl Fn() -> BoxFuture<'static, bool> + Send + Sync + 'static) -> State {
        State { creating: Creating(Some(Arc::new(may))), ..self }
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// What the head says now.
    pub async fn head(&self) -> Result<Option<Head>, Error> {
        let found = self.store.read_head(&self.key).await?;
        self.memory.compare(self.store.name(), &self.key, found.as_ref().map(|found| &found.revision));
        Ok(found.map(|found| self.seen(found.head)))
    }

    /// What the head says now, for somebody who is about to change it: the change begins with this head in place of
    /// reading it once more. Should it be another by then, the swap fails and the change reads it anew.
    pub async fn look(&self) -> Result<Option<Head>, Error> {
        let (head, expected) = self.found().await?;
        let there = (expected != Expect::Nothing).then(|| head.clone());
        self.begin_with(Some(Glimpse { head, expected, remembered: false }));
        Ok(there)
    }

    /// Whether the state is there, for somebody who is about to change it, as far as this server remembers: should it be
    /// gone by then, whoever may not create is refused (see [`State::asking_to_create`]).
    pub async fn is_there(&self) -> Result<bool, Error> {
        let remembered = self.remembered();
        let is_there = remembered.is_some();
        self.begin_with(remembered);
        Ok(is_there || self.look().await?.is_some())
    }

    fn begin_with(&self, glimpse: Option<Glimpse>) {
        *self.glimpse.lock().unwrap_or_else(PoisonError::into_inner) = glimpse;
    }

    /// What a change begins with, if it need not read.
    fn beginning(&self) -> Option<Glimpse> {
        let glimpse = self.glimpse.lock().unwrap_or_else(PoisonError::into_inner).take();
        glimpse.or_else(|| self.remembered())
    }

    fn remembered(&self) -> Option<Glimpse> {
        let Found { head, revision } = self.memory.take(self.store.name(), &self.key)?;
        Some(Glimpse { head: self.seen(head), expected: Expect::Revision(revision), remembered: true })
    }

    /// What a swap left in the store.
    fn swapped(&self, head: Head, swapped: Swapped) {
        let found = match swapped {
            Swapped::AsGiven(revision) => Found { head, revision },
            Swapped::AsKept(found) => *found,
            Swapped::Unknown => return,
        };
        self.memory.keep(self.store.name(), &self.key, found);
    }

    async fn found(&self) -> Result<(Head, Expect), Error> {
        Ok(match self.store.read_head(&self.key).await? {
            None => (Head::new(), Expect::Nothing),
            Some(Found { head, revision }) => (self.seen(head), Expect::Revision(revision)),
        })
    }

    fn seen(&self, head: Head) -> Head {
        if head.seal.is_some() {
            self.seen_key.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&head.seal);
        }
        head
    }

    fn seen_key(&self) -> Option<StateKey> {
        self.seen_key.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How much of the store this state may take, and the setting that says so.
    fn most_stored(&self) -> Option<(u64, &'static str)> {
        let StoredBytes { in_cluster, elsewhere } = self.settings.stored_bytes;
        match self.store.limits().room {
            Some(own) => Some((in_cluster.unwrap_or(own), "states.cluster_bytes")),
            None => elsewhere.map(|most| (most, "states.stored_bytes")),
        }
    }

    /// Refuses what would take too much of the store.
    fn fits(&self, bytes: u64) -> Result<(), Error> {
        match self.most_stored().filter(|(most, _)| bytes > *most) {
            None => Ok(()),
            Some((most, setting)) => {
                let text = format!("the state and its older versions would take more than {most} bytes: see {setting}");
                Err(StoreError::TooLarge(text).into())
            }
        }
    }

    fn rules(&self) -> Rules {
        let expiry = self.settings.lock_expiry.and_then(|expiry| SignedDuration::try_from(expiry).ok());
        Rules { expiry, owners: self.owners }
    }
}

impl fmt::Debug for Glimpse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Glimpse").field("remembered", &self.remembered).finish_non_exhaustive()
    }
}

impl fmt::Debug for Creating {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Creating")
    }
}
