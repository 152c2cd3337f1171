//! The task of a stream: list, then watch, and begin again where something went wrong.
//!
//! It alone owns the ledger and writes the key set, so that nothing races. Whatever it waits for (the API server, a
//! pause, room in the queue), it attends to the consumer's commands meanwhile; it never waits for the consumer to take
//! an event. The position moves only after the keys of what was told are durable: a write that fails is told again. Keys that
//! go may take their time: word that something is gone waits for no disk.

mod recover;
mod report;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::api::DynamicObject;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

use crate::api::{Api, Found, Told};
use crate::counters::Counters;
use crate::event::{Key, Uid};
use crate::failpoints::Step;
use crate::fault::Fault;
use crate::follow::{Awaited, Command, Fetched};
use crate::keys::{Keys, Lease};
use crate::ledger::{Ledger, Out, Pass};
use crate::queue::Queue;
use crate::source::{Filter, Guard};
use crate::{Error, Health, Settings, Why};
use recover::Pauses;

/// How many objects of a list become durable in one transaction: whole pages up to this many, or to what the queue holds.
const BATCH: usize = 2000;
/// How long a watch that goes on after a loss says nothing when it has nothing to say: what happened meanwhile comes at
/// once, and so does word that it is too late for that.
const SETTLED: Duration = Duration::from_millis(500);
/// How many events of a watch that are there at once become durable in one transaction.
const CHUNK: usize = 256;
/// How long the stream waits until keys of acknowledged deletions are out of the set, before it goes on while they go.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a task is given.
pub(crate) struct Parts {
    pub(crate) api: Api,
    pub(crate) filter: Filter,
    pub(crate) guard: Guard,
    pub(crate) keys: Keys,
    pub(crate) lease: Lease,
    pub(crate) queue: Arc<Queue>,
    pub(crate) orders: mpsc::UnboundedReceiver<Command>,
    pub(crate) health: watch::Sender<Health>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) settings: Settings,
}

pub(crate) struct Actor {
    parts: Parts,
    ledger: Ledger,
    /// Acknowledged deletions whose keys are still in the set.
    acknowledged: Vec<Uid>,
    writing: Option<Writing>,
    /// The consumer dropped something: everything must be told again.
    again: bool,
    page: u32,
    pauses: Pauses,
    /// Between lists that a consumer asks for by dropping events.
    again_pauses: Pauses,
    /// Between questions for a kind that is not served.
    absent_pauses: Pauses,
    heard: jiff::Timestamp,
    /// The number of the last end of a list, until the consumer has taken it in.
    unconfirmed: Option<u64>,
    ground: Ground,
}

/// A write of keys that is under way. No other begins before its end, so that they take place in their order.
struct Writing {
    task: JoinHandle<Result<(), Error>>,
    /// So many of those that were acknowledged first are out of the set then.
    removed: usize,
}

/// How firmly the stream stands, from nothing to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ground {
    /// Something went wrong: it may be another cluster that answers.
    Lost,
    /// It is the same cluster; what happened meanwhile is not known yet.
    Trusted,
    /// Nothing was lost since the stream last knew everything.
    Unbroken,
    /// A watch is under way that has told everything up to now.
    Watching,
}

/// What the task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    List(Pass),
    Watch,
}

/// Whether waiting ends early when the consumer drops something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    ToTheEnd,
    UntilDropped,
}

impl Actor {
    pub(crate) fn new(parts: Parts, ledger: Ledger) -> Actor {
        let (page, pauses) = (parts.settings.page.max(1), Pauses::of(&parts.settings));
        let heard = jiff::Timestamp::now();
        let again_pauses = pauses.clone();
        let Settings { absent_pause, longest_absent_pause, .. } = parts.settings;
        let absent_pauses = Pauses::new(absent_pause, longest_absent_pause.max(absent_pause));
        Actor {
            parts,
            ledger,
            acknowledged: Vec::new(),
            writing: None,
            again: false,
            page,
            pauses,
            again_pauses,
            absent_pauses,
            heard,
            unconfirmed: None,
            ground: Ground::Trusted,
        }
    }

    pub(crate) async fn run(mut self) {
        let mut next = Next::List(Pass::Everything);
        loop {
            let done = match (self.trust().await, next) {
                (Err(fault), _) => Err(fault),
                (Ok(()), Next::List(pass)) => self.list(pass).await,
                (Ok(()), Next::Watch) => self.watch().await,
            };
            let done = match done {
                Ok(next) => Ok(next),
                Err(fault) => {
                    self.ground = Ground::Lost;
                    self.recover(fault, next).await
                }
            };
            match done {
                Ok(then) => next = then,
                // Only a removal gets here; see the Drop below.
                Err(_removed) => return,
            }
        }
    }

    /// After each fault the guard decides whether what answers is what was followed before.
    async fn trust(&mut self) -> Result<(), Fault> {
        if self.ground == Ground::Lost {
            let guard = self.parts.guard.clone();
            self.attend(guard.ask()).await?.map_err(Fault::Lost)?;
            self.ground = Ground::Trusted;
        }
        Ok(())
    }

    /// Hands out what is there, and at the end what is not there any more. If it fails, nothing was deleted.
    async fn list(&mut self, pass: Pass) -> Result<Next, Fault> {
        self.parts.counters.lists.count();
        self.ground = self.ground.min(Ground::Unbroken);
        self.report_listing();
        if pass == Pass::Everything {
            self.again = false;
        }
        self.ledger.begin(pass);
        let (mut next, mut version) = (None, None);
        loop {
            self.room().await?;
            let mut objects = Vec::new();
            loop {
                let page = self.parts.api.clone().page(next.take(), self.page);
                let page = self.attend(page).await??;
                self.heard();
                objects.extend(page.objects);
                // All pages are of the version of the first.
                version.get_or_insert(page.version);
                next = page.next;
                if next.is_none() || objects.len() >= BATCH.min(self.parts.settings.queue) {
                    break;
                }
            }
            let version = version.as_deref().unwrap_or_default();
            objects.retain(|object| self.parts.filter.takes(object));
            Step::Received.hit();
            let news = |object: &&DynamicObject| !self.ledger.overtakes_list(object, version);
            let new = self.new_keys(objects.iter().filter(news));
            self.make_durable(&new).await?;
            for object in objects {
                let out = self.ledger.listed(Box::new(object), version);
                self.push(out);
            }
            if next.is_none() {
                let out = self.ledger.end(version);
                Step::Compared.hit();
                self.push(out);
                self.ground = Ground::Unbroken;
                self.pauses.reset();
                self.page = self.parts.settings.page.max(1);
                return Ok(Next::Watch);
            }
        }
    }

    async fn watch(&mut self) -> Result<Next, Fault> {
        // What could not be written when it was acknowledged.
        self.forget().await?;
        let Some(position) = self.ledger.position().map(str::to_owned) else { return Ok(Next::List(Pass::Changes)) };
        self.parts.counters.watches.count();
        let begun = Instant::now();
        let time = self.parts.settings.watch;
        let events = self.attend(self.parts.api.clone().watch(position, time)).await??;
        if self.ground >= Ground::Unbroken {
            self.caught_up();
        }
        let mut events = pin!(events.ready_chunks(CHUNK.min(self.parts.settings.queue).max(1)));
        let silence = time + self.parts.settings.grace;
        let mut spoke = false;
        loop {
            self.room().await?;
            let patience = if self.ground == Ground::Watching { silence } else { SETTLED };
            let told = self.wait(Patience::UntilDropped, timeout(patience, events.next())).await?;
            match told {
                None => {
                    let pause = self.again_pauses.next();
                    self.attend(tokio::time::sleep(pause)).await?;
                    return Ok(Next::List(Pass::Everything));
                }
                Some(Err(_elapsed)) if self.ground != Ground::Watching => self.caught_up(),
                Some(Err(_elapsed)) => return Err(Fault::Lost(Why::Silent)),
                // A server that ends watches at once is in trouble; do not hammer it.
                Some(Ok(None)) if !spoke && begun.elapsed() < time / 4 => return Err(Fault::Lost(Why::Unreachable)),
                Some(Ok(None)) => {
                    self.again_pauses.reset();
                    return Ok(Next::Watch);
                }
                Some(Ok(Some(chunk))) => {
                    self.take(chunk).await?;
                    self.caught_up();
                    self.pauses.reset();
                    spoke = true;
                }
            }
        }
    }

    /// Takes what a watch told, up to the first fault in it.
    async fn take(&mut self, mut chunk: Vec<Told>) -> Result<(), Fault> {
        let fault = chunk.iter().position(|told| matches!(told, Told::Fault(_)));
        let fault = fault.and_then(|position| chunk.drain(position..).next());
        Step::Received.hit();
        let applied = chunk.iter().filter_map(|told| match told {
            Told::Applied(object) if self.parts.filter.takes(object) => Some(&**object),
            _ => None,
        });
        let new = self.new_keys(applied.filter(|object| !self.ledger.overtakes_watch(object)));
        self.make_durable(&new).await?;
        for told in chunk {
            let out = match told {
                Told::Applied(object) if self.parts.filter.takes(&object) => self.ledger.applied(object),
                Told::Applied(object) => self.ledger.left(object),
                Told::Deleted(object) => self.ledger.deleted(object),
                Told::Bookmark(version) => {
                    self.parts.counters.bookmarks.count();
                    self.ledger.bookmark(&version);
                    Vec::new()
                }
                Told::Fault(_) => Vec::new(),
            };
            self.push(out);
        }
        match fault {
            Some(Told::Fault(fault)) => Err(fault),
            _ => Ok(()),
        }
    }

    /// The keys of those that are not known yet. Only of what will be handed out: nobody would remove the others.
    fn new_keys<'a>(&self, objects: impl Iterator<Item = &'a DynamicObject>) -> Vec<(Key, Uid)> {
        let keys = objects.map(|object| (Key::of(object), Uid::of(object)));
        keys.filter(|(key, uid)| self.ledger.lacks(key, uid)).collect()
    }

    /// Adds keys to the set, before any of their objects is handed out.
    async fn make_durable(&mut self, new: &[(Key, Uid)]) -> Result<(), Fault> {
        if !new.is_empty() {
            let deadline = tokio::time::Instant::now() + self.parts.settings.deadline;
            self.written(deadline).await?;
            self.write(new);
            self.written(deadline).await?;
        }
        Step::KeysWritten.hit();
        Ok(())
    }

    /// Takes what was acknowledged out of the set, now or later.
    async fn forget(&mut self) -> Result<(), Fault> {
        let now = tokio::time::Instant::now();
        if let Err(Fault::Removed) = self.written(now).await {
            return Err(Fault::Removed);
        }
        if self.writing.is_some() || self.acknowledged.is_empty() {
            return Ok(());
        }
        self.write(&[]);
        match self.written(now + PATIENCE).await {
            Err(Fault::Removed) => Err(Fault::Removed),
            // They go with the next write.
            Err(_later) => Ok(()),
            Ok(()) => {
                Step::KeysRemoved.hit();
                Ok(())
            }
        }
    }

    /// Begins to write keys: what was acknowledged goes, these come. Nothing else is being written.
    fn write(&mut self, new: &[(Key, Uid)]) {
        let (keys, lease) = (self.parts.keys.clone(), self.parts.lease);
        let (remove, add, removed) = (self.acknowledged.clone(), new.to_vec(), self.acknowledged.len());
        let task = tokio::spawn(async move { keys.change(lease, &remove, &add).await });
        self.writing = Some(Writing { task, removed });
    }

    /// Waits for the write that is under way, if there is one.
    async fn written(&mut self, until: tokio::time::Instant) -> Result<(), Fault> {
        let Some(Writing { task, removed }) = &mut self.writing else { return Ok(()) };
        let Ok(done) = timeout_at(until, task).await else { return Err(Fault::Lost(Why::Keys)) };
        let removed = *removed;
        self.writing = None;
        match done {
            Ok(Ok(())) => {
                self.acknowledged.drain(..removed);
                Ok(())
            }
            Ok(Err(Error::Removed)) => Err(Fault::Removed),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the set of known objects could not be written");
                Err(Fault::Lost(Why::Keys))
            }
            // It ended early, with the runtime.
            Err(_ended) => Err(Fault::Lost(Why::Keys)),
        }
    }

    fn push(&mut self, out: Vec<Out>) {
        let mut unconfirmed = None;
        for event in out {
            match &event {
                Out::Applied(_) => self.parts.counters.applied.count(),
                Out::Deleted(..) => self.parts.counters.deleted.count(),
                Out::Synced(sequence) => unconfirmed = Some(*sequence),
                Out::Absent => {}
            }
            self.parts.queue.push(event);
        }
        self.unconfirmed = unconfirmed.or(self.unconfirmed);
    }

    async fn room(&mut self) -> Result<(), Fault> {
        let queue = Arc::clone(&self.parts.queue);
        self.attend(async move { queue.room().await }).await
    }

    /// Waits for `work`, and obeys meanwhile.
    async fn attend<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Fault> {
        match self.wait(Patience::ToTheEnd, work).await? {
            Some(done) => Ok(done),
            // Cannot be: nothing ends this wait early.
            None => Err(Fault::Removed),
        }
    }

    async fn wait<T>(&mut self, patience: Patience, work: impl Future<Output = T>) -> Result<Option<T>, Fault> {
        let mut work = pin!(work);
        let queue = Arc::clone(&self.parts.queue);
        loop {
            if self.again && patience == Patience::UntilDropped {
                return Ok(None);
            }
            tokio::select! {
                biased;
                () = queue.closed() => return Err(Fault::Removed),
                Some(command) = self.parts.orders.recv() => self.obey(command).await?,
                done = &mut work => return Ok(Some(done)),
            }
        }
    }

    /// Obeys what there is to obey; acknowledgements that came together go together.
    async fn obey(&mut self, first: Command) -> Result<(), Fault> {
        let mut command = Some(first);
        while let Some(current) = command {
            match current {
                Command::Acknowledged(awaited) => self.acknowledged(awaited),
                Command::Dropped(awaited) => {
                    if let Awaited::Deletion(uid, sequence) = awaited {
                        self.ledger.dropped(&uid, sequence);
                    }
                    self.again = true;
                }
                Command::Fetched { key, found, reply } => {
                    let fetched = self.fetched(&key, found).await;
                    let removed = matches!(fetched, Err(Error::Removed));
                    // Whoever asked may have left.
                    let _ = reply.send(fetched);
                    if removed {
                        return Err(Fault::Removed);
                    }
                }
            }
            command = self.parts.orders.try_recv().ok();
        }
        if self.acknowledged.is_empty() {
            return Ok(());
        }
        Step::Acknowledged.hit();
        self.forget().await
    }

    fn acknowledged(&mut self, awaited: Awaited) {
        match awaited {
            Awaited::Nothing => {}
            Awaited::Deletion(uid, sequence) => {
                if self.ledger.acknowledged(&uid, sequence) {
                    self.acknowledged.push(uid);
                }
            }
            Awaited::List(sequence) => {
                self.unconfirmed = self.unconfirmed.filter(|awaited| *awaited != sequence);
                self.report_synced();
            }
        }
    }

    async fn fetched(&mut self, key: &Key, found: Found) -> Result<Fetched, Error> {
        let Found { object, version } = found;
        let out = match object {
            Some(object) if self.parts.filter.takes(&object) => {
                let news = self.ledger.is_news(key, &version);
                let new = self.new_keys(std::iter::once(&*object).filter(|_| news));
                let durable = self.make_durable(&new).await;
                durable.map_err(|fault| match fault {
                    Fault::Removed => Error::Removed,
                    other => Error::Fetch(other.why()),
                })?;
                self.ledger.fetched(object, &version)
            }
            other => self.ledger.missed(key, &version, other),
        };
        self.push(out);
        Ok(if self.ledger.has(key) { Fetched::Present } else { Fetched::Absent })
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // However the task ends, also by a panic in a filter, the consumer must not wait for ever.
        self.parts.queue.close();
        self.parts.health.send_replace(Health::Removed);
    }
}
