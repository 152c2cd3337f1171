//! The door: a stream and its two ends, that of the consumer here and the task in `actor`.

use std::fmt;
use std::sync::Arc;

use kube::api::{ApiResource, DynamicObject};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::actor::Actor;
use crate::api::{Api, Found};
use crate::counters::{Counters, Figures};
use crate::event::{Event, Key, Uid};
use crate::failpoints::Step;
use crate::fence::Fence;
use crate::keys::{Keys, Open, StreamName};
use crate::ledger::{Ledger, Out};
use crate::queue::Queue;
use crate::{Error, Health, Settings, Source};

/// Follows one kind of one cluster. Whoever followed the same stream before, here or in another process, is ended.
///
/// ```no_run
/// # async fn consume(keys: watch::Keys, source: watch::Source) -> Result<(), watch::Error> {
/// let mut follower = watch::follow(&keys, source, watch::Settings::default()).await?;
/// let fence = follower.fence();
/// while let Some(batch) = follower.next_batch(1000).await {
///     // None: the kind or the cluster was removed while these were on their way.
///     let Some(_admission) = fence.enter().await else { break };
///     for delivery in batch {
///         match delivery.event() {
///             watch::Event::Applied(object) => { /* put the row */ }
///             watch::Event::Deleted(deleted) => { /* remove the row, if it has this uid */ }
///             watch::Event::Absent | watch::Event::Synced => {}
///         }
///         // Only when the row is durable. One that is dropped comes again.
///         delivery.acknowledge();
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub async fn follow(keys: &Keys, source: Source, settings: Settings) -> Result<Follower, Error> {
    let name = StreamName::new(&source.cluster, &source.resource);
    let resource = source.resource.clone();
    let (queue, fence) = (Arc::new(Queue::new(settings.queue)), Fence::new());
    let registration = Registration { keys: keys.clone(), name, queue: Arc::clone(&queue) };
    let (lease, known) =
        keys.lease(&registration.name, Open { fence: fence.clone(), queue: Arc::clone(&queue) }).await?;
    let (commands, orders) = mpsc::unbounded_channel();
    let started = Health::Listing { since: jiff::Timestamp::now() };
    let (reports, health) = watch::channel(started);
    let counters = Arc::new(Counters::default());
    let api = Api::new(source.clone(), &settings);
    let actor = Actor::new(
        crate::actor::Parts {
            api: api.clone(),
            filter: source.filter,
            guard: source.guard,
            keys: keys.clone(),
            lease,
            queue: Arc::clone(&queue),
            orders,
            health: reports,
            counters: Arc::clone(&counters),
            settings,
        },
        Ledger::inherit(known),
    );
    let handle = Handle { api, commands, queue, health, counters, fence, resource: Arc::new(resource) };
    Ok(Follower { handle, task: tokio::spawn(actor.run()), _registration: registration })
}

/// The consumer's end of a stream; dropping it ends the stream, and what was not acknowledged comes again to whoever
/// follows it next.
#[derive(Debug)]
pub struct Follower {
    handle: Handle,
    task: JoinHandle<()>,
    _registration: Registration,
}

impl Follower {
    /// The next event; `None` when the stream was removed or is followed anew.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.next_batch(1).await?.pop()
    }

    /// Waits for an event and takes those that are there, at most so many.
    pub async fn next_batch(&mut self, most: usize) -> Option<Vec<Delivery>> {
        let events = self.handle.queue.pop(most).await?;
        let deliver = |event| {
            let delivery = Delivery::new(event, &self.handle.commands);
            Step::HandedOut.hit();
            delivery
        };
        Some(events.into_iter().map(deliver).collect())
    }

    /// What can be shared with other tasks.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    pub fn health(&self) -> watch::Receiver<Health> {
        self.handle.health()
    }

    pub fn fence(&self) -> Fence {
        self.handle.fence.clone()
    }

    pub fn figures(&self) -> Figures {
        self.handle.figures()
    }

    /// See [`Handle::fetch`].
    pub async fn fetch(&self, key: &Key) -> Result<Fetched, Error> {
        self.handle.fetch(key).await
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a stream offers besides its events.
#[derive(Clone)]
pub struct Handle {
    api: Api,
    commands: mpsc::UnboundedSender<Command>,
    queue: Arc<Queue>,
    health: watch::Receiver<Health>,
    counters: Arc<Counters>,
    fence: Fence,
    resource: Arc<ApiResource>,
}

/// What a fetch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It is there; an `Applied` was queued if the stream did not know it as it is.
    Present,
    /// It is not; a `Deleted` was queued.
    Absent,
}

impl Handle {
    /// Reads one object from the API server (a quorum read) and queues what the stream did not know about it. An error
    /// says nothing about the object: no permission, a failing server and a time-out delete nothing.
    ///
    /// It does not wait for the consumer, so that the consumer itself may call it.
    pub async fn fetch(&self, key: &Key) -> Result<Fetched, Error> {
        self.counters.fetches.count();
        let found = self.api.find(key).await.map_err(|fault| Error::Fetch(fault.why()))?;
        let (reply, answer) = oneshot::channel();
        let order = Command::Fetched { key: key.clone(), found, reply };
        self.commands.send(order).map_err(|_ended| Error::Removed)?;
        answer.await.map_err(|_ended| Error::Removed)?
    }

    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    pub fn figures(&self) -> Figures {
        let (waiting, lag) = self.queue.waiting();
        self.counters.figures(waiting, lag)
    }

    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handle").field("kind", &self.resource.kind).finish_non_exhaustive()
    }
}

/// An event in the consumer's hands.
#[derive(Debug)]
pub struct Delivery {
    event: Event,
    awaited: Awaited,
    commands: mpsc::UnboundedSender<Command>,
    settled: bool,
}

/// What the task waits to hear of.
#[derive(Clone, Debug)]
pub(crate) enum Awaited {
    Nothing,
    Deletion(Uid, u64),
    /// The end of a list.
    List(u64),
}

impl Delivery {
    fn new(event: Out, commands: &mpsc::UnboundedSender<Command>) -> Delivery {
        let (event, awaited) = match event {
            Out::Applied(object) => (Event::Applied(object), Awaited::Nothing),
            Out::Deleted(deleted, sequence) => {
                let awaited = deleted.uid.clone().map_or(Awaited::Nothing, |uid| Awaited::Deletion(uid, sequence));
                (Event::Deleted(deleted), awaited)
            }
            Out::Absent => (Event::Absent, Awaited::Nothing),
            Out::Synced(sequence) => (Event::Synced, Awaited::List(sequence)),
        };
        Delivery { event, awaited, commands: commands.clone(), settled: false }
    }

    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The object of an `Applied`.
    pub fn applied(&self) -> Option<&DynamicObject> {
        if let Event::Applied(object) = &self.event { Some(object) } else { None }
    }

    /// The consumer has dealt with it, durably: of a deletion, the key goes; after the end of a list, the stream is synced.
    /// Nothing is waited for; if the process dies first, the deletion comes once more.
    pub fn acknowledge(mut self) {
        self.settled = true;
        let awaited = std::mem::replace(&mut self.awaited, Awaited::Nothing);
        if !matches!(awaited, Awaited::Nothing) {
            // When the stream has ended, the key stays and the deletion comes again.
            let _ = self.commands.send(Command::Acknowledged(awaited));
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.settled && !matches!(self.event, Event::Absent) {
            let awaited = std::mem::replace(&mut self.awaited, Awaited::Nothing);
            let _ = self.commands.send(Command::Dropped(awaited));
        }
    }
}

/// What the consumer's end asks of the task.
pub(crate) enum Command {
    Acknowledged(Awaited),
    Dropped(Awaited),
    Fetched { key: Key, found: Found, reply: oneshot::Sender<Result<Fetched, Error>> },
}

/// That the stream is followed here.
#[derive(Debug)]
struct Registration {
    keys: Keys,
    name: StreamName,
    queue: Arc<Queue>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.keys.release(&self.name, &self.queue);
    }
}
