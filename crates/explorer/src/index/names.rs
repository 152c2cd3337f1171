//! Names of objects: which rows have which, and which names hold a piece of text.
//!
//! A name is kept once, whatever number of rows have it. Three letters in a row lead to the names that hold them; when too
//! many do, reading all names is quicker than looking at each of those.

use std::collections::HashMap;

use roaring::RoaringBitmap;

use super::dictionary::{Dictionary, Hashes};
use super::posting::{Posting, Union};
use super::slab::push;
use super::words::folded;
use crate::query::Pattern;

#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) texts: Dictionary,
    /// By name: the rows.
    rows: Vec<Posting>,
    trigrams: HashMap<[u8; 3], Posting>,
    /// Names that are not in small letters, as they would be.
    odd: HashMap<u32, Box<str>>,
}

/// From here on all names are read.
const MANY: u64 = 20_000;

impl Names {
    /// Adds a row to a name, which it may make.
    pub(super) fn insert(&mut self, hashes: &Hashes, name: &str, slot: u32) -> u32 {
        let hash = hashes.text(name);
        let id = self.texts.find(hash, name).unwrap_or_else(|| self.add(hash, name));
        self.rows[id as usize].insert(slot);
        id
    }

    pub(super) fn remove(&mut self, id: u32, slot: u32) {
        let rows = &mut self.rows[id as usize];
        rows.remove(slot);
        if rows.is_empty() {
            let small = self.odd.remove(&id).unwrap_or_else(|| self.texts.text(id).into());
            for trigram in trigrams(&small) {
                if let Some(names) = self.trigrams.get_mut(&trigram) {
                    names.remove(id);
                    if names.is_empty() {
                        self.trigrams.remove(&trigram);
                    }
                }
            }
            self.texts.forget(id);
        }
    }

    pub(super) fn find(&self, hashes: &Hashes, name: &str) -> Option<u32> {
        self.texts.find(hashes.text(name), name)
    }

    pub(super) fn rows(&self, id: u32) -> &Posting {
        &self.rows[id as usize]
    }

    /// The rows among `within` whose names hold this text, which is in small letters; `names` is the name of each row.
    pub(super) fn holding(&self, text: &str, within: &RoaringBitmap, names: &[u32]) -> RoaringBitmap {
        let found = self.ids_holding(text);
        self.rows_of(found, within, names)
    }

    /// The rows among `within` whose names match.
    pub(super) fn matching(
        &self,
        hashes: &Hashes,
        pattern: &Pattern,
        within: &RoaringBitmap,
        names: &[u32],
    ) -> RoaringBitmap {
        if let Some(name) = pattern.as_exact() {
            return self.find(hashes, name).map_or_else(RoaringBitmap::new, |id| self.rows(id).and(within));
        }
        let fits = |id: &u32| pattern.matches(self.texts.text(*id));
        let found = if pattern.first().is_empty() {
            self.ids_holding(&folded(pattern.longest())).into_iter().filter(fits).collect()
        } else {
            self.texts.beginning(pattern.first()).filter(fits).collect()
        };
        self.rows_of(found, within, names)
    }

    pub(super) fn bytes(&self) -> (usize, usize) {
        let rows: usize = self.rows.iter().map(Posting::heap_bytes).sum();
        let trigrams: usize = self.trigrams.values().map(|names| names.heap_bytes() + 32).sum();
        (self.texts.bytes(), rows + self.rows.capacity() * size_of::<Posting>() + trigrams)
    }

    /// For the audit: that every name has rows, and exactly its own trigrams.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut expected: HashMap<[u8; 3], RoaringBitmap> = HashMap::new();
        for id in self.texts.ids() {
            if self.rows[id as usize].is_empty() {
                return Err("a name has no rows and was not forgotten".to_owned());
            }
            for trigram in trigrams(&folded(self.texts.text(id))) {
                expected.entry(trigram).or_default().insert(id);
            }
        }
        let same = expected.len() == self.trigrams.len()
            && expected.iter().all(|(trigram, names)| {
                self.trigrams
                    .get(trigram)
                    .is_some_and(|found| found.len() == names.len() && found.count_in(names) == names.len())
            });
        if same { Ok(()) } else { Err("trigrams are not those of the names".to_owned()) }
    }

    fn add(&mut self, hash: u32, name: &str) -> u32 {
        let id = self.texts.add(hash, name);
        if self.rows.len() <= id as usize {
            push(&mut self.rows, Posting::new());
        }
        let small = folded(name);
        for trigram in trigrams(&small) {
            self.trigrams.entry(trigram).or_insert_with(Posting::new).insert(id);
        }
        if small != name {
            self.odd.insert(id, small.into());
        }
        id
    }

    fn small(&self, id: u32) -> &str {
        self.odd.get(&id).map_or_else(|| self.texts.text(id), AsRef::as_ref)
    }

    fn ids_holding(&self, text: &str) -> Vec<u32> {
        let mut lists = Vec::new();
        for trigram in trigrams(text) {
            match self.trigrams.get(&trigram) {
                Some(names) => lists.push(names),
                None => return Vec::new(),
            }
        }
        lists.sort_by_key(|names| names.len());
        match lists.first() {
            Some(fewest) if fewest.len() <= MANY => {
                let mut found = Vec::new();
                fewest.for_each(|id| {
                    if lists.iter().skip(1).take(2).all(|names| names.contains(id)) && self.small(id).contains(text) {
                        found.push(id);
                    }
                });
                found
            }
            _ => {
                let mut found = Vec::new();
                self.texts.holding(text.as_bytes(), |id| {
                    if !self.odd.contains_key(&id) {
                        found.push(id);
                    }
                });
                found.extend(self.odd.iter().filter(|(_, small)| small.contains(text)).map(|(id, _)| *id));
                found
            }
        }
    }

    /// Few names are followed to their rows; with many, each row is asked for its name.
    fn rows_of(&self, found: Vec<u32>, within: &RoaringBitmap, names: &[u32]) -> RoaringBitmap {
        if found.is_empty() || within.is_empty() {
            return RoaringBitmap::new();
        }
        if (found.len() as u64) < within.len() / 8 {
            let mut union = Union::default();
            for id in found {
                union.add(self.rows(id));
            }
            return union.finish() & within;
        }
        let mut wanted = vec![false; self.texts.ids_end()];
        for id in found {
            wanted[id as usize] = true;
        }
        let mut rows = RoaringBitmap::new();
        let _ = rows.append(within.iter().filter(|slot| wanted[names[*slot as usize] as usize]));
        rows
    }
}

/// Every three bytes in a row, each once.
fn trigrams(text: &str) -> Vec<[u8; 3]> {
    let mut found: Vec<[u8; 3]> = text.as_bytes().windows(3).map(|three| [three[0], three[1], three[2]]).collect();
    found.sort_unstable();
    found.dedup();
    found
}
