//! Locks, told to the backends that keep the values.
//!
//! A backend hears of a lock when it is granted and when it ends, and never twice: renewing it, or asking for it again, is
//! between its owner and the hub.

use jiff::SignedDuration;

use super::calls::{Others, Outcome, call_all, troubles};
use crate::Error;
use crate::failpoints::Step;
use crate::hub::Hub;
use crate::journal::{Fate, Intent, Operation};
use crate::model::Record;
use crate::rules::locks::holds;
use crate::rules::names;
use crate::rules::texts::{self, Fault};
use crate::storage::{Destination, Landed, Trouble};
use crate::store::{Locking, NotHeld, Releasing, Whose, expired};

/// Locks that one round of looking after them releases.
const ROUND: usize = 64;

impl Hub {
    /// Locks records for `owner`, or renews its locks. Without a lease they hold until they are released.
    pub async fn lock(&self, ids: Vec<String>, owner: String, lease: Option<SignedDuration>) -> Result<(), Error> {
        names::check_label("ownerID", &owner)?;
        if lease.is_some_and(|lease| !lease.is_positive()) {
            return Err(Error::invalid("expiresIn: it must be longer than nothing"));
        }
        let records = self.records(&ids).await?;
        self.release_expired(records).await.map_err(|not_held| not_held.told(texts::lock))?;
        let (unlocked, now, feed) = (self.sealing().unlock().await?, self.now(), self.feed());
        let locking = Locking { ids, owner, lease, unlocked, now, feed };
        let hub = self.clone();
        self.to_the_end(async move { hub.lock_everywhere(locking).await }).await
    }

    /// Releases what `owner` holds; what nobody holds is released already.
    pub async fn unlock(&self, ids: Vec<String>, owner: String) -> Result<(), Error> {
        let released = self.release(ids, Whose::Owner(owner)).await;
        released.map_err(|not_held| not_held.told(texts::unlock))
    }

    /// Releases records whoever holds them.
    pub async fn force_unlock(&self, ids: Vec<String>) -> Result<(), Error> {
        let released = self.release(ids, Whose::Anyone).await;
        released.map_err(|not_held| not_held.told(texts::unlock))
    }

    /// Tells backends that leases are over, before anything else is begun with these records.
    pub(crate) async fn release_expired(&self, records: impl IntoIterator<Item = Record>) -> Result<(), NotHeld> {
        let now = self.now();
        let ended = |record: &Record| record.lock.as_ref().is_some_and(|lock| !holds(lock, now));
        let records = records.into_iter().filter(|record| !record.is_kept_here() && ended(record));
        let ids: Vec<String> = records.map(|record| record.id).collect();
        if ids.is_empty() { Ok(()) } else { self.release(ids, Whose::Nobody).await }
    }

    /// The same for all records, as far as their backends answer.
    pub(crate) async fn release_expired_everywhere(&self) -> Result<(), Error> {
        let now = self.now();
        let ids = self.db().read(move |tx| expired(tx, now, ROUND)).await?;
        for id in ids {
            match self.release(vec![id], Whose::Nobody).await {
                Ok(()) | Err(NotHeld::Faults(_)) => {}
                Err(NotHeld::Failed(error)) => return Err(error),
            }
        }
        Ok(())
    }

    async fn lock_everywhere(&self, locking: Locking) -> Result<(), Error> {
        let operation = Operation::begin(self);
        let reserve = {
            let (locking, operation) = (locking.clone(), operation.clone());
            self.change(move |tx| locking.reserve(tx, &operation))
        };
        let intents: Vec<(usize, Intent)> = reserve.await?.into_iter().enumerate().collect();
        if intents.is_empty() {
            return Ok(());
        }
        Step::LockReserved.hit();
        let places = self.places_of(&intents).await?;
        let calling = operation.calling();
        let outcomes = call_all(&intents, Others::Stop, |_index, intent| {
            let (calling, place) = (&calling, places.get(&intent.backend));
            async move {
                let Some(place) = place else { return Ok(()) };
                let Destination::External(backend) = place.clone()? else { return Ok(()) };
                let (context, holder) = (intent.context.as_ref(), intent.holder.as_deref().unwrap_or_default());
                let done = backend.lock(&calling.call(intent, intent.last), context, holder).await;
                Step::LockCalled.hit();
                done
            }
        })
        .await;
        let faults: Vec<Fault> = troubles(&outcomes).into_iter().map(Trouble::fault).collect();
        if !faults.is_empty() {
            let fates = outcomes.into_iter().map(|outcome| (outcome.fate(), outcome.intent));
            self.give_up(&operation, fates.map(|(fate, intent)| (intent, fate)).collect()).await?;
            return Err(texts::lock(&faults));
        }
        Step::LockBeforeCommit.hit();
        let commit = {
            let (operation, entries) = (operation.clone(), intents.len());
            // A lease counts from when it is granted, however long backends took.
            let locking = Locking { now: self.now(), ..locking };
            self.change(move |tx| locking.commit(tx, &operation, entries))
        };
        match commit.await {
            Ok(()) => {
                Step::LockCommitted.hit();
                Ok(())
            }
            Err(error) => {
                let fates = intents.into_iter().map(|(_index, intent)| (intent, Fate::Undo)).collect();
                self.give_up(&operation, fates).await?;
                Err(error)
            }
        }
    }

    async fn release(&self, ids: Vec<String>, whose: Whose) -> Result<(), NotHeld> {
        let (unlocked, now, feed) = (self.sealing().unlock().await?, self.now(), self.feed());
        let releasing = Releasing { ids, whose, unlocked, now, left: self.left_now(), feed };
        let hub = self.clone();
        self.to_the_end(async move { Ok(hub.release_everywhere(releasing).await) }).await?
    }

    async fn release_everywhere(&self, releasing: Releasing) -> Result<(), NotHeld> {
        let operation = Operation::begin(self);
        let reserve = {
            let (releasing, operation) = (releasing.clone(), operation.clone());
            self.db().write(move |tx| releasing.reserve(tx, &operation))
        };
        let begun = reserve.await?;
        self.tell_of_changes();
        if begun.is_empty() {
            return Ok(());
        }
        Step::UnlockReserved.hit();
        let intents: Vec<(usize, Intent)> =
            begun.iter().enumerate().map(|(index, (_record, intent))| (index, intent.clone())).collect();
        let places = self.places_of(&intents).await?;
        let calling = operation.calling();
        let outcomes = call_all(&intents, Others::GoOn, |_index, intent| {
            let (calling, place) = (&calling, places.get(&intent.backend));
            async move {
                let Some(place) = place else { return Ok(()) };
                let Destination::External(backend) = place.clone()? else { return Ok(()) };
                let done = backend.unlock(&calling.call(intent, intent.last), intent.context.as_ref()).await;
                Step::UnlockCalled.hit();
                done
            }
        })
        .await;
        let faults: Vec<Fault> = troubles(&outcomes).into_iter().map(Trouble::fault).collect();
        let fate = |outcome: &Outcome<()>| {
            let (record, intent) = begun[outcome.index].clone();
            let fate = match &outcome.done {
                Some(Err(trouble)) if trouble.landed == Landed::Perhaps => Some(Fate::Forward),
                Some(Err(_)) => Some(Fate::Nothing),
                _ => None,
            };
            (record, intent, fate)
        };
        let fates: Vec<_> = outcomes.iter().map(fate).collect();
        Step::UnlockBeforeCommit.hit();
        let releasing = Releasing { left: self.left_now(), ..releasing };
        self.change(move |tx| releasing.commit(tx, &fates)).await?;
        Step::UnlockCommitted.hit();
        if faults.is_empty() { Ok(()) } else { Err(NotHeld::Faults(faults)) }
    }
}
