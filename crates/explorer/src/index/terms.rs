//! Which rows hold which word, and which field of a body with which value.
//!
//! What a row put in is remembered with the row as [`Held`], so that exactly that can be taken out again. Words have their
//! text, for questions that end with a star; fields have only their hash. Both are bounded: beyond that, new ones are not
//! taken in, and the rows that they are in are remembered as incomplete.

use hashbrown::HashTable;

use super::dictionary::{Dictionary, Hashes};
use super::posting::Posting;
use super::prepare::{Prepared, Words};
use super::slab::{push, put};

#[derive(Debug)]
pub(super) struct Terms {
    words: Dictionary,
    /// By word: rows that have it in their name, message or labels.
    public: Vec<Posting>,
    /// By word: rows that have it in their body and not already there.
    body: Vec<Posting>,
    fields: Fields,
    most: usize,
}

/// Fields of bodies by the hash of path and value.
#[derive(Debug, Default)]
struct Fields {
    table: HashTable<u32>,
    entries: Vec<(u64, Posting)>,
    free: Vec<u32>,
}

/// The numbers of a row's words and fields: three growing lists, the gaps in as few bytes as they need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held(Box<[u8]>);

/// The same, spread out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lists {
    pub(super) public: Vec<u32>,
    pub(super) body: Vec<u32>,
    pub(super) fields: Vec<u32>,
}

/// How taking in went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Whole,
    /// There was no room for some words.
    Partly,
}

impl Terms {
    pub(super) fn new(most: usize) -> Terms {
        Terms { words: Dictionary::default(), public: Vec::new(), body: Vec::new(), fields: Fields::default(), most }
    }

    /// Takes in what is new in a row and takes out what is no longer there.
    pub(super) fn update(&mut self, slot: u32, held: &mut Held, prepared: &Prepared) -> Taken {
        let before = held.lists();
        let mut taken = Taken::Whole;
        let now = Lists {
            // What everybody sees of a row is few words, and always taken in.
            public: self.numbers(&prepared.public, usize::MAX, &mut taken),
            body: self.numbers(&prepared.body, self.most, &mut taken),
            fields: self.fields.numbers(&prepared.fields, self.most, &mut taken),
        };
        // In before out: a word that moves from the body to the name must not be forgotten in between.
        differences(&now.public, &before.public, |word| self.public[word as usize].insert(slot));
        differences(&now.body, &before.body, |word| self.body[word as usize].insert(slot));
        differences(&now.fields, &before.fields, |field| self.fields.entries[field as usize].1.insert(slot));
        self.take_out(slot, &before, &now);
        if now != before {
            *held = Held::new(&now);
        }
        taken
    }

    /// Takes everything of a row out.
    pub(super) fn remove(&mut self, slot: u32, held: &Held) {
        self.take_out(slot, &held.lists(), &Lists::default());
    }

    fn take_out(&mut self, slot: u32, before: &Lists, now: &Lists) {
        let Terms { words, public, body, fields, .. } = self;
        differences(&before.public, &now.public, |word| {
            let removed = public[word as usize].remove(slot);
            if public[word as usize].is_empty() && body[word as usize].is_empty() {
                words.forget(word);
            }
            removed
        });
        differences(&before.body, &now.body, |word| {
            let removed = body[word as usize].remove(slot);
            if public[word as usize].is_empty() && body[word as usize].is_empty() {
                words.forget(word);
            }
            removed
        });
        differences(&before.fields, &now.fields, |field| fields.remove(field, slot));
    }

    /// The rows of a word: by name, message and labels; by body.
    pub(super) fn word(&self, hashes: &Hashes, word: &str) -> Option<(&Posting, &Posting)> {
        let id = self.words.find(hashes.text(word), word)?;
        Some((&self.public[id as usize], &self.body[id as usize]))
    }

    /// The same of all words that begin so.
    pub(super) fn beginning<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a Posting, &'a Posting)> {
        self.words.beginning(prefix).map(|id| (&self.public[id as usize], &self.body[id as usize]))
    }

    pub(super) fn field(&self, hash: u64) -> Option<&Posting> {
        self.fields.find(hash).map(|field| &self.fields.entries[field as usize].1)
    }

    pub(super) fn sizes(&self) -> TermSizes {
        let heap = |postings: &Vec<Posting>| -> usize {
            postings.iter().map(Posting::heap_bytes).sum::<usize>() + postings.capacity() * size_of::<Posting>()
        };
        let fields: usize = self.fields.entries.iter().map(|(_, posting)| posting.heap_bytes()).sum();
        TermSizes {
            words: self.words.len(),
            fields: self.fields.entries.len() - self.fields.free.len(),
            dictionary: self.words.bytes() + self.fields.table.allocation_size(),
            postings: heap(&self.public) + heap(&self.body) + fields + self.fields.entries.capacity() * 24,
        }
    }

    /// For the audit: every word, field and row that is in here, as lists of a row would have it.
    pub(super) fn recount(&self) -> Result<std::collections::HashMap<u32, Lists>, String> {
        let mut rows: std::collections::HashMap<u32, Lists> = std::collections::HashMap::new();
        for word in 0..u32::try_from(self.public.len()).expect("fewer than 4 billion words") {
            self.public[word as usize].for_each(|slot| rows.entry(slot).or_default().public.push(word));
            self.body[word as usize].for_each(|slot| rows.entry(slot).or_default().body.push(word));
        }
        for (field, (_, posting)) in (0..).zip(&self.fields.entries) {
            posting.for_each(|slot| rows.entry(slot).or_default().fields.push(field));
        }
        let used = self.words.ids().collect::<Vec<_>>();
        if used.iter().any(|word| self.public[*word as usize].is_empty() && self.body[*word as usize].is_empty()) {
            return Err("a word is in no row and was not forgotten".to_owned());
        }
        let filled = self.public.iter().zip(&self.body).filter(|(one, other)| !one.is_empty() || !other.is_empty());
        if filled.count() != used.len() {
            return Err("a word was forgotten and still has rows".to_owned());
        }
        Ok(rows)
    }

    /// For the audit: the text of a word.
    pub(super) fn text(&self, word: u32) -> &str {
        self.words.text(word)
    }

    fn numbers(&mut self, words: &Words, most: usize, taken: &mut Taken) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(words.len());
        for (hash, word) in words.iter() {
            let id = match self.words.find(hash, word) {
                Some(id) => id,
                None if self.words.len() < most => {
                    let id = self.words.add(hash, word);
                    if self.public.len() <= id as usize {
                        push(&mut self.public, Posting::new());
                        push(&mut self.body, Posting::new());
                    }
                    id
                }
                None => {
                    *taken = Taken::Partly;
                    continue;
                }
            };
            numbers.push(id);
        }
        numbers.sort_unstable();
        numbers
    }
}

impl Fields {
    fn find(&self, hash: u64) -> Option<u32> {
        self.table.find(hash, |field| self.entries[*field as usize].0 == hash).copied()
    }

    fn numbers(&mut self, hashes: &[u64], most: usize, taken: &mut Taken) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(hashes.len());
        for &hash in hashes {
            let field = match self.find(hash) {
                Some(field) => field,
                None if self.entries.len() - self.free.len() < most => self.add(hash),
                None => {
                    *taken = Taken::Partly;
                    continue;
                }
            };
            numbers.push(field);
        }
        numbers.sort_unstable();
        numbers
    }

    fn add(&mut self, hash: u64) -> u32 {
        let field = put(&mut self.entries, &mut self.free, (hash, Posting::new()));
        let entries = &self.entries;
        self.table.insert_unique(hash, field, |field| entries[*field as usize].0);
        field
    }

    fn remove(&mut self, field: u32, slot: u32) -> bool {
        let (hash, posting) = &mut self.entries[field as usize];
        let removed = posting.remove(slot);
        if posting.is_empty() {
            if let Ok(found) = self.table.find_entry(*hash, |other| *other == field) {
                found.remove();
            }
            self.free.push(field);
        }
        removed
    }
}

/// How much there is and what it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TermSizes {
    pub(super) words: usize,
    pub(super) fields: usize,
    pub(super) dictionary: usize,
    pub(super) postings: usize,
}

impl Held {
    fn new(lists: &Lists) -> Held {
        let mut bytes = Vec::with_capacity(2 * (lists.public.len() + lists.body.len() + lists.fields.len()));
        for list in [&lists.public, &lists.body, &lists.fields] {
            write_number(u32::try_from(list.len()).expect("a row has few words"), &mut bytes);
            let mut last = 0;
            for &number in list {
                write_number(number - last, &mut bytes);
                last = number;
            }
        }
        Held(bytes.into_boxed_slice())
    }

    pub(super) fn lists(&self) -> Lists {
        let mut bytes = self.0.iter().copied();
        let mut list = || {
            let mut last = 0;
            let length = read_number(&mut bytes);
            let next = |_| {
                last += read_number(&mut bytes);
                last
            };
            (0..length).map(next).collect()
        };
        Lists { public: list(), body: list(), fields: list() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.len() + super::posting::ALLOCATION
    }
}

/// Seven bits to a byte; the eighth says that more follow.
fn write_number(mut number: u32, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    into.push((number & 0x7f) as u8);
}

fn read_number(bytes: &mut impl Iterator<Item = u8>) -> u32 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let Some(byte) = bytes.next() else { break };
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

/// Does something with each number that is in one growing list and not in the other; it has to have an effect.
fn differences(these: &[u32], those: &[u32], mut act: impl FnMut(u32) -> bool) {
    let mut those = those.iter().peekable();
    for &number in these {
        while those.next_if(|other| **other < number).is_some() {}
        if those.peek() != Some(&&number) {
            let changed = act(number);
            debug_assert!(changed, "the lists of a row and the rows of a word differ");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::prepare::Preparer;
    use super::*;
    use crate::row::Row;

    #[test]
    fn lists_grow_by_little_and_what_they_hold_in_reserve_is_counted() {
        let preparer = Preparer::new(Hashes::default());
        let row: Row = serde_json::from_value(serde_json::json!({
            "cluster": "c", "namespace": "n", "group": "", "kind": "K", "name": "one", "version": "v1",
            "resource": "ks", "uid": "u", "status": "-", "message": "", "category": "other", "labels": [],
            "created": null, "deleted_at": null, "terminating": false,
        }))
        .unwrap();
        let mut terms = Terms::new(usize::MAX);
        for slot in 0..5000 {
            let row = Row { message: format!("word{slot}"), ..row.clone() };
            terms.update(slot, &mut Held::default(), &preparer.prepare(row));
        }
        let reserved = [terms.public.capacity(), terms.body.capacity()];
        assert!(reserved.iter().all(|reserved| (5000..6500).contains(reserved)), "{reserved:?}");
        assert!(terms.sizes().postings >= (reserved[0] + reserved[1]) * size_of::<Posting>());
    }

    #[test]
    fn lists_come_back_from_their_bytes() {
        let lists = Lists { public: vec![0, 1, 127, 128, 300], body: vec![], fields: vec![16_384, u32::MAX] };
        assert_eq!(Held::new(&lists).lists(), lists);
        assert_eq!(Held::default().lists(), Lists::default());
        assert_eq!(Held::new(&Lists { public: vec![5, 6, 7], ..Lists::default() }).0.len(), 6);
    }

    #[test]
    fn differences_are_what_the_other_list_lacks() {
        let table: [(&[u32], &[u32], &[u32]); 4] =
            [(&[1, 2, 3], &[2], &[1, 3]), (&[], &[1], &[]), (&[5], &[], &[5]), (&[1, 9], &[0, 1, 2, 10], &[9])];
        for (these, those, expected) in table {
            let mut found = Vec::new();
            differences(these, those, |number| {
                found.push(number);
                true
            });
            assert_eq!(found, expected);
        }
    }
}
