//! What was begun with backends and is not over yet.
//!
//! A change that concerns a backend is journalled before the backend is called, and its entry goes in the transaction that
//! makes the change visible. An entry that is older than its lease belongs to whoever takes it, by comparing its owner and
//! epoch; the commit of a late owner finds its entries gone and fails. What was not committed is undone: created records are
//! deleted, new versions too, locks released; what was to be deleted or released is. An undone call may still land late, so
//! it is undone once more when nothing of it can be on its way.
//!
//! While a record is the subject of an entry, nobody else changes it. No value is ever in the journal, and contexts are sealed.

mod recover;
mod rows;
mod settle;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

use crate::hub::Hub;
use crate::storage::Call;
use crate::{Error, Json, Reason, Times};

pub use recover::JournalEntry;

pub(crate) use rows::{
    Fate, Left, Sealed, abort, busy, delete_of_backend, delete_reservations, drop_of_backend, drop_stuck, free, insert,
    is_ours, keep, release, reserve, reserved, switched,
};
pub(crate) use settle::Settled;

/// The tables that this module owns, as a step of [`crate::MIGRATIONS`].
pub(crate) const TABLES: &str = "
CREATE TABLE hub_journal (
    id TEXT PRIMARY KEY, operation TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, record TEXT NOT NULL,
    subject TEXT UNIQUE, backend TEXT NOT NULL, target TEXT, first BIGINT NOT NULL, last BIGINT NOT NULL, holder TEXT, context BYTEA,
    owner TEXT NOT NULL, epoch BIGINT NOT NULL, lease_until BIGINT NOT NULL, deadline BIGINT NOT NULL,
    attempts BIGINT NOT NULL, fault TEXT, made_at BIGINT NOT NULL
);
CREATE INDEX hub_journal_by_record ON hub_journal (record);
CREATE INDEX hub_journal_by_operation ON hub_journal (operation);
CREATE INDEX hub_journal_by_lease ON hub_journal (lease_until);
CREATE INDEX hub_journal_by_backend ON hub_journal (backend);
CREATE TABLE hub_reservations (
    kind TEXT NOT NULL, value TEXT NOT NULL, operation TEXT NOT NULL, PRIMARY KEY (kind, value, operation)
);
CREATE INDEX hub_reservations_by_operation ON hub_reservations (operation);
";

/// What was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntentKind {
    Create,
    Update,
    Delete,
    Lock,
    Unlock,
    Move,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntentState {
    /// Whoever began it is at it.
    Called,
    /// It is being undone.
    Undo,
    /// It is being carried through.
    Forward,
}

/// An entry: one record, one thing that was begun with it.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) id: String,
    pub(crate) operation: String,
    pub(crate) kind: IntentKind,
    pub(crate) state: IntentState,
    pub(crate) record: String,
    pub(crate) backend: String,
    /// Where it is moved to.
    pub(crate) target: Option<String>,
    /// The versions that are concerned, both included.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Who holds the record, or is to.
    pub(crate) holder: Option<String>,
    /// What the backend was told, where the record does not tell.
    pub(crate) context: Option<Json>,
    pub(crate) owner: String,
    pub(crate) epoch: i64,
    /// Until then nobody else touches it.
    pub(crate) lease_until: Timestamp,
    /// From then on nothing of its calls can be on its way.
    pub(crate) deadline: Timestamp,
    pub(crate) attempts: u32,
    /// The code of the last failure.
    pub(crate) fault: Option<String>,
    pub(crate) made_at: Timestamp,
}

impl IntentKind {
    pub fn as_str(self) -> &'static str {
        match self {
            IntentKind::Create => "create",
            IntentKind::Update => "update",
            IntentKind::Delete => "delete",
            IntentKind::Lock => "lock",
            IntentKind::Unlock => "unlock",
            IntentKind::Move => "move",
        }
    }

    fn parse(text: &str) -> Result<IntentKind, Error> {
        let all = [
            IntentKind::Create,
            IntentKind::Update,
            IntentKind::Delete,
            IntentKind::Lock,
            IntentKind::Unlock,
            IntentKind::Move,
        ];
        let found = all.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| Error::damaged("the journal", "an entry has an unknown kind"))
    }

    /// What becomes of it when whoever began it does not go on.
    fn abandoned(self) -> IntentState {
        match self {
            IntentKind::Delete | IntentKind::Unlock => IntentState::Forward,
            IntentKind::Create | IntentKind::Update | IntentKind::Lock | IntentKind::Move => IntentState::Undo,
        }
    }
}

impl IntentState {
    pub fn as_str(self) -> &'static str {
        match self {
            IntentState::Called => "called",
            IntentState::Undo => "undo",
            IntentState::Forward => "forward",
        }
    }

    fn parse(text: &str) -> Result<IntentState, Error> {
        let all = [IntentState::Called, IntentState::Undo, IntentState::Forward];
        let found = all.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| Error::damaged("the journal", "an entry has an unknown state"))
    }
}

/// One change of one or several records, with an entry for each.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) owner: String,
    pub(crate) lease_until: Timestamp,
    pub(crate) deadline: Timestamp,
    pub(crate) made_at: Timestamp,
    times: Times,
}

/// What an operation has left for its calls.
#[derive(Clone, Debug)]
pub(crate) struct Calling {
    /// When all of them have to be over.
    until: Instant,
    /// How long one of them may take.
    call: Duration,
}

impl Operation {
    /// One that begins now.
    pub(crate) fn begin(hub: &Hub) -> Operation {
        let times = &hub.settings().times;
        let now = hub.now();
        let after = |time| now.checked_add(time).unwrap_or(Timestamp::MAX);
        Operation {
            id: Uuid::now_v7().to_string(),
            owner: hub.process().to_owned(),
            lease_until: after(times.phase() + times.margin),
            deadline: after(times.phase() + times.margin + times.grace),
            made_at: now,
            times: times.clone(),
        }
    }

    /// It is reserved: its calls begin now.
    pub(crate) fn calling(&self) -> Calling {
        Calling { until: Instant::now() + self.times.phase(), call: self.times.call }
    }

    pub(crate) fn intent(&self, kind: IntentKind, record: &str, backend: &str) -> Intent {
        Intent {
            id: Uuid::now_v7().to_string(),
            operation: self.id.clone(),
            kind,
            state: IntentState::Called,
            record: record.to_owned(),
            backend: backend.to_owned(),
            target: None,
            first: 0,
            last: 0,
            holder: None,
            context: None,
            owner: self.owner.clone(),
            epoch: 0,
            lease_until: self.lease_until,
            deadline: self.deadline,
            attempts: 0,
            fault: None,
            made_at: self.made_at,
        }
    }
}

impl Calling {
    /// A call about a version that begins now.
    pub(crate) fn call<'a>(&self, intent: &'a Intent, version: u32) -> Call<'a> {
        let until = self.until.min(Instant::now() + self.call);
        Call { record: &intent.record, key: format!("{}:{version}", intent.id), until }
    }
}

/// What a late owner is told.
pub(crate) fn too_late() -> Error {
    Error::refused(Reason::Retry, "it took too long and was undone by another server; try again")
}
