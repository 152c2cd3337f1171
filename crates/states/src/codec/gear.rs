//! Where to cut: a rolling hash over what stands in strings, so that an edit moves only the cuts next to it. Pure.
//!
//! The table and the width are part of no format: other cuts are still readable, they only match older segments less.

use std::ops::Range;

/// A gear hash: each step shifts, so that the upper bits depend on the last 64 bytes and on nothing before them.
#[derive(Clone, Debug)]
pub(super) struct Gear {
    hash: u64,
    shift: u32,
}

impl Gear {
    /// Strings are about half of a state, so one hit in a twelfth of the room between the shortest and the longest
    /// segment makes nearly all segments end by content and few at the limit.
    pub(super) fn new(segment: &Range<usize>) -> Gear {
        let every = (segment.len() / 12).max(2);
        Gear { hash: 0, shift: 64 - every.ilog2() }
    }

    pub(super) fn reset(&mut self) {
        self.hash = 0;
    }

    /// The place behind the first byte that ends a segment. Never behind a backslash, which belongs to what follows.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, &byte) in bytes.iter().enumerate() {
            self.hash = (self.hash << 1).wrapping_add(TABLE[usize::from(byte)]);
            if self.hash >> self.shift == 0 && byte != b'\\' {
                return Some(at + 1);
            }
        }
        None
    }
}

static TABLE: [u64; 256] = table();

/// Random numbers from a fixed seed (SplitMix64).
const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut seed: u64 = 0x7374_6174_6577_6172;
    let mut at = 0;
    while at < 256 {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[at] = mixed ^ (mixed >> 31);
        at += 1;
    }
    table
}
