//! What stays at a backend when the hub lets go of it, so that somebody can look for it there.

use crate::Json;
use crate::journal::{Intent, IntentKind, IntentState};
use crate::model::{BUILT_IN, Record};

/// What stays at a backend, because its record or an entry of the journal went without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutside {
    pub id: String,
    pub name: Option<String>,
    pub backend: String,
    pub what: LeftKind,
    /// How many versions there were, or may be.
    pub versions: u32,
    /// What the newest context has, without the secrets that may be in it.
    pub context_keys: Vec<String>,
    /// What the backend said, if it was asked.
    pub fault: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftKind {
    Values,
    Lock,
}

impl LeftOutside {
    pub(super) fn of(record: &Record, context: Option<&Json>, fault: Option<String>) -> LeftOutside {
        let Record { id, name, backend, latest, .. } = record.clone();
        let context_keys = context.map(keys).unwrap_or_default();
        LeftOutside { id, name, backend, what: LeftKind::Values, versions: latest, context_keys, fault }
    }

    /// What may be left of an entry that nobody settles. Of a deletion it is the record itself, which is still there.
    pub(crate) fn of_entry(intent: &Intent) -> Option<LeftOutside> {
        let (backend, what, versions) = match (intent.kind, intent.state) {
            (IntentKind::Delete, _) => return None,
            (IntentKind::Lock | IntentKind::Unlock, _) => (&intent.backend, LeftKind::Lock, 0),
            (IntentKind::Move, IntentState::Called | IntentState::Undo) => {
                (intent.target.as_ref()?, LeftKind::Values, intent.last)
            }
            (IntentKind::Move, IntentState::Forward) => (&intent.backend, LeftKind::Values, intent.last),
            (IntentKind::Create | IntentKind::Update, _) => {
                (&intent.backend, LeftKind::Values, intent.last.saturating_sub(intent.first) + 1)
            }
        };
        let context_keys = intent.context.as_ref().map(keys).unwrap_or_default();
        let (id, fault) = (intent.record.clone(), intent.fault.clone());
        let left = LeftOutside { id, name: None, backend: backend.clone(), what, versions, context_keys, fault };
        (backend != BUILT_IN).then_some(left)
    }

    /// For whoever looks for it later, also where nobody read the answer.
    pub(crate) fn log(&self) {
        let LeftOutside { id, backend, versions, .. } = self;
        let what = match self.what {
            LeftKind::Values => "values",
            LeftKind::Lock => "a lock",
        };
        tracing::warn!(record = id, backend, versions, what, "something is left at a storage backend");
    }
}

/// In the order of the letters, so that it is the same every time.
fn keys(context: &Json) -> Vec<String> {
    context.value().as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
}
