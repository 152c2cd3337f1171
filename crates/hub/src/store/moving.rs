//! Records that get another backend: what is looked at, reserved and switched.

use std::collections::BTreeMap;

use db::{Tx, params};
use jiff::Timestamp;

use super::insert::relate;
use super::rows;
use crate::changes::{ChangeKind, Event, Feed};
use crate::journal::{self, Intent, IntentKind, Operation};
use crate::model::{BUILT_IN, Record};
use crate::rules::locks::{Standing, standing};
use crate::rules::texts::{self, Fault};
use crate::seal::{Part, Unlocked};
use crate::{Error, Json};

/// What transactions need to move a record; they may run more than once.
#[derive(Clone)]
pub(crate) struct Moving {
    pub(crate) record: Record,
    /// The id of the new backend.
    pub(crate) to: String,
    pub(crate) owner: Option<String>,
    /// What the new backend is told of each version.
    pub(crate) contexts: BTreeMap<u32, Option<Json>>,
    /// What the old backend was told of the newest version.
    pub(crate) old_context: Option<Json>,
    pub(crate) unlocked: Unlocked,
    pub(crate) now: Timestamp,
    pub(crate) feed: Feed,
}

/// A version in its new place.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    pub(crate) version: u32,
    /// Where the hub keeps it.
    pub(crate) value: Option<Json>,
    pub(crate) context: Option<Json>,
    /// Whether there is one, here or there.
    pub(crate) has_value: bool,
}

impl Moving {
    pub(crate) fn reserve(&self, tx: &mut Tx<'_>, operation: &Operation) -> Result<Intent, Error> {
        let id = &self.record.id;
        let refused = |fault: Fault| Err(texts::moving(id, &fault));
        let ids = std::slice::from_ref(id);
        let Some(record) = rows::records(tx, ids)?.pop() else { return refused(Fault::not_found(ids)) };
        if standing(record.lock.as_ref(), self.owner.as_deref(), self.now) == Standing::Stranger {
            return refused(Fault::locked(ids));
        }
        // A copy that is still to go, wherever, must not meet a new one.
        let open = "SELECT 1 FROM hub_journal WHERE record = $1 LIMIT 1";
        let has_changed = record.latest != self.record.latest || record.backend != self.record.backend;
        if has_changed || !tx.query(open, params![id])?.is_empty() {
            return refused(Fault::busy(ids));
        }
        if tx.query_opt("SELECT 1 FROM hub_records WHERE id = $1", params![&self.to])?.is_none() {
            return refused(texts::unknown_backends(std::slice::from_ref(&self.to)));
        }
        let intent = operation.intent(IntentKind::Move, id, &record.backend);
        let context = self.contexts.values().next_back().cloned().flatten();
        let (target, holder) = (Some(self.to.clone()), self.owner.clone());
        let intent = Intent { target, holder, context, first: 1, last: record.latest, ..intent };
        journal::insert(tx, &intent, &self.unlocked)?;
        Ok(intent)
    }

    /// Lets the new place count, if it is still ours to do so. The entry stays for the copy in the old one.
    pub(crate) fn switch(&self, tx: &mut Tx<'_>, intent: &Intent, copies: &[Copied]) -> Result<(), Error> {
        let is_ours = if self.record.backend == BUILT_IN {
            journal::release(tx, intent)?
        } else {
            journal::switched(tx, intent, &self.unlocked)?
        };
        if !is_ours {
            return Err(journal::too_late());
        }
        let (id, from, to) = (&self.record.id, &self.record.backend, &self.to);
        for Copied { version, value, context, has_value } in copies {
            let seal = |document: &Option<Json>, part: Part| {
                document.as_ref().map(|document| self.unlocked.seal(id, *version, part, document)).transpose()
            };
            tx.execute(
                "UPDATE hub_versions SET value = $1, context = $2, has_value = $3 WHERE record = $4 AND number = $5",
                params![
                    seal(value, Part::Value)?,
                    seal(context, Part::Context)?,
                    i64::from(*has_value),
                    id,
                    i64::from(*version)
                ],
            )?;
        }
        tx.execute("UPDATE hub_records SET backend = $1 WHERE id = $2", params![to, id])?;
        tx.execute("DELETE FROM hub_relations WHERE source = $1 AND target = $2", params![id, from])?;
        relate(tx, id, to)?;
        self.feed.write(tx, self.now, &[Event::of(&self.record, ChangeKind::Updated)])
    }
}
