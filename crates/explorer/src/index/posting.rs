//! A set of rows that is small for most words and large for some: three numbers in place, then a sorted list, then a bitmap.
//!
//! A bitmap of few numbers that are far apart costs some 70 bytes each; most words are in few rows.

use roaring::RoaringBitmap;

/// Below this a sorted list is smaller, and still quick to change.
const LONGEST_LIST: usize = 256;
const IN_PLACE: usize = 3;

#[derive(Clone, Debug)]
pub(super) enum Posting {
    InPlace {
        len: u8,
        slots: [u32; IN_PLACE],
    },
    #[expect(clippy::box_collection, reason = "16 bytes for all that are in place")]
    List(Box<Vec<u32>>),
    Bitmap(Box<RoaringBitmap>),
}

impl Posting {
    pub(super) const fn new() -> Posting {
        Posting::InPlace { len: 0, slots: [0; IN_PLACE] }
    }

    pub(super) fn insert(&mut self, slot: u32) -> bool {
        match self {
            Posting::InPlace { len, slots } => {
                let used = usize::from(*len);
                let Err(at) = slots[..used].binary_search(&slot) else { return false };
                if used < IN_PLACE {
                    slots.copy_within(at..used, at + 1);
                    slots[at] = slot;
                    *len += 1;
                } else {
                    let mut list = Vec::with_capacity(IN_PLACE * 2);
                    list.extend_from_slice(slots);
                    list.insert(at, slot);
                    *self = Posting::List(Box::new(list));
                }
                true
            }
            Posting::List(list) => {
                // Rows come in with growing numbers, most of the time.
                let at = match list.last() {
                    Some(&last) if last < slot => list.len(),
                    _ => match list.binary_search(&slot) {
                        Ok(_) => return false,
                        Err(at) => at,
                    },
                };
                if list.len() == list.capacity() {
                    list.reserve_exact(list.len() / 4 + 2);
                }
                list.insert(at, slot);
                if list.len() > LONGEST_LIST {
                    *self = Posting::Bitmap(Box::new(bitmap(list.iter().copied())));
                }
                true
            }
            Posting::Bitmap(bitmap) => bitmap.insert(slot),
        }
    }

    pub(super) fn remove(&mut self, slot: u32) -> bool {
        match self {
            Posting::InPlace { len, slots } => {
                let used = usize::from(*len);
                let Ok(at) = slots[..used].binary_search(&slot) else { return false };
                slots.copy_within(at + 1..used, at);
                *len -= 1;
                true
            }
            Posting::List(list) => {
                let Ok(at) = list.binary_search(&slot) else { return false };
                list.remove(at);
                if list.len() < IN_PLACE {
                    let mut smaller = Posting::new();
                    for &slot in list.iter() {
                        smaller.insert(slot);
                    }
                    *self = smaller;
                }
                true
            }
            Posting::Bitmap(bitmap) => {
                let removed = bitmap.remove(slot);
                // Half, so that a row that comes and goes does not turn it over each time.
                if removed && bitmap.len() <= (LONGEST_LIST / 2) as u64 {
                    *self = Posting::List(Box::new(bitmap.iter().collect()));
                }
                removed
            }
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Posting::InPlace { len, .. } => u64::from(*len),
            Posting::List(list) => list.len() as u64,
            Posting::Bitmap(bitmap) => bitmap.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn contains(&self, slot: u32) -> bool {
        match self {
            Posting::Bitmap(bitmap) => bitmap.contains(slot),
            _ => self.slots().binary_search(&slot).is_ok(),
        }
    }

    /// How many of them are in `set`.
    pub(super) fn count_in(&self, set: &RoaringBitmap) -> u64 {
        match self {
            Posting::Bitmap(bitmap) => bitmap.intersection_len(set),
            _ => self.slots().iter().filter(|slot| set.contains(**slot)).count() as u64,
        }
    }

    /// Those of them that are in `set`.
    pub(super) fn and(&self, set: &RoaringBitmap) -> RoaringBitmap {
        match self {
            Posting::Bitmap(bitmap) => &**bitmap & set,
            _ => bitmap(self.slots().iter().copied().filter(|slot| set.contains(*slot))),
        }
    }

    pub(super) fn for_each(&self, mut act: impl FnMut(u32)) {
        match self {
            Posting::Bitmap(bitmap) => bitmap.iter().for_each(act),
            _ => self.slots().iter().for_each(|slot| act(*slot)),
        }
    }

    /// Bytes beside the value itself.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Posting::InPlace { .. } => 0,
            Posting::List(list) => ALLOCATION + size_of::<Vec<u32>>() + ALLOCATION + list.capacity() * 4,
            Posting::Bitmap(bitmap) => ALLOCATION + size_of::<RoaringBitmap>() + bitmap_bytes(bitmap),
        }
    }

    fn slots(&self) -> &[u32] {
        match self {
            Posting::InPlace { len, slots } => &slots[..usize::from(*len)],
            Posting::List(list) => list,
            Posting::Bitmap(_) => &[],
        }
    }
}

/// What an allocation costs beside its bytes.
pub(super) const ALLOCATION: usize = 16;

/// A bit for each of the numbers that a container can hold.
const BITS_OF_A_SET: u64 = 1 << 16;

/// Bytes that a bitmap has on the heap.
pub(super) fn bitmap_bytes(bitmap: &RoaringBitmap) -> usize {
    let statistics = bitmap.statistics();
    // Of its own figures roaring 0.12 gives twice the bytes of a list, and of a set of bits the bits.
    let lists = statistics.n_bytes_array_containers / 2;
    let sets = u64::from(statistics.n_bitset_containers) * BITS_OF_A_SET / 8;
    let stores = lists + sets + statistics.n_bytes_run_containers;
    // A container is its key, its kind and where its numbers are.
    let containers = statistics.n_containers as usize * (40 + ALLOCATION);
    usize::try_from(stores).unwrap_or(usize::MAX).saturating_add(containers)
}

/// Of numbers in growing order.
fn bitmap(sorted: impl Iterator<Item = u32>) -> RoaringBitmap {
    let mut bitmap = RoaringBitmap::new();
    let _ = bitmap.append(sorted);
    bitmap
}

/// A union of many postings: short ones are put in order once, not one by one into a bitmap.
#[derive(Debug, Default)]
pub(super) struct Union<'a> {
    slots: Vec<u32>,
    bitmap: RoaringBitmap,
    later: Vec<&'a RoaringBitmap>,
}

impl<'a> Union<'a> {
    pub(super) fn add(&mut self, posting: &Posting) {
        match posting {
            Posting::Bitmap(bitmap) => self.bitmap |= &**bitmap,
            _ => self.slots.extend_from_slice(posting.slots()),
        }
    }

    pub(super) fn add_slot(&mut self, slot: u32) {
        self.slots.push(slot);
    }

    pub(super) fn add_bitmap(&mut self, bitmap: &RoaringBitmap) {
        self.bitmap |= bitmap;
    }

    /// The same, but not before the end.
    pub(super) fn add_later(&mut self, bitmap: &'a RoaringBitmap) {
        self.later.push(bitmap);
    }

    pub(super) fn finish(mut self) -> RoaringBitmap {
        for bitmap in self.later {
            self.bitmap |= bitmap;
        }
        if self.slots.is_empty() {
            return self.bitmap;
        }
        self.slots.sort_unstable();
        self.slots.dedup();
        self.bitmap |= bitmap(self.slots.into_iter());
        self.bitmap
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_bitmap_takes_two_bytes_for_each_number_of_a_list_and_a_bit_for_each_of_a_set() {
        let every = |step: usize| bitmap((0..1 << 16).step_by(step));
        let list = bitmap_bytes(&every(64));
        assert!((2048..=4096 + 100).contains(&list), "1024 numbers in {list} bytes");
        let set = bitmap_bytes(&every(2));
        assert!((8192..8192 + 100).contains(&set), "half of all numbers in {set} bytes");
    }

    #[test]
    fn it_is_the_same_set_in_every_form() {
        let mut random = fastrand::Rng::with_seed(testbed::seed("it_is_the_same_set_in_every_form"));
        for most in [2, 6, 300, 3000] {
            let (mut posting, mut model) = (Posting::new(), BTreeSet::new());
            for step in 0..4000 {
                let slot = random.u32(0..most) * 7919;
                // Grows first, shrinks later.
                if random.u32(0..4000) > step {
                    assert_eq!(posting.insert(slot), model.insert(slot));
                } else {
                    assert_eq!(posting.remove(slot), model.remove(&slot));
                }
                assert_eq!(posting.len(), model.len() as u64);
                assert_eq!(posting.contains(slot), model.contains(&slot));
            }
            let mut all = Vec::new();
            posting.for_each(|slot| all.push(slot));
            assert_eq!(all, model.iter().copied().collect::<Vec<_>>());
            let even: RoaringBitmap = model.iter().copied().filter(|slot| slot % 2 == 0).collect();
            assert_eq!(posting.and(&even), even);
            assert_eq!(posting.count_in(&even), even.len());
            let mut union = Union::default();
            union.add(&posting);
            union.add_slot(5);
            union.add_bitmap(&even);
            assert_eq!(union.finish(), model.iter().copied().chain([5]).collect());
        }
    }
}
