//! Following an answer: what somebody who was told some rows has to be told now, because rows changed, because they came or
//! went, or because the follower may see more or less than before.
//!
//! What was told is a set of slots. A slot can be given to another row later; which row was in it when it was told is the
//! first one that the feed names for it since. A row that the feed does not name is the same as then.

use std::collections::HashMap;

use roaring::RoaringBitmap;

use super::changes::{Entry, Position};
use super::rows::{Index, Slot};
use super::search::Found;
use super::visibility::Visibility;
use crate::query::Query;
use crate::row::Key;

/// Somebody who follows an answer, and what they were told so far.
#[derive(Clone, Debug)]
pub struct Follower {
    position: Position,
    told: RoaringBitmap,
}

/// What a follower has to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Told {
        /// New, changed, or seen again.
        changed: Vec<Found>,
        /// No longer there, no longer matching, or no longer to be seen.
        gone: Vec<Gone>,
    },
    /// Too much has happened: read all again.
    Reset,
}

/// A row that was told before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    pub key: Key,
    pub id: String,
}

impl Index {
    /// Begins to follow: what the question finds now counts as told.
    pub fn follow(&self, query: &Query, visibility: &Visibility) -> Follower {
        Follower { position: self.position(), told: self.told_by(query, visibility).0 }
    }

    /// What happened since the last step, as far as the follower is concerned; more than `most` of it is a reset.
    pub fn catch_up(&self, follower: &mut Follower, query: &Query, visibility: &Visibility, most: usize) -> Step {
        let (now, bodies) = self.told_by(query, visibility);
        let told = std::mem::replace(&mut follower.told, now.clone());
        let position = std::mem::replace(&mut follower.position, self.position());
        let Some(entries) = self.feed.after(position) else { return Step::Reset };
        let mut before: HashMap<u32, &Entry> = HashMap::new();
        let mut touched = RoaringBitmap::new();
        for entry in entries {
            touched.insert(entry.slot);
            before.entry(entry.slot).or_insert(entry);
        }
        let changed = (&touched & &now) | (&now - &told);
        // Rows that the feed does not name and that are not found any more: the follower may see less, or they became fresh.
        let lost = (&told - &now) - &touched;
        // Of slots that the feed names, the row that was told may be another than the one that is there.
        let is_here = |entry: &Entry| self.find(&entry.key).is_some_and(|slot| now.contains(slot.0));
        let named = (&told & &touched).into_iter().filter_map(|slot| before.get(&slot));
        let replaced = named.filter(|entry| !is_here(entry));
        let replaced: Vec<Gone> = replaced.map(|entry| gone(&entry.key, &entry.version)).collect();
        if changed.len() + lost.len() + replaced.len() as u64 > most as u64 {
            return Step::Reset;
        }
        let lost = lost.iter().map(|slot| {
            let row = self.row(Slot(slot));
            gone(&row.key, &row.version)
        });
        Step::Told {
            gone: replaced.into_iter().chain(lost).collect(),
            changed: changed.iter().map(|slot| self.found(Slot(slot), bodies.contains(slot))).collect(),
        }
    }

    /// Of rows that were told before, how they are as of the follower's last step: for one who did not get what was told.
    pub fn tell_again(&self, follower: &Follower, rows: Vec<Gone>, visibility: &Visibility) -> (Vec<Found>, Vec<Gone>) {
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        for row in rows {
            let told = self.find(&row.key).is_some_and(|slot| follower.told.contains(slot.0));
            match self.get(&row.key, visibility).filter(|_| told) {
                Some(found) => changed.push(found),
                None => gone.push(row),
            }
        }
        (changed, gone)
    }

    fn told_by(&self, query: &Query, visibility: &Visibility) -> (RoaringBitmap, RoaringBitmap) {
        let visible = self.visible(visibility);
        (self.filter(&query.clauses, &visible).rows, visible.bodies)
    }
}

fn gone(key: &Key, version: &str) -> Gone {
    Gone { key: key.clone(), id: key.id(version) }
}
