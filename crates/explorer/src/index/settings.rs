//! Limits of an index, and what it takes.

use std::collections::HashMap;

#[derive(Clone, Debug)]
pub struct Settings {
    /// How many rows a page has at most.
    pub page: usize,
    /// How many different words of bodies are kept, and as many fields; rows with more are known to be incomplete.
    pub words: usize,
    /// How many changes are remembered for those who follow.
    pub changes: usize,
    pub retention: Retention,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { page: 1000, words: 4_000_000, changes: 10_000, retention: Retention::default() }
    }
}

/// How long objects that are gone are still shown, in milliseconds, by group and kind. All others go at once.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    kinds: HashMap<(String, String), i64>,
}

impl Retention {
    #[must_use]
    pub fn with(mut self, group: &str, kind: &str, milliseconds: i64) -> Retention {
        self.kinds.insert((group.to_owned(), kind.to_owned()), milliseconds);
        self
    }

    /// 0 for a kind of which nothing is kept.
    pub fn of(&self, group: &str, kind: &str) -> i64 {
        // One key at a time is looked up, rarely: a borrowed pair is not worth its trouble.
        self.kinds.get(&(group.to_owned(), kind.to_owned())).copied().unwrap_or(0).max(0)
    }
}

/// How much is in an index and how many bytes it takes, apart from the allocator's own waste.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub rows: usize,
    pub words: usize,
    pub fields: usize,
    /// Texts with their numbers and order: words, names, labels, messages, scopes.
    pub dictionary_bytes: usize,
    /// Sets of rows, whether lists or bitmaps.
    pub posting_bytes: usize,
    /// Columns, and what each row remembers to be taken out again.
    pub row_bytes: usize,
}

impl Sizes {
    pub fn bytes(&self) -> usize {
        self.dictionary_bytes + self.posting_bytes + self.row_bytes
    }
}
