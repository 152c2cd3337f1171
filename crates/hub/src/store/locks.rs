//! Locks, over a list of records all or none: what is looked at, reserved and written.

use db::{Tx, params};
use jiff::{SignedDuration, Timestamp};

use super::rows;
use crate::Error;
use crate::changes::{ChangeKind, Event, Feed};
use crate::journal::{self, Fate, Intent, IntentKind, Left, Operation};
use crate::model::{BUILT_IN, Lock, Record};
use crate::rules::locks::{Standing, granted, holds, standing};
use crate::rules::texts::{self, Fault};
use crate::seal::Unlocked;

/// What transactions need to lock records; they may run more than once.
#[derive(Clone)]
pub(crate) struct Locking {
    pub(crate) ids: Vec<String>,
    pub(crate) owner: String,
    pub(crate) lease: Option<SignedDuration>,
    pub(crate) unlocked: Unlocked,
    pub(crate) now: Timestamp,
    pub(crate) feed: Feed,
}

impl Locking {
    /// Says which backends are to be told; where none is, it is done. The holder's own lock is only renewed here.
    pub(crate) fn reserve(&self, tx: &mut Tx<'_>, operation: &Operation) -> Result<Vec<Intent>, Error> {
        let records = self.held(tx)?;
        let mut intents = Vec::new();
        for record in records.iter().filter(|record| !record.is_kept_here()) {
            let is_free = standing(record.lock.as_ref(), Some(&self.owner), self.now) == Standing::Free;
            if is_free {
                // A lock that ended a moment ago is released at its backend first.
                if record.lock.is_some() {
                    return Err(texts::lock(&[Fault::busy(std::slice::from_ref(&record.id))]));
                }
                let intent = entry(tx, operation, IntentKind::Lock, record, &self.unlocked)?;
                let intent = Intent { holder: Some(self.owner.clone()), ..intent };
                journal::insert(tx, &intent, &self.unlocked)?;
                intents.push(intent);
            }
        }
        if intents.is_empty() {
            self.grant(tx, &records)?;
        }
        Ok(intents)
    }

    /// Grants all locks, if it is still ours to do so.
    pub(crate) fn commit(&self, tx: &mut Tx<'_>, operation: &Operation, entries: usize) -> Result<(), Error> {
        if !journal::is_ours(tx, operation, entries)? {
            return Err(journal::too_late());
        }
        journal::free(tx, operation)?;
        // Those that needed no call were not reserved.
        let records = self.held(tx)?;
        self.grant(tx, &records)
    }

    fn held(&self, tx: &mut Tx<'_>) -> Result<Vec<Record>, Error> {
        let held = held(tx, &self.ids, Some(&self.owner), self.now);
        held.map_err(|not_held| not_held.told(texts::lock))
    }

    fn grant(&self, tx: &mut Tx<'_>, records: &[Record]) -> Result<(), Error> {
        let mut events = Vec::new();
        for record in records {
            if let Some(lock) = granted(record.lock.as_ref(), &self.owner, self.lease, self.now) {
                put(tx, &record.id, &lock)?;
                events.push(Event::of(record, ChangeKind::Locked));
            }
        }
        self.feed.write(tx, self.now, &events)
    }
}

/// Whose locks are released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Owner(String),
    Anyone,
    /// Those whose lease is over; other records are left as they are.
    Nobody,
}

/// What transactions need to release records; they may run more than once.
#[derive(Clone)]
pub(crate) struct Releasing {
    pub(crate) ids: Vec<String>,
    pub(crate) whose: Whose,
    pub(crate) unlocked: Unlocked,
    pub(crate) now: Timestamp,
    /// How what is carried through later is left.
    pub(crate) left: Left,
    pub(crate) feed: Feed,
}

impl Releasing {
    /// Says which backends are to be told; where none is, it is done.
    pub(crate) fn reserve(&self, tx: &mut Tx<'_>, operation: &Operation) -> Result<Vec<(Record, Intent)>, NotHeld> {
        let records = self.concerned(tx)?;
        let mut begun = Vec::new();
        for record in records.iter().filter(|record| !record.is_kept_here() && record.lock.is_some()) {
            let intent = entry(tx, operation, IntentKind::Unlock, record, &self.unlocked)?;
            let holder = record.lock.as_ref().map(|lock| lock.owner.clone());
            let intent = Intent { holder, ..intent };
            journal::insert(tx, &intent, &self.unlocked)?;
            begun.push((record.clone(), intent));
        }
        if begun.is_empty() {
            self.release(tx, &records)?;
        }
        Ok(begun)
    }

    /// Releases what backends have released, and, where none refused, what is kept here. What somebody else has taken over is
    /// carried through there.
    pub(crate) fn commit(&self, tx: &mut Tx<'_>, fates: &[(Record, Intent, Option<Fate>)]) -> Result<(), Error> {
        let mut released = Vec::new();
        for (record, intent, fate) in fates {
            match fate {
                None => {
                    if journal::release(tx, intent)? {
                        released.push(record.clone());
                    }
                }
                Some(fate) => _ = journal::abort(tx, intent, *fate, self.left, &self.unlocked)?,
            }
        }
        if fates.iter().all(|(_record, _intent, fate)| fate.is_none()) {
            let outside = |record: &Record| fates.iter().any(|(other, ..)| other.id == record.id);
            let here = self.concerned(tx).map_err(|not_held| not_held.told(texts::unlock))?;
            released.extend(here.into_iter().filter(|record| !outside(record)));
        }
        self.release(tx, &released)
    }

    fn concerned(&self, tx: &mut Tx<'_>) -> Result<Vec<Record>, NotHeld> {
        match &self.whose {
            Whose::Owner(owner) => held(tx, &self.ids, Some(owner), self.now),
            Whose::Anyone => held(tx, &self.ids, None, self.now),
            Whose::Nobody => {
                let ended = |record: &Record| record.lock.as_ref().is_some_and(|lock| !holds(lock, self.now));
                let busy = journal::busy(tx, &self.ids)?;
                let records = rows::records(tx, &self.ids)?.into_iter();
                Ok(records.filter(|record| ended(record) && !busy.contains(&record.id)).collect())
            }
        }
    }

    fn release(&self, tx: &mut Tx<'_>, records: &[Record]) -> Result<(), Error> {
        let mut events = Vec::new();
        for record in records {
            if tx.execute("DELETE FROM hub_locks WHERE record = $1", params![&record.id])? > 0 {
                events.push(Event::of(record, ChangeKind::Unlocked));
            }
        }
        self.feed.write(tx, self.now, &events)
    }
}

/// Records kept elsewhere whose lock has ended and that nothing is being done with.
pub(crate) fn expired(tx: &mut Tx<'_>, now: Timestamp, most: usize) -> Result<Vec<String>, Error> {
    let sql = format!(
        "SELECT l.record FROM hub_locks l JOIN hub_records r ON r.id = l.record WHERE l.expires <= $1 AND r.backend <> $2 \
         AND NOT EXISTS (SELECT 1 FROM hub_journal j WHERE j.subject = l.record) LIMIT {most}"
    );
    tx.query(&sql, params![now.as_microsecond(), BUILT_IN])?.iter().map(|row| Ok(row.get(0)?)).collect()
}

/// Why not all records are at the disposal of an owner.
#[derive(Debug)]
pub(crate) enum NotHeld {
    Faults(Vec<Fault>),
    Failed(Error),
}

impl NotHeld {
    pub(crate) fn told(self, texts: fn(&[Fault]) -> Error) -> Error {
        match self {
            NotHeld::Faults(faults) => texts(&faults),
            NotHeld::Failed(error) => error,
        }
    }
}

impl From<Error> for NotHeld {
    fn from(error: Error) -> NotHeld {
        NotHeld::Failed(error)
    }
}

impl From<db::Error> for NotHeld {
    fn from(error: db::Error) -> NotHeld {
        NotHeld::Failed(error.into())
    }
}

/// The records, if all are there, none is held by somebody else and none is being changed. Without an owner, it does not
/// matter who holds them.
fn held(tx: &mut Tx<'_>, ids: &[String], owner: Option<&str>, now: Timestamp) -> Result<Vec<Record>, NotHeld> {
    let records = rows::records(tx, ids)?;
    let missing: Vec<String> =
        ids.iter().filter(|id| !records.iter().any(|record| record.id == **id)).cloned().collect();
    let is_foreign = |record: &&Record| standing(record.lock.as_ref(), owner, now) == Standing::Stranger;
    let foreign: Vec<&str> = records
        .iter()
        .filter(|record| owner.is_some() && is_foreign(record))
        .map(|record| record.id.as_str())
        .collect();
    // In the order in which they were named.
    let locked: Vec<String> = ids.iter().filter(|id| foreign.contains(&id.as_str())).cloned().collect();
    let mut faults = Vec::new();
    if !missing.is_empty() {
        faults.push(Fault::not_found(&missing));
    }
    if !locked.is_empty() {
        faults.push(Fault::locked(&locked));
    }
    if faults.is_empty() {
        let busy = journal::busy(tx, ids)?;
        if busy.is_empty() {
            return Ok(records);
        }
        faults.push(Fault::busy(&busy));
    }
    Err(NotHeld::Faults(faults))
}

fn entry(
    tx: &mut Tx<'_>,
    operation: &Operation,
    kind: IntentKind,
    record: &Record,
    unlocked: &Unlocked,
) -> Result<Intent, Error> {
    let context = rows::latest_context(tx, record, unlocked)?;
    let intent = operation.intent(kind, &record.id, &record.backend);
    Ok(Intent { first: record.latest, last: record.latest, context, ..intent })
}

fn put(tx: &mut Tx<'_>, record: &str, lock: &Lock) -> Result<(), Error> {
    let Lock { owner, since, expires } = lock;
    tx.execute(
        "INSERT INTO hub_locks (record, owner, since, expires) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (record) DO UPDATE SET owner = $2, since = $3, expires = $4",
        params![record, owner, since.as_microsecond(), expires.map(Timestamp::as_microsecond)],
    )?;
    Ok(())
}
