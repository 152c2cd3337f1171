//! Texts with numbers: each text is kept once, found by its hash, and ordered.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::order::Order;
use super::slab::put;

/// One text each, by number. Numbers of forgotten texts are given again.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    table: HashTable<u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// All texts, each behind a byte that none of them holds; gaps where texts were forgotten.
    arena: Vec<u8>,
    /// In the order of the arena: where a text begins, and its number.
    begins: Vec<(u32, u32)>,
    /// Bytes of forgotten texts.
    wasted: usize,
    order: Order,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    begin: u32,
    /// `NONE` for a number that is free.
    len: u32,
    hash: u32,
}

const NONE: u32 = u32::MAX;
/// Between texts: no UTF-8 has it.
const BETWEEN: u8 = 0xff;
/// Below this it does not matter.
const WASTE: usize = 64 * 1024;

/// Hashes of texts: the same for all dictionaries of one index, unknown outside of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Hashes(DefaultHashBuilder);

impl Hashes {
    #[expect(clippy::cast_possible_truncation, reason = "half of it is enough beside the text")]
    pub(super) fn text(&self, text: &str) -> u32 {
        self.0.hash_one(text) as u32
    }

    pub(super) fn of(&self, value: impl Hash) -> u64 {
        self.0.hash_one(value)
    }
}

/// For the table, which wants all bits to matter.
pub(super) fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Dictionary {
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn text(&self, id: u32) -> &str {
        let entry = self.entries[id as usize];
        std::str::from_utf8(self.bytes_of(entry)).unwrap_or_default()
    }

    pub(super) fn find(&self, hash: u32, text: &str) -> Option<u32> {
        let found = self.table.find(spread(hash), |id| {
            let entry = self.entries[*id as usize];
            entry.hash == hash && self.bytes_of(entry) == text.as_bytes()
        });
        found.copied()
    }

    /// Adds a text that is not there.
    pub(super) fn add(&mut self, hash: u32, text: &str) -> u32 {
        let begin = u32::try_from(self.arena.len() + 1).expect("texts of less than 4 GB");
        self.arena.push(BETWEEN);
        self.arena.extend_from_slice(text.as_bytes());
        let entry = Entry { begin, len: u32::try_from(text.len()).expect("a short text"), hash };
        let id = put(&mut self.entries, &mut self.free, entry);
        self.begins.push((begin, id));
        let entries = &self.entries;
        self.table.insert_unique(spread(hash), id, |id| spread(entries[*id as usize].hash));
        let (arena, bytes) = (&self.arena, text.as_bytes());
        self.order.insert(id, |other| slice(arena, entries[other as usize]) < bytes);
        id
    }

    pub(super) fn forget(&mut self, id: u32) {
        self.order.remove(id);
        let entry = self.entries[id as usize];
        if let Ok(found) = self.table.find_entry(spread(entry.hash), |other| *other == id) {
            found.remove();
        }
        self.wasted += entry.len as usize + 1;
        self.entries[id as usize].len = NONE;
        self.free.push(id);
        if self.wasted > WASTE && self.wasted > self.arena.len() / 2 {
            self.compact();
        }
    }

    /// Larger for later texts, until the next change.
    pub(super) fn label(&self, id: u32) -> u64 {
        self.order.label(id)
    }

    /// Where a text is, or would be: its label and that it is there, or the label of the next one.
    pub(super) fn bound(&self, text: &str) -> (u64, bool) {
        match self.from(text).next() {
            Some(id) => (self.label(id), self.text(id) == text),
            None => (u64::MAX, false),
        }
    }

    /// Numbers of the texts from this one on, in their order.
    pub(super) fn from(&self, text: &str) -> impl Iterator<Item = u32> + '_ {
        self.order.from(|id| self.bytes_of(self.entries[id as usize]) < text.as_bytes())
    }

    /// Numbers of the texts that begin so, in their order.
    pub(super) fn beginning<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = u32> + 'a {
        self.from(prefix).take_while(move |id| self.text(*id).starts_with(prefix))
    }

    /// Numbers of all texts, in no order.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).zip(&self.entries).filter(|(_, entry)| entry.len != NONE).map(|(id, _)| id)
    }

    /// More than any number.
    pub(super) fn ids_end(&self) -> usize {
        self.entries.len()
    }

    /// Numbers of the texts that hold these bytes. Reads all texts once, as fast as memory goes.
    pub(super) fn holding(&self, bytes: &[u8], mut found: impl FnMut(u32)) {
        let finder = memchr::memmem::Finder::new(bytes);
        let (mut at, mut text) = (0, 0);
        while let Some(hit) = finder.find(&self.arena[at..]) {
            let hit = at + hit;
            // Hits come in the order of the arena, and so do texts.
            text += self.begins[text..].partition_point_from_start(|(begin, _)| *begin as usize <= hit) - 1;
            let (begin, id) = self.begins[text];
            let entry = self.entries[id as usize];
            if entry.begin == begin && entry.len != NONE {
                found(id);
            }
            at = self.begins.get(text + 1).map_or(self.arena.len(), |(next, _)| *next as usize);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.arena.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.begins.capacity() * 8
            + self.free.capacity() * 4
            + self.table.allocation_size()
            + self.order.bytes()
    }

    fn bytes_of(&self, entry: Entry) -> &[u8] {
        slice(&self.arena, entry)
    }

    fn compact(&mut self) {
        let mut arena = Vec::with_capacity(self.arena.len() - self.wasted);
        let mut begins = Vec::with_capacity(self.len());
        for (begin, id) in std::mem::take(&mut self.begins) {
            let entry = self.entries[id as usize];
            if entry.begin == begin && entry.len != NONE {
                arena.push(BETWEEN);
                let begin = u32::try_from(arena.len()).expect("no more than before");
                arena.extend_from_slice(slice(&self.arena, entry));
                self.entries[id as usize].begin = begin;
                begins.push((begin, id));
            }
        }
        (self.arena, self.begins, self.wasted) = (arena, begins, 0);
    }
}

fn slice(arena: &[u8], entry: Entry) -> &[u8] {
    let begin = entry.begin as usize;
    arena.get(begin..begin + entry.len as usize).unwrap_or_default()
}

/// `partition_point` for a place that is near the start.
trait FromStart<T> {
    fn partition_point_from_start(&self, before: impl Fn(&T) -> bool) -> usize;
}

impl<T> FromStart<T> for [T] {
    fn partition_point_from_start(&self, before: impl Fn(&T) -> bool) -> usize {
        let mut reach = 1;
        while reach < self.len() && before(&self[reach]) {
            reach *= 2;
        }
        let low = reach / 2;
        low + self[low..reach.min(self.len())].partition_point(before)
    }
}

/// A dictionary whose texts go when nobody uses them any more.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) texts: Dictionary,
    uses: Vec<u32>,
}

impl Counted {
    /// One more use of a text.
    pub(super) fn take(&mut self, hashes: &Hashes, text: &str) -> u32 {
        let hash = hashes.text(text);
        let id = self.texts.find(hash, text).unwrap_or_else(|| self.texts.add(hash, text));
        if self.uses.len() <= id as usize {
            self.uses.resize(id as usize + 1, 0);
        }
        self.uses[id as usize] += 1;
        id
    }

    pub(super) fn find(&self, hashes: &Hashes, text: &str) -> Option<u32> {
        self.texts.find(hashes.text(text), text)
    }

    /// One use less.
    pub(super) fn release(&mut self, id: u32) {
        self.uses[id as usize] -= 1;
        if self.uses[id as usize] == 0 {
            self.texts.forget(id);
        }
    }

    pub(super) fn uses(&self, id: u32) -> u32 {
        self.uses[id as usize]
    }

    pub(super) fn bytes(&self) -> usize {
        self.texts.bytes() + self.uses.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn texts_come_and_go_and_are_found_by_hash_order_prefix_and_part() {
        let mut random = fastrand::Rng::with_seed(testbed::seed("texts_come_and_go"));
        let hashes = Hashes::default();
        let (mut counted, mut model) = (Counted::default(), BTreeMap::<String, u32>::new());
        let pick = |random: &mut fastrand::Rng| {
            let length = random.usize(1..60);
            let filler: String = std::iter::repeat_with(|| random.char('a'..='c')).take(length).collect();
            format!("{}{}", random.u32(0..3000), &filler[..length.min(40)])
        };
        for step in 0..testbed::scale().of(20_000, 200_000) {
            if random.u32(0..100) < 52 {
                let text = pick(&mut random);
                counted.take(&hashes, &text);
                *model.entry(text).or_default() += 1;
            } else if let Some((text, uses)) = model.range(random.u32(0..3000).to_string()..).next() {
                let (text, uses) = (text.clone(), *uses);
                let id = counted.find(&hashes, &text).unwrap();
                assert_eq!(counted.uses(id), uses);
                counted.release(id);
                if uses == 1 {
                    model.remove(&text)
                } else {
                    model.insert(text, uses - 1)
                };
            }
            if step % 4000 == 0 {
                let texts = &counted.texts;
                assert_eq!(texts.len(), model.len());
                let ordered: Vec<&str> = texts.from("").map(|id| texts.text(id)).collect();
                assert_eq!(ordered, model.keys().map(String::as_str).collect::<Vec<_>>());
                let prefixed: Vec<&str> = texts.beginning("12").map(|id| texts.text(id)).collect();
                assert_eq!(prefixed, model.keys().filter(|text| text.starts_with("12")).collect::<Vec<_>>());
                let mut holding = Vec::new();
                texts.holding(b"abc", |id| holding.push(texts.text(id)));
                holding.sort_unstable();
                assert_eq!(holding, model.keys().filter(|text| text.contains("abc")).collect::<Vec<_>>());
                assert_eq!(texts.ids().count(), model.len());
            }
        }
        assert_eq!(counted.find(&hashes, "nothing of that"), None);
    }

    #[test]
    fn the_bound_of_a_text_is_its_own_label_or_that_of_the_next() {
        let (hashes, mut counted) = (Hashes::default(), Counted::default());
        for text in ["b", "d", "f"] {
            counted.take(&hashes, text);
        }
        let label = |text| counted.texts.label(counted.find(&hashes, text).unwrap());
        assert_eq!(counted.texts.bound("d"), (label("d"), true));
        assert_eq!(counted.texts.bound("c"), (label("d"), false));
        assert_eq!(counted.texts.bound("g"), (u64::MAX, false));
    }
}
