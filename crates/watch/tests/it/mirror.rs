//! What a consumer has made of what it was told: its index, so to speak, which survives the follower.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use watch::{Event, Key, Uid};

/// Clones are the same mirror.
#[derive(Clone, Default)]
pub(crate) struct Mirror(Arc<Mutex<Seen>>);

/// uid and resourceVersion of each object.
pub(crate) type Rows = BTreeMap<Key, (String, String)>;

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) rows: Rows,
    pub(crate) deleted: Vec<(Key, Option<Uid>)>,
    pub(crate) applied: u64,
    pub(crate) synced: u64,
    pub(crate) absent: u64,
    /// How many rows there were at the last `Synced`.
    pub(crate) rows_at_sync: usize,
    /// Events that must not come as they did.
    pub(crate) wrong: Vec<String>,
}

impl Mirror {
    pub(crate) fn apply(&self, event: &Event) {
        let mut seen = self.seen();
        match event {
            Event::Applied(object) => {
                let (key, uid) = (Key::of(object), Uid::of(object));
                let version = object.metadata.resource_version.clone().unwrap_or_default();
                if let Some((known, known_version)) = seen.rows.get(&key) {
                    if known != uid.as_str() {
                        let wrong = format!("{key}: {uid} came while {known} was there");
                        seen.wrong.push(wrong);
                    } else if number(known_version) > number(&version) {
                        let wrong = format!("{key}: version {version} came after {known_version}");
                        seen.wrong.push(wrong);
                    }
                }
                seen.applied += 1;
                seen.rows.insert(key, (uid.to_string(), version));
            }
            Event::Deleted(deleted) => {
                let uid = deleted.uid.as_ref().map(Uid::as_str);
                if seen.rows.get(&deleted.key).is_some_and(|(known, _)| uid.is_none_or(|uid| uid == known)) {
                    seen.rows.remove(&deleted.key);
                }
                seen.deleted.push((deleted.key.clone(), deleted.uid.clone()));
            }
            Event::Absent => seen.absent += 1,
            Event::Synced => {
                seen.synced += 1;
                seen.rows_at_sync = seen.rows.len();
            }
        }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    pub(crate) fn rows(&self) -> Rows {
        self.seen().rows.clone()
    }

    #[track_caller]
    pub(crate) fn nothing_is_wrong(&self) {
        assert_eq!(self.seen().wrong, Vec::<String>::new());
    }
}

fn number(version: &str) -> u64 {
    version.parse().unwrap()
}
