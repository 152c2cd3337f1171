//! Records that get another backend: all versions are copied and read back before the new place counts, and the old copy
//! goes after that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use backends::{Code, Mode};
use db::Tx;
use jiff::Timestamp;

use crate::failpoints::Step;
use crate::hub::Hub;
use crate::journal::{Fate, Intent, IntentState, Operation, Settled, keep, too_late};
use crate::model::Record;
use crate::rules::locks::holds;
use crate::rules::texts::{self, Fault};
use crate::storage::{Backend, Call, Destination, Landed, Trouble, Wanted};
use crate::store::{Copied, Moving, VersionId, rows};
use crate::{Error, Json, Reason};

/// A record in its new place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub id: String,
    pub from: String,
    pub to: String,
    /// Whether the old backend still has its copy, which goes as soon as that answers.
    pub old_copy: OldCopy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldCopy {
    Gone,
    StillThere,
}

/// Why a copy failed, and whether something of it may be there.
struct NotCopied {
    error: Error,
    landed: Landed,
}

impl Hub {
    /// Moves records to another backend, one after another; one that fails ends it, and stays where it was. `owner` is who
    /// does it, where they are locked.
    pub async fn move_records(&self, ids: Vec<String>, to: &str, owner: Option<String>) -> Result<Vec<Moved>, Error> {
        let unknown = || Error::refused(Reason::NotFound, texts::unknown_backends(&[to.to_owned()]).text);
        let to = self.named_destination(to).await?.ok_or_else(unknown)?;
        let mut moved = Vec::with_capacity(ids.len());
        for id in ids {
            let (hub, to, owner) = (self.clone(), to.clone(), owner.clone());
            moved.extend(self.to_the_end(async move { hub.move_record(&id, &to, owner).await }).await?);
        }
        Ok(moved)
    }

    /// `None` if it is there already.
    pub(super) async fn move_record(
        &self,
        id: &str,
        to: &Destination,
        owner: Option<String>,
    ) -> Result<Option<Moved>, Error> {
        let failed = |fault: &Fault| texts::moving(id, fault);
        let Some(record) = self.records(&[id.to_owned()]).await?.pop() else {
            return Err(failed(&Fault::not_found(&[id.to_owned()])));
        };
        if record.backend == to.id() {
            return Ok(None);
        }
        let released = self.release_expired([record.clone()]).await;
        released.map_err(|not_held| not_held.told(texts::unlock))?;
        let told = |error: Error| Fault::of(error).map_or_else(|error| error, |fault| failed(&fault));
        let moving = self.plan_move(&record, to, owner).await.map_err(told)?;
        let operation = Operation::begin(self);
        let reserve = {
            let (moving, operation) = (moving.clone(), operation.clone());
            self.db().write(move |tx| moving.reserve(tx, &operation))
        };
        let mut intent = reserve.await?;
        Step::MoveReserved.hit();
        let copies = match self.copy(&moving, to, &mut intent).await {
            Ok(copies) => copies,
            Err(NotCopied { error, landed }) => {
                let fate = if landed == Landed::No { Fate::Nothing } else { Fate::UndoTwice };
                self.give_up(&operation, vec![(intent, fate)]).await?;
                return Err(told(error));
            }
        };
        Step::MoveBeforeSwitch.hit();
        let times = &self.settings().times;
        let now = self.now();
        let old = Intent {
            context: moving.old_context.clone(),
            lease_until: now.checked_add(times.phase() + times.margin).unwrap_or(Timestamp::MAX),
            deadline: now,
            ..intent.clone()
        };
        let switch = {
            let (moving, old) = (moving.clone(), old.clone());
            self.change(move |tx| moving.switch(tx, &old, &copies))
        };
        if let Err(error) = switch.await {
            self.give_up(&operation, vec![(intent, Fate::UndoTwice)]).await?;
            return Err(told(error));
        }
        Step::MoveSwitched.hit();
        let old_copy = if record.is_kept_here() {
            OldCopy::Gone
        } else {
            match self.settle(Intent { state: IntentState::Forward, ..old }).await? {
                Settled::Over => OldCopy::Gone,
                Settled::Later => OldCopy::StillThere,
            }
        };
        Step::MoveCleaned.hit();
        Ok(Some(Moved { id: record.id, from: record.backend, to: to.id().to_owned(), old_copy }))
    }

    /// What is to be copied, if the new backend takes it.
    async fn plan_move(&self, record: &Record, to: &Destination, owner: Option<String>) -> Result<Moving, Error> {
        if record.is_built_in() {
            return Err(Error::invalid("it is the built-in storage backend, which stays"));
        }
        if let (true, Destination::External(_)) = (record.storage, to) {
            let text =
                "it is a storage backend, and must be readable when others are not; only the built-in one takes it";
            return Err(Error::invalid(text));
        }
        let versions: Vec<_> =
            (1..=record.latest).map(|number| VersionId { record: record.id.clone(), number }).collect();
        if takes_contexts_only(to) && !self.has_no_values(record).await? {
            return Err(Error::invalid(format!("External backend \"{}\": input value not allowed", to.id())));
        }
        let mut known = self.contexts(&versions).await?;
        let mut contexts = BTreeMap::new();
        let mut old_context = None;
        for version in versions {
            let context = known.remove(&version).transpose()?;
            contexts.insert(version.number, fitting(to, context.as_ref())?);
            old_context = context;
        }
        // What takes contexts only keeps nothing that a move could overwrite or delete.
        if let (Destination::External(backend), false) = (to, takes_contexts_only(to)) {
            self.must_not_have(backend, record, contexts.get(&1).and_then(Option::as_ref)).await?;
        }
        let (unlocked, now, feed) = (self.sealing().unlock().await?, self.now(), self.feed());
        let to = to.id().to_owned();
        Ok(Moving { record: record.clone(), to, owner, contexts, old_context, unlocked, now, feed })
    }

    /// Whether nothing of a record but contexts is kept where it is: no value was ever written, so that none needs to be read.
    async fn has_no_values(&self, record: &Record) -> Result<bool, Error> {
        if matches!(self.destination(&record.backend).await, Ok(from) if takes_contexts_only(&from)) {
            return Ok(true);
        }
        let id = record.id.clone();
        let values = self.db().read(move |tx| rows::values_of(tx, &id)).await?;
        Ok(values.into_iter().all(|has_value| has_value == Some(false)))
    }

    /// Two backends may be one place: what is there already is not ours to overwrite, nor to delete when it has to be undone.
    async fn must_not_have(&self, backend: &Backend, record: &Record, context: Option<&Json>) -> Result<(), Error> {
        let call = Call::reading(&record.id, self.settings().times.read);
        match backend.value(&call, 1, context).await {
            Ok(None) => Ok(()),
            Err(trouble) if trouble.code == Code::NotFound => Ok(()),
            Err(trouble) => Err(trouble.error()),
            Ok(Some(_)) => {
                let text = format!("the backend \"{}\" has a value for it already; remove that first", backend.id);
                Err(Error::refused(Reason::Conflict, text))
            }
        }
    }

    async fn copy(&self, moving: &Moving, to: &Destination, intent: &mut Intent) -> Result<Vec<Copied>, NotCopied> {
        let mut copies: Vec<Copied> = Vec::with_capacity(moving.contexts.len());
        let mut landed = Landed::No;
        for (&version, context) in &moving.contexts {
            self.hold(intent).await.map_err(|error| NotCopied { error, landed })?;
            let value = if takes_contexts_only(to) {
                // The old backend is not needed, and may be gone.
                None
            } else {
                let value = self.value(&moving.record.id, version).await;
                value.map_err(|error| NotCopied { error, landed })?.filter(|value| !value.is_null())
            };
            let has_value = value.is_some();
            let Destination::External(backend) = to else {
                copies.push(Copied { version, value, context: context.clone(), has_value });
                continue;
            };
            let wanted = Wanted {
                version,
                value,
                context: context.clone(),
                old_context: copies.last().and_then(|copied| copied.context.clone()),
                owner: None,
            };
            let copied = self.copy_version(backend, intent, &wanted).await;
            let context = copied.map_err(|trouble| {
                let landed = if copies.is_empty() { trouble.landed } else { Landed::Perhaps };
                NotCopied { error: trouble.error(), landed }
            })?;
            Step::MoveCopied.hit();
            landed = Landed::Perhaps;
            intent.context.clone_from(&context);
            copies.push(Copied { version, value: None, context, has_value });
        }
        let lock = moving.record.lock.as_ref().filter(|lock| holds(lock, self.now()));
        if let (Destination::External(backend), Some(lock)) = (to, lock) {
            let context = copies.last().and_then(|copied| copied.context.as_ref());
            let call = self.call_now(intent, moving.record.latest);
            let locked = backend.lock(&call, context, &lock.owner).await;
            locked.map_err(|trouble| NotCopied { error: trouble.error(), landed: Landed::Perhaps })?;
        }
        Ok(copies)
    }

    /// Writes a version and reads it back.
    async fn copy_version(
        &self,
        backend: &Arc<Backend>,
        intent: &Intent,
        wanted: &Wanted,
    ) -> Result<Option<Json>, Trouble> {
        let call = self.call_now(intent, wanted.version);
        let context = match wanted.version {
            1 => backend.create(&call, wanted).await?,
            _ => backend.update(&call, wanted).await?,
        };
        let call = self.call_now(intent, wanted.version);
        // One that makes values of contexts has to make one of this.
        let found = backend.kept_value(&call, wanted.version, context.as_ref(), None).await;
        let found = found.map_err(|trouble| Trouble { landed: Landed::Perhaps, ..trouble })?;
        if backend.config.mode == Mode::Context || found == wanted.value {
            return Ok(context);
        }
        let text = format!("External backend \"{}\": version {} came back otherwise", backend.id, wanted.version);
        Err(Trouble { landed: Landed::Perhaps, ..Trouble::new(Code::Internal, text) })
    }

    fn call_now<'a>(&self, intent: &'a Intent, version: u32) -> Call<'a> {
        let until = Instant::now() + self.settings().times.call;
        Call { record: &intent.record, key: format!("{}:{version}", intent.id), until }
    }

    /// A move may take longer than other changes: its lease is renewed as it goes on.
    async fn hold(&self, intent: &mut Intent) -> Result<(), Error> {
        let times = &self.settings().times;
        let after = |time| self.now().checked_add(time).unwrap_or(Timestamp::MAX);
        intent.lease_until = after(times.phase() + times.margin);
        intent.deadline = after(times.phase() + times.grace);
        let held = intent.clone();
        let is_ours = self.db().write(move |tx: &mut Tx<'_>| keep(tx, &held)).await?;
        if is_ours { Ok(()) } else { Err(too_late()) }
    }
}

fn takes_contexts_only(destination: &Destination) -> bool {
    destination.external().is_some_and(|backend| backend.config.mode == Mode::Context)
}

/// What the new backend is told of a version: its context if that fits, else none if none is needed.
fn fitting(to: &Destination, context: Option<&Json>) -> Result<Option<Json>, Error> {
    let Destination::External(backend) = to else { return Ok(None) };
    let fits = |context: &&Json| backend.config.input_faults(None, Some(context)).is_empty();
    let context = context.filter(fits);
    let faults = backend.config.input_faults(None, context);
    if faults.is_empty() {
        return Ok(context.cloned());
    }
    Err(Error::invalid(format!("External backend \"{}\": {}", backend.id, faults.join(", "))))
}
