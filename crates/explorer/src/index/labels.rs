//! Labels: which rows have which key with which value.

use roaring::RoaringBitmap;

use super::dictionary::{Dictionary, Hashes};
use super::posting::{Posting, Union};
use super::slab::push;
use crate::query::Pattern;

#[derive(Debug, Default)]
pub(super) struct Labels {
    /// Key and value with a NUL between them, which neither can hold.
    pairs: Dictionary,
    rows: Vec<Posting>,
}

impl Labels {
    /// Gives a row these labels instead of those.
    pub(super) fn update(&mut self, hashes: &Hashes, slot: u32, held: &mut Box<[u32]>, labels: &[(String, String)]) {
        let mut now: Vec<u32> = labels.iter().map(|(key, value)| self.number(hashes, &joined(key, value))).collect();
        now.sort_unstable();
        now.dedup();
        for &pair in &now {
            self.rows[pair as usize].insert(slot);
        }
        for &pair in held.iter().filter(|pair| now.binary_search(pair).is_err()) {
            self.rows[pair as usize].remove(slot);
            if self.rows[pair as usize].is_empty() {
                self.pairs.forget(pair);
            }
        }
        *held = now.into_boxed_slice();
    }

    pub(super) fn pair(&self, pair: u32) -> (&str, &str) {
        let text = self.pairs.text(pair);
        text.split_once(BETWEEN).unwrap_or((text, ""))
    }

    /// The rows that have this key with a value that matches.
    pub(super) fn matching(&self, hashes: &Hashes, key: &str, pattern: &Pattern) -> RoaringBitmap {
        let mut union = Union::default();
        if let Some(value) = pattern.as_exact() {
            let text = joined(key, value);
            if let Some(pair) = self.pairs.find(hashes.text(&text), &text) {
                union.add(&self.rows[pair as usize]);
            }
        } else {
            for (value, rows) in self.values(&joined(key, "")) {
                if pattern.matches(value) {
                    union.add(rows);
                }
            }
        }
        union.finish()
    }

    /// How many of these rows have each value of a key.
    pub(super) fn counts(&self, key: &str, rows: &RoaringBitmap) -> Vec<(String, u64)> {
        let prefix = joined(key, "");
        let counted = self.values(&prefix).map(|(value, with)| (value.to_owned(), with.count_in(rows)));
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// Keys and values from a text on, in their order, with their rows.
    pub(super) fn beginning<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (&'a str, &'a str, &'a Posting)> {
        let pairs = self.pairs.beginning(text);
        pairs.map(|pair| {
            let (key, value) = self.pair(pair);
            (key, value, &self.rows[pair as usize])
        })
    }

    pub(super) fn bytes(&self) -> (usize, usize) {
        let rows: usize = self.rows.iter().map(Posting::heap_bytes).sum();
        (self.pairs.bytes(), rows + self.rows.capacity() * size_of::<Posting>())
    }

    /// For the audit: how many pairs there are, and how often they are used.
    pub(super) fn check(&self) -> Result<u64, String> {
        if self.pairs.ids().any(|pair| self.rows[pair as usize].is_empty()) {
            return Err("a label is in no row and was not forgotten".to_owned());
        }
        let filled = self.rows.iter().filter(|rows| !rows.is_empty()).count();
        if filled != self.pairs.len() {
            return Err("a label was forgotten and still has rows".to_owned());
        }
        Ok(self.rows.iter().map(Posting::len).sum())
    }

    pub(super) fn has(&self, pair: u32, slot: u32) -> bool {
        self.rows[pair as usize].contains(slot)
    }

    fn values<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Posting)> {
        let pairs = self.pairs.beginning(prefix);
        let length = prefix.len();
        pairs.map(move |pair| (&self.pairs.text(pair)[length..], &self.rows[pair as usize]))
    }

    fn number(&mut self, hashes: &Hashes, text: &str) -> u32 {
        let hash = hashes.text(text);
        if let Some(pair) = self.pairs.find(hash, text) {
            return pair;
        }
        let pair = self.pairs.add(hash, text);
        if self.rows.len() <= pair as usize {
            push(&mut self.rows, Posting::new());
        }
        pair
    }
}

const BETWEEN: char = '\0';

fn joined(key: &str, value: &str) -> String {
    format!("{key}{BETWEEN}{value}")
}
