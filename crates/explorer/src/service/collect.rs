//! One kind of one cluster: from its stream into the index and the copy, and only then acknowledged.
//!
//! Words are worked out beside the runtime, batch by batch; a batch is taken in inside the fence of its stream, so that
//! nothing of a kind or a cluster that is removed comes after its removal; and a second half of the task acknowledges each batch
//! when the copy has it, so that nobody waits for the disk between two batches.
//!
//! When a stream has told everything for the first time, the rows are compared with what it told: whatever a crash left in the
//! copy and nowhere else goes then.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject};
use tokio::sync::mpsc;
use watch::{Delivery, Event, Follower, Handle};

use super::member::{self, Member};
use super::shared::Shared;
use crate::durable::Ticket;
use crate::failpoints::Step;
use crate::index::{Prepared, Preparer};
use crate::kinds::KindSpec;
use crate::row::{self, Key, Row};
use crate::status;

/// Events that are taken in at once.
const BATCH: usize = 500;
/// Batches that wait for the disk.
const AHEAD: usize = 16;
/// How often it is looked whether events wait for too long.
const LOOK: Duration = Duration::from_secs(1);

/// A kind that is collected.
#[derive(Clone, Debug)]
pub(crate) struct Collected {
    pub(crate) shared: Arc<Shared>,
    pub(crate) member: Arc<Member>,
    pub(crate) spec: KindSpec,
    pub(crate) resource: ApiResource,
}

/// What an event comes to.
enum Work {
    Put(Box<Prepared>),
    Delete(Key, Option<String>),
    Absent,
    Synced,
}

/// Batches on their way to the disk.
type Waiting = mpsc::Sender<(Ticket, Vec<Delivery>)>;

impl Collected {
    /// Takes in until the stream ends.
    pub(crate) async fn run(self, follower: Follower) {
        let (waiting, taken) = mpsc::channel(AHEAD);
        let handle = follower.handle();
        let take = self.take(follower, waiting);
        let mark = self.mark(&handle);
        // Taking in ends with the stream; what was taken in is acknowledged before this returns.
        let acknowledge = acknowledge(taken);
        tokio::select! {
            ((), ()) = async { tokio::join!(take, acknowledge) } => {}
            () = mark => {}
        }
    }

    async fn take(&self, mut follower: Follower, waiting: Waiting) {
        let (fence, handle) = (follower.fence(), follower.handle());
        let store = &self.shared.store;
        // What the stream has told since it began, until it has told everything.
        let mut told: Option<HashSet<(String, String)>> = Some(HashSet::new());
        while let Some(batch) = follower.next_batch(BATCH).await {
            Step::EventTaken.hit();
            let (this, preparer) = (self.clone(), store.preparer().clone());
            let prepare = move || {
                let work = batch.iter().map(|delivery| this.work(delivery.event(), &preparer)).collect::<Vec<_>>();
                (batch, work)
            };
            let Ok((batch, work)) = tokio::task::spawn_blocking(prepare).await else { return };
            if store.room().await.is_err() {
                return;
            }
            let mut missing = Vec::new();
            {
                let Some(_admission) = fence.enter().await else { return };
                for work in work {
                    missing.extend(self.apply(work, &mut told));
                }
            }
            self.shared.changed.bump();
            if waiting.send((store.flush(), batch)).await.is_err() {
                return;
            }
            for key in missing {
                // It was told and has no row, which should not be: it is told again.
                let fetched = handle.fetch(&watch::Key::new(&key.namespace, &key.name)).await;
                tracing::warn!(
                    kind = key.kind,
                    cluster = key.cluster,
                    ?fetched,
                    "an object without a row was asked for"
                );
            }
        }
    }

    fn apply(&self, work: Work, told: &mut Option<HashSet<(String, String)>>) -> Vec<Key> {
        let (store, metrics) = (&self.shared.store, &self.shared.metrics);
        let (cluster, KindSpec { group, kind, .. }) = (&self.member.name, &self.spec);
        let now = jiff::Timestamp::now().as_millisecond();
        match work {
            Work::Put(prepared) => {
                metrics.applied();
                if let Some(told) = told {
                    let key = &prepared.row().key;
                    told.insert((key.namespace.clone(), key.name.clone()));
                }
                drop(store.upsert(*prepared));
            }
            Work::Delete(key, uid) => {
                metrics.deleted();
                drop(store.delete(&key, uid.as_deref(), now));
                if let Some(told) = told {
                    told.remove(&(key.namespace, key.name));
                }
            }
            Work::Absent => {
                drop(store.remove_kind(cluster, group, kind));
                if let Some(told) = told {
                    told.clear();
                }
            }
            Work::Synced => {
                if let Some(told) = told.take() {
                    let (ticket, missing) = store.reconcile(cluster, group, kind, &told, now);
                    drop(ticket);
                    self.member.completed(group, kind);
                    return missing;
                }
            }
        }
        Vec::new()
    }

    fn work(&self, event: &Event, preparer: &Preparer) -> Work {
        match event {
            Event::Applied(object) => Work::Put(Box::new(preparer.prepare(self.row(object)))),
            Event::Deleted(deleted) => {
                let key = self.key(&deleted.key.namespace, &deleted.key.name);
                Work::Delete(key, deleted.uid.as_ref().map(|uid| uid.as_str().to_owned()))
            }
            Event::Absent => Work::Absent,
            Event::Synced => Work::Synced,
        }
    }

    /// What is kept of an object.
    fn row(&self, object: &DynamicObject) -> Row {
        let whole = serde_json::to_value(object).unwrap_or_default();
        let assessment = status::assess(&self.spec.group, &self.spec.kind, &whole);
        let metadata = &object.metadata;
        let named = watch::Key::of(object);
        Row {
            key: self.key(&named.namespace, &named.name),
            version: self.resource.version.clone(),
            resource: self.resource.plural.clone(),
            uid: watch::Uid::of(object).as_str().to_owned(),
            status: assessment.status,
            message: row::message(assessment.message),
            category: self.spec.category.clone(),
            labels: metadata.labels.clone().unwrap_or_default().into_iter().collect(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0.as_millisecond()),
            deleted_at: None,
            terminating: status::is_terminating(&whole),
            orphaned: false,
            body: whole.to_string(),
        }
    }

    fn key(&self, namespace: &str, name: &str) -> Key {
        Key {
            cluster: self.member.name.clone(),
            namespace: namespace.to_owned(),
            group: self.spec.group.clone(),
            kind: self.spec.kind.clone(),
            name: name.to_owned(),
        }
    }

    /// Marks rows as stale for as long as nothing is heard, or what is heard cannot be taken in, until the stream ends.
    async fn mark(&self, handle: &Handle) {
        let kind = Some((self.spec.group.as_str(), self.spec.kind.as_str()));
        let mut health = handle.health();
        let (mut told, mut behind, mut marked) = (true, None, None);
        loop {
            let lost = health.borrow_and_update().lost();
            // For how long grows with every look; since when does not.
            behind = member::behind(handle).map(|since| behind.unwrap_or(since));
            let since = lost.or(behind).map(jiff::Timestamp::as_millisecond);
            if told || since != marked {
                self.shared.store.set_stale(&self.member.name, kind, since);
                self.shared.changed.bump();
                marked = since;
            }
            told = tokio::select! {
                changed = health.changed() => {
                    if changed.is_err() {
                        // The other half sees the end by itself.
                        std::future::pending::<()>().await;
                    }
                    true
                }
                () = tokio::time::sleep(LOOK) => false,
            };
        }
    }
}

/// Acknowledges what the copy has. What it will never have comes again.
async fn acknowledge(mut taken: mpsc::Receiver<(Ticket, Vec<Delivery>)>) {
    while let Some((ticket, batch)) = taken.recv().await {
        if ticket.wait().await.is_err() {
            return;
        }
        Step::BeforeAcknowledge.hit();
        for delivery in batch {
            delivery.acknowledge();
        }
    }
}
