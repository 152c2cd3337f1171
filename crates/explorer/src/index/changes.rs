//! What changed lately, in order, for those who follow. Bounded: who is too far behind is told to read all again.

use std::collections::VecDeque;

use super::visibility::Visibility;
use crate::row::Key;

/// Up to where somebody has followed. It belongs to one index of one process: with any other it means *read all again*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub feed: u64,
    pub sequence: u64,
}

/// What happened after a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    Since {
        changes: Vec<Change>,
        now: Position,
    },
    /// Too much has happened, or another process answers.
    Reset {
        now: Position,
    },
}

/// A row that a caller sees, or saw until it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub key: Key,
    pub id: String,
    /// It is no longer there.
    pub gone: bool,
}

#[derive(Debug)]
pub(super) struct Feed {
    id: u64,
    /// Of the latest change; 0 before the first.
    sequence: u64,
    kept: VecDeque<Entry>,
    most: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) slot: u32,
    pub(super) key: Key,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) orphaned: bool,
    pub(super) gone: bool,
}

impl Feed {
    pub(super) fn new(most: usize) -> Feed {
        let (id, _) = uuid::Uuid::new_v4().as_u64_pair();
        Feed { id, sequence: 0, kept: VecDeque::new(), most: most.max(1) }
    }

    pub(super) fn position(&self) -> Position {
        Position { feed: self.id, sequence: self.sequence }
    }

    pub(super) fn push(&mut self, entry: Entry) {
        if self.kept.len() == self.most {
            self.kept.pop_front();
        }
        self.sequence += 1;
        self.kept.push_back(entry);
    }

    /// What a caller is told of the changes after a position; of each row the last.
    pub(super) fn since(&self, position: Position, visibility: &Visibility) -> Changes {
        let now = self.position();
        let Some(entries) = self.after(position) else { return Changes::Reset { now } };
        let mut told = std::collections::HashSet::new();
        let mut changes = Vec::new();
        for entry in entries.rev() {
            if told.insert(&entry.key) && visibility.sees(&entry.key, &entry.resource, entry.orphaned) {
                let id = entry.key.id(&entry.version);
                changes.push(Change { key: entry.key.clone(), id, gone: entry.gone });
            }
        }
        changes.reverse();
        Changes::Since { changes, now }
    }

    /// Everything after a position, in order; `None` if that is no longer known.
    pub(super) fn after(&self, position: Position) -> Option<impl DoubleEndedIterator<Item = &Entry>> {
        let oldest = self.sequence - self.kept.len() as u64;
        if position.feed != self.id || position.sequence < oldest || position.sequence > self.sequence {
            return None;
        }
        let skipped = usize::try_from(position.sequence - oldest).unwrap_or(usize::MAX);
        Some(self.kept.iter().skip(skipped))
    }

    pub(super) fn bytes(&self) -> usize {
        self.kept.capacity() * size_of::<Entry>()
    }
}
