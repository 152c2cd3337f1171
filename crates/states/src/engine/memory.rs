//! Heads that this server wrote a moment ago, so that the next change of a state begins without reading it.
//!
//! The door is [`Memory`]. What is remembered may be old, because other servers and programs write too: it is good for
//! trying a swap, whose success proves that it was not, and never for an answer. Reads do not come here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::head::Head;
use crate::key::Key;
use crate::store::{Found, Revision};

/// A state in the store with this name.
type Place = (&'static str, Key);

/// Long enough for the steps of an apply; a head that nobody changes for so long is read again.
const AGE: Duration = Duration::from_secs(10);
/// Bytes of one head, about, and of all.
const LARGEST: usize = 256 << 10;
const MOST: usize = 8 << 20;

#[derive(Default)]
pub(super) struct Memory(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    heads: BTreeMap<Place, Kept>,
    /// The same by age, the oldest first.
    order: BTreeMap<u64, Place>,
    bytes: usize,
    next: u64,
}

struct Kept {
    found: Found,
    bytes: usize,
    at: Instant,
    number: u64,
}

impl Memory {
    /// Takes it out: two changes at once do not begin with the same head.
    pub(super) fn take(&self, store: &'static str, key: &Key) -> Option<Found> {
        let kept = self.shelf().remove(&(store, key.clone()))?;
        (kept.at.elapsed() < AGE).then_some(kept.found)
    }

    pub(super) fn keep(&self, store: &'static str, key: &Key, found: Found) {
        let bytes = size(&found.head);
        if bytes <= LARGEST {
            self.shelf().insert((store, key.clone()), found, bytes);
        }
    }

    /// What a read found: anything else that is remembered is old.
    pub(super) fn compare(&self, store: &'static str, key: &Key, revision: Option<&Revision>) {
        let (mut shelf, place) = (self.shelf(), (store, key.clone()));
        if shelf.heads.get(&place).is_some_and(|kept| Some(&kept.found.revision) != revision) {
            shelf.remove(&place);
        }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn insert(&mut self, place: Place, found: Found, bytes: usize) {
        self.remove(&place);
        let (number, at) = (self.next, Instant::now());
        self.next += 1;
        self.bytes += bytes;
        self.order.insert(number, place.clone());
        self.heads.insert(place, Kept { found, bytes, at, number });
        while let Some(oldest) = self.order.values().next().cloned() {
            let is_old = self.heads.get(&oldest).is_none_or(|kept| kept.at.elapsed() >= AGE);
            if !is_old && self.bytes <= MOST {
                break;
            }
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, place: &Place) -> Option<Kept> {
        let kept = self.heads.remove(place)?;
        self.order.remove(&kept.number);
        self.bytes -= kept.bytes;
        Some(kept)
    }
}

/// What a head takes in memory, about.
fn size(head: &Head) -> usize {
    let current = head.current.as_ref().map_or(0, |version| version.body.inline_bytes());
    current + head.inline_history() + (head.recent.len() + head.pages.len() + head.uploads.len() + 2) * 512
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Memory").field("heads", &self.shelf().heads.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{Body, Facts, Packing, Version};

    fn key(name: &str) -> Key {
        Key::new("team", name).unwrap()
    }

    fn found(revision: &str, bytes: usize) -> Found {
        let facts = Facts::of_nothing();
        let body = Body::File { packing: Packing::Plain, bytes: vec![0; bytes] };
        let version = Version { number: 1, facts, by: None, at: jiff::Timestamp::UNIX_EPOCH, body };
        Found { head: Head { current: Some(version), ..Head::new() }, revision: Revision(revision.to_owned()) }
    }

    #[test]
    fn what_is_kept_is_taken_once() {
        let memory = Memory::default();
        memory.keep("sqlite", &key("one"), found("a", 10));
        memory.keep("sqlite", &key("one"), found("b", 10));
        assert!(memory.take("s3", &key("one")).is_none());
        assert_eq!(memory.take("sqlite", &key("one")).unwrap().revision.0, "b");
        assert!(memory.take("sqlite", &key("one")).is_none());
    }

    #[test]
    fn a_read_that_finds_something_else_makes_it_forget() {
        let memory = Memory::default();
        for (seen, left) in [(Some("a"), true), (Some("b"), false), (None, false)] {
            memory.keep("sqlite", &key("one"), found("a", 10));
            memory.compare("sqlite", &key("one"), seen.map(|text| Revision(text.to_owned())).as_ref());
            assert_eq!(memory.take("sqlite", &key("one")).is_some(), left, "{seen:?}");
        }
    }

    #[test]
    fn the_oldest_go_when_it_is_too_much_and_the_largest_never_come() {
        let memory = Memory::default();
        memory.keep("sqlite", &key("large"), found("a", LARGEST));
        assert!(memory.take("sqlite", &key("large")).is_none());
        for number in 0..100 {
            memory.keep("sqlite", &key(&format!("state-{number}")), found("a", 200 << 10));
        }
        let shelf = memory.shelf();
        assert!(shelf.bytes <= MOST && shelf.bytes > MOST - LARGEST);
        assert_eq!(shelf.heads.len(), shelf.order.len());
        assert!(shelf.heads.contains_key(&("sqlite", key("state-99"))));
        assert!(!shelf.heads.contains_key(&("sqlite", key("state-0"))));
    }
}
