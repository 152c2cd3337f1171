//! The end of records: what is looked at, reserved and removed.

use db::{Tx, params};
use jiff::Timestamp;

use super::{END, rows};
use crate::Error;
use crate::changes::{ChangeKind, Event, Feed};
use crate::journal::{self, Fate, Intent, IntentKind, Left, Operation, Sealed};
use crate::model::Record;
use crate::rules::deletion::{Usage, keepers};
use crate::rules::locks::{Standing, standing};
use crate::rules::texts::{self, Kept};
use crate::seal::Unlocked;

/// Records to be deleted together.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    pub ids: Vec<String>,
    /// Who deletes them, where they are locked.
    pub owner: Option<String>,
    pub on_backend_failure: OnBackendFailure,
}

/// What becomes of a record whose backend does not delete its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBackendFailure {
    /// It stays.
    #[default]
    Fail,
    /// It goes, and its values stay where they are.
    Orphan,
}

/// What transactions need of a deletion; they may run more than once.
#[derive(Clone)]
pub(crate) struct Going {
    pub(crate) deletion: Deletion,
    pub(crate) unlocked: Unlocked,
    pub(crate) now: Timestamp,
    /// How what is carried through later is left.
    pub(crate) left: Left,
    pub(crate) feed: Feed,
}

/// Records on their way out.
pub(crate) struct Leaving {
    /// Each with its entry.
    pub(crate) begun: Vec<(Record, Intent)>,
    /// The copies that are given up with them.
    pub(crate) stuck: Vec<Sealed>,
    /// What of them is used by what.
    pub(crate) usages: Vec<Usage>,
}

/// Records that may go.
struct Free {
    records: Vec<Record>,
    /// The moves of theirs that nobody ends any more.
    stuck: Vec<Sealed>,
    usages: Vec<Usage>,
}

const TABLES: [&str; 6] = [
    "DELETE FROM hub_records WHERE id = $1",
    "DELETE FROM hub_versions WHERE record = $1",
    "DELETE FROM hub_attributes WHERE record = $1",
    "DELETE FROM hub_locks WHERE record = $1",
    "DELETE FROM hub_relations WHERE source = $1",
    // Only those that went with it, and itself, are left here.
    "DELETE FROM hub_relations WHERE target = $1",
];

/// Removes everything that is kept of a record.
pub(crate) fn delete_record(tx: &mut Tx<'_>, id: &str) -> Result<(), Error> {
    TABLES.iter().try_for_each(|sql| tx.execute(sql, params![id]).map(drop)).map_err(Error::from)
}

impl Going {
    /// Everything in one transaction, where no backend is concerned. Tells which copies are given up with them.
    pub(crate) fn carry_out(&self, tx: &mut Tx<'_>) -> Result<Vec<Sealed>, Error> {
        let Free { records, stuck, .. } = self.check(tx)?;
        self.remove(tx, &records)?;
        Ok(stuck)
    }

    /// Says what is to be done.
    pub(crate) fn reserve(&self, tx: &mut Tx<'_>, operation: &Operation) -> Result<Leaving, Error> {
        let mut begun = Vec::new();
        let Free { records, stuck, usages } = self.check(tx)?;
        for record in records {
            let context = rows::latest_context(tx, &record, &self.unlocked)?;
            let intent = operation.intent(IntentKind::Delete, &record.id, &record.backend);
            let holder = self.deletion.owner.clone();
            let intent = Intent { first: 1, last: record.latest, holder, context, ..intent };
            journal::insert(tx, &intent, &self.unlocked)?;
            begun.push((record, intent));
        }
        Ok(Leaving { begun, stuck, usages })
    }

    /// Removes what is gone; of the rest, the entries are left as they should be. What somebody else has taken over is
    /// carried through there.
    pub(crate) fn commit(&self, tx: &mut Tx<'_>, fates: &[(Record, Intent, Option<Fate>)]) -> Result<(), Error> {
        let mut gone = Vec::new();
        for (record, intent, fate) in fates {
            match fate {
                None => {
                    if journal::release(tx, intent)? {
                        gone.push(record.clone());
                    }
                }
                // To be tried again at once, by whoever looks after the journal.
                Some(fate) => _ = journal::abort(tx, intent, *fate, self.left, &self.unlocked)?,
            }
        }
        self.remove(tx, &gone)
    }

    /// The records, if all of them may go.
    fn check(&self, tx: &mut Tx<'_>) -> Result<Free, Error> {
        let Deletion { ids, owner, on_backend_failure } = &self.deletion;
        let mut records = rows::records(tx, ids)?;
        let mut stuck = Vec::new();
        let usages = rows::usages(tx, ids)?;
        for id in ids {
            let Some(record) = records.iter().find(|record| record.id == *id) else {
                return Err(texts::delete(id, &Kept::NotFound));
            };
            if record.is_built_in() {
                return Err(texts::delete(id, &Kept::BuiltIn));
            }
            if standing(record.lock.as_ref(), owner.as_deref(), self.now) == Standing::Stranger {
                return Err(texts::delete(id, &Kept::Locked));
            }
            let users: Vec<String> = keepers(id, ids, &usages).into_iter().map(str::to_owned).collect();
            if !users.is_empty() {
                return Err(texts::delete(id, &Kept::UsedBy(users)));
            }
            if *on_backend_failure == OnBackendFailure::Orphan {
                // Whoever gives the values up does not wait for what was begun with them either, unless somebody is at it.
                stuck.extend(journal::drop_stuck(tx, id, self.now)?);
            }
            if is_needed(tx, id)? {
                return Err(texts::delete(id, &Kept::Busy));
            }
        }
        // In the order in which they were named, each once.
        records.sort_by_key(|record| ids.iter().position(|id| *id == record.id));
        stuck.retain(|(intent, _context)| intent.kind == IntentKind::Move);
        Ok(Free { records, stuck, usages })
    }

    fn remove(&self, tx: &mut Tx<'_>, records: &[Record]) -> Result<(), Error> {
        for record in records {
            delete_record(tx, &record.id)?;
        }
        let events: Vec<Event> = records.iter().map(|record| Event::of(record, ChangeKind::Deleted)).collect();
        self.feed.write(tx, self.now, &events)
    }
}

/// Whether something is being done with a record, or by means of it.
fn is_needed(tx: &mut Tx<'_>, id: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM hub_journal WHERE subject = $1 OR backend = $1 OR target = $1 LIMIT 1";
    Ok(!tx.query(sql, params![id])?.is_empty() || journal::reserved(tx, END, id)?)
}
