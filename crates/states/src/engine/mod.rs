//! The engine: locks, versions, uploads and history, the same on every store.
//!
//! The door is [`States`], which finds the store of a namespace, and [`State`], one state in its store. Every change is
//! one swap of the head, decided anew on what is there each time (see [`change`](self)); everything that a head names is
//! already in the store when the head begins to name it.

mod change;
mod chunks;
mod history;
mod inspect;
mod listing;
mod locking;
mod outputs;
mod read;
mod restore;
mod rollback;
mod sweep;
mod tombstone;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use access::Pattern;
use jiff::SignedDuration;

use crate::Error;
use crate::codec;
use crate::head::Head;
use crate::key::Key;
use crate::lock::{Owners, Rules};
use crate::store::{Expect, Found, Store};

pub use inspect::{Differences, ResourcePage, ResourceQuery};
pub(crate) use listing::{Found as FoundState, each_head};
pub use locking::{Force, Unlocked};
pub use outputs::Outputs;
pub use read::Reading;
pub use rollback::RolledBack;
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
    pub times: Times,
}

/// How long things may take that others wait for.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For the chunks of one upload, once its body is here.
    pub upload: Duration,
    /// How long chunks stay that a head named before, for those who are reading them.
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
        States(Arc::new(Inner { stores, settings: Arc::new(settings) }))
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
        State { store, key, settings: self.0.settings.clone(), owners: Owners::ToldApart }
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
    owners: Owners,
}

impl State {
    /// The same state, where whoever knows the ID of a lock is its holder.
    #[must_use]
    pub fn with_owners(self, owners: Owners) -> State {
        State { owners, ..self }
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// What the head says now.
    pub async fn head(&self) -> Result<Option<Head>, Error> {
        Ok(self.store.read_head(&self.key).await?.map(|found| found.head))
    }

    async fn found(&self) -> Result<(Head, Expect), Error> {
        Ok(match self.store.read_head(&self.key).await? {
            None => (Head::new(), Expect::Nothing),
            Some(Found { head, revision }) => (head, Expect::Revision(revision)),
        })
    }

    fn rules(&self) -> Rules {
        let expiry = self.settings.lock_expiry.and_then(|expiry| SignedDuration::try_from(expiry).ok());
        Rules { expiry, owners: self.owners }
    }
}
