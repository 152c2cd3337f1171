//! Entries in the database. Every change of one is bound to its owner and epoch.

use db::{Row, Tx, params};
use jiff::Timestamp;

use super::{Intent, IntentKind, IntentState, Operation};
use crate::Error;
use crate::seal::{Part, Unlocked};
use crate::store::rows::{moment, number, values};
use crate::store::{CHUNK, places};

pub(super) const COLUMNS: &str = "SELECT id, operation, kind, state, record, backend, target, first, last, holder, context, \
     owner, epoch, lease_until, deadline, attempts, fault, made_at FROM hub_journal";

/// An entry, and its context still sealed.
pub(crate) type Sealed = (Intent, Option<Vec<u8>>);

pub(super) fn read(row: &Row) -> Result<Sealed, Error> {
    let intent = Intent {
        id: row.get(0)?,
        operation: row.get(1)?,
        kind: IntentKind::parse(&row.get::<String>(2)?)?,
        state: IntentState::parse(&row.get::<String>(3)?)?,
        record: row.get(4)?,
        backend: row.get(5)?,
        target: row.get(6)?,
        first: number(row.get(7)?)?,
        last: number(row.get(8)?)?,
        holder: row.get(9)?,
        context: None,
        owner: row.get(11)?,
        epoch: row.get(12)?,
        lease_until: moment(row.get(13)?)?,
        deadline: moment(row.get(14)?)?,
        attempts: number(row.get(15)?)?,
        fault: row.get(16)?,
        made_at: moment(row.get(17)?)?,
    };
    Ok((intent, row.get(10)?))
}

/// Tells whether the record was the subject of no other entry.
pub(crate) fn insert(tx: &mut Tx<'_>, intent: &Intent, unlocked: &Unlocked) -> Result<bool, Error> {
    let inserted = tx.execute(
        "INSERT INTO hub_journal (id, operation, kind, state, record, subject, backend, target, first, last, holder, context, owner, \
         epoch, lease_until, deadline, attempts, fault, made_at) \
         VALUES ($1, $2, $3, $4, $5, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 0, NULL, $16) ON CONFLICT DO NOTHING",
        params![
            &intent.id,
            &intent.operation,
            intent.kind.as_str(),
            intent.state.as_str(),
            &intent.record,
            &intent.backend,
            intent.target.as_deref(),
            i64::from(intent.first),
            i64::from(intent.last),
            intent.holder.as_deref(),
            sealed_context(intent, unlocked)?,
            &intent.owner,
            intent.epoch,
            intent.lease_until.as_microsecond(),
            intent.deadline.as_microsecond(),
            intent.made_at.as_microsecond(),
        ],
    )?;
    Ok(inserted > 0)
}

fn sealed_context(intent: &Intent, unlocked: &Unlocked) -> Result<Option<Vec<u8>>, Error> {
    let seal = |context| unlocked.seal(&intent.record, intent.last, Part::Intent, context);
    intent.context.as_ref().map(seal).transpose()
}

/// Which of these records are the subject of an entry, in their order.
pub(crate) fn busy(tx: &mut Tx<'_>, ids: &[String]) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for chunk in ids.chunks(CHUNK) {
        let sql = format!("SELECT subject FROM hub_journal WHERE subject IN ({})", places(1, chunk.len()));
        for row in tx.query(&sql, &values(chunk))? {
            found.push(row.get::<String>(0)?);
        }
    }
    Ok(ids.iter().filter(|id| found.contains(id)).cloned().collect())
}

/// Whether all entries of an operation are still with whoever began it.
pub(crate) fn is_ours(tx: &mut Tx<'_>, operation: &Operation, count: usize) -> Result<bool, Error> {
    let sql = "SELECT id FROM hub_journal WHERE operation = $1 AND owner = $2 AND epoch = 0 AND state = 'called'";
    Ok(tx.query(sql, params![&operation.id, &operation.owner])?.len() == count)
}

/// Removes all entries and reservations of an operation that is over.
pub(crate) fn free(tx: &mut Tx<'_>, operation: &Operation) -> Result<(), Error> {
    tx.execute("DELETE FROM hub_journal WHERE operation = $1", params![&operation.id])?;
    delete_reservations(tx, &operation.id)
}

/// What an operation that fails leaves of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing took place.
    Nothing,
    /// It has to be undone; once suffices, since its calls are over.
    Undo,
    /// It has to be undone, and again when nothing of it can be on its way.
    UndoTwice,
    /// It has to be carried through.
    Forward,
}

/// When an entry that was given up is looked at again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) lease_until: Timestamp,
    /// From when on nothing of its calls, which are over here, can be on its way.
    pub(crate) deadline: Timestamp,
}

impl Fate {
    /// The entry as [`abort`] leaves it.
    pub(super) fn applied(self, intent: &Intent, left: Left) -> Intent {
        let (state, deadline) = match self {
            Fate::Nothing => (intent.state, intent.deadline),
            Fate::Undo => (IntentState::Undo, intent.made_at),
            Fate::UndoTwice => (IntentState::Undo, left.deadline),
            Fate::Forward => (IntentState::Forward, left.deadline),
        };
        Intent { state, deadline, lease_until: left.lease_until, ..intent.clone() }
    }
}

/// Gives an entry up that is still with whoever began it, and still as it was. Tells whether it was: one that was committed
/// after all is left alone. Its context is kept as it is by now.
pub(crate) fn abort(
    tx: &mut Tx<'_>,
    intent: &Intent,
    fate: Fate,
    left: Left,
    unlocked: &Unlocked,
) -> Result<bool, Error> {
    if fate == Fate::Nothing {
        let sql = "DELETE FROM hub_journal WHERE id = $1 AND owner = $2 AND epoch = $3 AND state = 'called'";
        return Ok(tx.execute(sql, params![&intent.id, &intent.owner, intent.epoch])? > 0);
    }
    let left = fate.applied(intent, left);
    let sql = "UPDATE hub_journal SET state = $1, deadline = $2, lease_until = $3, context = $4 \
               WHERE id = $5 AND owner = $6 AND epoch = $7 AND state = 'called'";
    let changed = tx.execute(
        sql,
        params![
            left.state.as_str(),
            left.deadline.as_microsecond(),
            left.lease_until.as_microsecond(),
            sealed_context(intent, unlocked)?,
            &left.id,
            &left.owner,
            left.epoch
        ],
    )?;
    Ok(changed > 0)
}

/// Removes an entry that is ours. Tells whether it was.
pub(crate) fn release(tx: &mut Tx<'_>, intent: &Intent) -> Result<bool, Error> {
    let sql = "DELETE FROM hub_journal WHERE id = $1 AND owner = $2 AND epoch = $3";
    Ok(tx.execute(sql, params![&intent.id, &intent.owner, intent.epoch])? > 0)
}

/// Holds an entry that is ours for longer, or leaves it for later. Tells whether it was.
pub(crate) fn keep(tx: &mut Tx<'_>, intent: &Intent) -> Result<bool, Error> {
    let sql = "UPDATE hub_journal SET lease_until = $1, deadline = $2, attempts = $3, fault = $4 \
               WHERE id = $5 AND owner = $6 AND epoch = $7";
    let changed = tx.execute(
        sql,
        params![
            intent.lease_until.as_microsecond(),
            intent.deadline.as_microsecond(),
            i64::from(intent.attempts),
            intent.fault.as_deref(),
            &intent.id,
            &intent.owner,
            intent.epoch
        ],
    )?;
    Ok(changed > 0)
}

/// A record is in its new place: what is left of the entry is the copy in the old one, which is nobody's subject. Tells
/// whether it was ours to say so.
pub(crate) fn switched(tx: &mut Tx<'_>, intent: &Intent, unlocked: &Unlocked) -> Result<bool, Error> {
    let sql = "UPDATE hub_journal SET state = $1, subject = NULL, context = $2, lease_until = $3, deadline = $4 \
               WHERE id = $5 AND owner = $6 AND epoch = $7 AND state = 'called'";
    let changed = tx.execute(
        sql,
        params![
            IntentState::Forward.as_str(),
            sealed_context(intent, unlocked)?,
            intent.lease_until.as_microsecond(),
            intent.deadline.as_microsecond(),
            &intent.id,
            &intent.owner,
            intent.epoch
        ],
    )?;
    Ok(changed > 0)
}

/// Removes all entries that concern a backend which is given up.
pub(crate) fn delete_of_backend(tx: &mut Tx<'_>, backend: &str) -> Result<Vec<Sealed>, Error> {
    delete(tx, "backend = $1 OR target = $1", params![backend])
}

/// The same, but for those that somebody is at.
pub(crate) fn drop_of_backend(tx: &mut Tx<'_>, backend: &str, now: Timestamp) -> Result<Vec<Sealed>, Error> {
    let idle = "(backend = $1 OR target = $1) AND (state <> 'called' OR lease_until <= $2)";
    delete(tx, idle, params![backend, now.as_microsecond()])
}

/// Removes what was begun with a record, unless somebody is at it.
pub(crate) fn drop_stuck(tx: &mut Tx<'_>, record: &str, now: Timestamp) -> Result<Vec<Sealed>, Error> {
    let stuck = "subject = $1 AND (state <> 'called' OR lease_until <= $2)";
    delete(tx, stuck, params![record, now.as_microsecond()])
}

/// Removes one entry, if it is there.
pub(super) fn delete_one(tx: &mut Tx<'_>, id: &str) -> Result<Option<Sealed>, Error> {
    Ok(delete(tx, "id = $1", params![id])?.pop())
}

fn delete(tx: &mut Tx<'_>, which: &str, bound: &[db::Value]) -> Result<Vec<Sealed>, Error> {
    let mut deleted = Vec::new();
    for row in tx.query(&format!("{COLUMNS} WHERE {which}"), bound)? {
        let (intent, sealed) = read(&row)?;
        delete_reservations(tx, &intent.operation)?;
        tx.execute("DELETE FROM hub_journal WHERE id = $1", params![&intent.id])?;
        deleted.push((intent, sealed));
    }
    Ok(deleted)
}

/// Takes entries whose lease is over, the oldest first.
pub(super) fn take(
    tx: &mut Tx<'_>,
    owner: &str,
    now: Timestamp,
    lease_until: Timestamp,
    most: usize,
) -> Result<Vec<Sealed>, Error> {
    let sql = format!("{COLUMNS} WHERE lease_until <= $1 ORDER BY lease_until LIMIT {most}");
    let mut taken = Vec::new();
    for row in tx.query(&sql, params![now.as_microsecond()])? {
        let (mut intent, sealed) = read(&row)?;
        let state = match intent.state {
            IntentState::Called => intent.kind.abandoned(),
            state => state,
        };
        let changed = tx.execute(
            "UPDATE hub_journal SET owner = $1, epoch = epoch + 1, lease_until = $2, state = $3 \
             WHERE id = $4 AND owner = $5 AND epoch = $6",
            params![owner, lease_until.as_microsecond(), state.as_str(), &intent.id, &intent.owner, intent.epoch],
        )?;
        if changed == 0 {
            continue;
        }
        // What was begun does not take place any more: names and ends of relations are free.
        delete_reservations(tx, &intent.operation)?;
        intent.epoch += 1;
        (intent.owner, intent.lease_until, intent.state) = (owner.to_owned(), lease_until, state);
        taken.push((intent, sealed));
    }
    Ok(taken)
}

/// Keeps a name, a record or a key of a request as it is until the operation is over.
pub(crate) fn reserve(tx: &mut Tx<'_>, kind: &str, value: &str, operation: &str) -> Result<(), Error> {
    let sql = "INSERT INTO hub_reservations (kind, value, operation) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    tx.execute(sql, params![kind, value, operation])?;
    Ok(())
}

pub(crate) fn reserved(tx: &mut Tx<'_>, kind: &str, value: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM hub_reservations WHERE kind = $1 AND value = $2 LIMIT 1";
    Ok(!tx.query(sql, params![kind, value])?.is_empty())
}

pub(crate) fn delete_reservations(tx: &mut Tx<'_>, operation: &str) -> Result<(), Error> {
    tx.execute("DELETE FROM hub_reservations WHERE operation = $1", params![operation])?;
    Ok(())
}
