//! Namespaces that come and go, and whose the rows are that are left of them: a namespace that was made again has the name and the
//! readers of another.
//!
//! Rows do not know in which of them they lived. What tells it is when they were made: whatever is older than today's
//! namespace belongs to one before. Times are whole seconds; in a tie it belongs to the one before if there was one.

use super::rows::{Index, NO_TIME, Slot};
use crate::row::{Key, Row};

/// What is known of the namespace of a name, in one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Namespace {
    /// When the one that is there was made; `None`: there is none.
    began: Option<i64>,
    /// One of that name has ended before, as far as this process knows.
    again: bool,
}

/// Whose a row is that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heir {
    /// The namespace that it lived in is there, or it lived in none.
    Itself,
    /// That namespace is gone.
    Nobody,
    /// Nothing is known of the namespace yet: nobody's until it is.
    Unknown,
}

impl Namespace {
    fn heir(self, created: i64) -> Heir {
        let is_older = self.began.is_none_or(|began| {
            // Without a time of creation only the one before is a reason for doubt.
            if self.again { created <= began } else { created < began && created != NO_TIME }
        });
        if is_older { Heir::Nobody } else { Heir::Itself }
    }
}

impl Index {
    /// A namespace is gone: what is kept of objects in it is no longer for those who may see a namespace of that name. Tells
    /// which rows changed.
    pub fn namespace_ended(&mut self, cluster: &str, namespace: &str) -> Vec<Slot> {
        let ended = Namespace { began: None, again: true };
        self.namespaces.insert((cluster.to_owned(), namespace.to_owned()), ended);
        self.settle(cluster, namespace, |index, slot| index.deleted.contains(slot))
    }

    /// A namespace is there, for the first time or again, made at that time (milliseconds since 1970). What is left of one before
    /// it is not for those who see this one. Tells which rows changed.
    pub fn namespace_began(&mut self, cluster: &str, namespace: &str, at: Option<i64>) -> Vec<Slot> {
        let place = (cluster.to_owned(), namespace.to_owned());
        let again = self.namespaces.get(&place).is_some_and(|known| known.again);
        let now = Namespace { began: Some(at.unwrap_or(NO_TIME)), again };
        let before = self.namespaces.insert(place, now);
        if before == Some(now) {
            return Vec::new();
        }
        // A row whose end was not told yet is looked at only if there was one before: clocks of API servers differ, and a
        // row that lives must not be hidden.
        self.settle(cluster, namespace, |index, slot| {
            let is_older = again && index.created[slot as usize] < now.began.unwrap_or(NO_TIME);
            index.deleted.contains(slot) || is_older
        })
    }

    /// Whose the row is, by what is known of its namespace.
    pub(super) fn heir(&self, slot: u32) -> Heir {
        let key = self.key(Slot(slot));
        if key.namespace.is_empty() {
            return Heir::Itself;
        }
        let known = self.namespaces.get(&(key.cluster, key.namespace));
        known.map_or(Heir::Unknown, |known| known.heir(self.created[slot as usize]))
    }

    /// Whether the namespace of an object is.
    fn is_there(&self, key: &Key) -> bool {
        let known = self.namespaces.get(&(key.cluster.clone(), key.namespace.clone()));
        known.is_some_and(|known| known.began.is_some())
    }

    /// Says of some rows of a namespace anew whose they are.
    fn settle(&mut self, cluster: &str, namespace: &str, wanted: impl Fn(&Index, u32) -> bool) -> Vec<Slot> {
        let rows = self.rows_of_namespace(cluster, namespace, wanted);
        let settle = |row: Row| {
            let slot = self.find(&row.key)?;
            // What was nobody's stays so, unless that was only for want of knowledge.
            let doubtful = self.doubtful.contains(slot.0);
            let orphaned = (row.orphaned && !doubtful) || self.heir(slot.0) == Heir::Nobody;
            if self.is_there(&row.key) {
                self.doubtful.remove(slot.0);
            }
            (orphaned != row.orphaned).then(|| {
                self.orphan(slot, row, orphaned);
                slot
            })
        };
        rows.into_iter().filter_map(settle).collect()
    }

    /// Gone for those who saw it as it was, and shown anew to the others.
    pub(super) fn orphan(&mut self, slot: Slot, mut row: Row, orphaned: bool) {
        self.tell(slot, &row, true);
        row.orphaned = orphaned;
        self.move_to(slot.0, &row);
        self.tell(slot, &row, false);
    }

    pub(super) fn rows_of_namespace(
        &self,
        cluster: &str,
        namespace: &str,
        wanted: impl Fn(&Index, u32) -> bool,
    ) -> Vec<Row> {
        let Some(namespace) = self.scopes.texts.find(&self.hashes, namespace) else { return Vec::new() };
        let mut rows = Vec::new();
        for &scope in self.scopes.of_namespace(namespace) {
            let (found, family) = self.scopes.at(scope);
            if self.scopes.text(family.cluster) == cluster {
                found.rows.for_each(|slot| {
                    if wanted(self, slot) {
                        rows.push(self.row(Slot(slot)));
                    }
                });
            }
        }
        rows
    }
}
