//! A consumer for tests: follows a source into a mirror, as restlessly as it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use db::{Config, Db};
use kube::api::ApiResource;
use testbed::{Postgres, eventually};
use tokio::task::JoinHandle;
use watch::{Follower, Handle, Health, Keys, Settings, Source};

use crate::mirror::Mirror;

pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// A running consumer; ends, as by a dropped follower, when dropped.
pub(crate) struct Consumer {
    pub(crate) handle: Handle,
    task: JoinHandle<()>,
    stalled: Arc<AtomicBool>,
}

/// What a consumer does with some of its events, to see whether they come again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Careful,
    /// Drops the first, and one in so many of the others, before it looks at it.
    Drops(u32),
}

impl Consumer {
    pub(crate) async fn start(keys: &Keys, source: Source, mirror: &Mirror) -> Consumer {
        Consumer::start_as(keys, source, mirror, quick(), Manner::Careful).await
    }

    pub(crate) async fn start_as(
        keys: &Keys,
        source: Source,
        mirror: &Mirror,
        settings: Settings,
        manner: Manner,
    ) -> Consumer {
        let follower = watch::follow(keys, source, settings).await.unwrap();
        let (handle, stalled) = (follower.handle(), Arc::new(AtomicBool::new(false)));
        let task = tokio::spawn(consume(follower, mirror.clone(), Arc::clone(&stalled), manner));
        Consumer { handle, task, stalled }
    }

    pub(crate) fn stall(&self) {
        self.stalled.store(true, Ordering::SeqCst);
    }

    pub(crate) fn go_on(&self) {
        self.stalled.store(false, Ordering::SeqCst);
    }

    pub(crate) fn health(&self) -> Health {
        *self.handle.health().borrow()
    }

    pub(crate) async fn synced(&self) {
        eventually(LIMIT, || async {
            let health = self.health();
            if matches!(health, Health::Synced { .. }) { Ok(()) } else { Err(health) }
        })
        .await;
    }

    /// Ends it and waits for that, so that the mirror does not change any more.
    pub(crate) async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// Waits until the stream has ended by itself.
    pub(crate) async fn ended(mut self) {
        tokio::time::timeout(LIMIT, &mut self.task).await.expect("the stream ends").unwrap();
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn consume(mut follower: Follower, mirror: Mirror, stalled: Arc<AtomicBool>, manner: Manner) {
    let fence = follower.fence();
    let mut first = true;
    loop {
        while stalled.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let Some(batch) = follower.next_batch(fastrand::usize(1..50)).await else { return };
        // A moment in which the stream may be removed.
        tokio::task::yield_now().await;
        let Some(_admission) = fence.enter().await else { return };
        for delivery in batch {
            if let Manner::Drops(one_in) = manner
                && (first || fastrand::u32(..one_in) == 0)
            {
                first = false;
                drop(delivery);
                continue;
            }
            mirror.apply(delivery.event());
            delivery.acknowledge();
        }
    }
}

/// Settings for tests that wait for recoveries.
pub(crate) fn quick() -> Settings {
    Settings { longest_pause: Duration::from_secs(2), absent_pause: Duration::from_secs(1), ..Settings::default() }
}

pub(crate) async fn sqlite() -> Db {
    let directory = testbed::process::scratch("watch").unwrap();
    prepared(Config::sqlite(directory.join("watch.db"))).await
}

pub(crate) async fn postgres() -> Db {
    let server = Postgres::shared().unwrap();
    prepared(Config::postgres(server.url(&server.create_database().unwrap()))).await
}

pub(crate) async fn prepared(config: Config) -> Db {
    let db = Db::open(config).await.unwrap();
    db.migrate(&[watch::MIGRATIONS]).await.unwrap();
    db
}

pub(crate) async fn keys() -> Keys {
    Keys::new(sqlite().await, "test")
}

/// How many keys all sets of the consumer hold.
pub(crate) async fn known(keys: &Keys) -> u64 {
    keys.streams().await.unwrap().iter().map(|(_name, count)| count).sum()
}

pub(crate) fn erased<K: kube::Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}
