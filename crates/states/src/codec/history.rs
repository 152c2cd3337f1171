//! Older versions as differences to newer ones.
//!
//! The doors are [`align`], which finds the newer segment that an older one resembles, and [`delta`]. How long chains
//! of deltas get, and what is pruned, is the caller's business.

use std::collections::HashMap;

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CCtx, CParameter, MAGIC_DICTIONARY, compress_bound};

use super::contexts;
use super::fault::Damaged;
use super::segment::{Encoding, Segment, unpacked};

/// For each older segment the index of the newer one to take the difference to: the one with equal bytes, else the
/// one that stands in its place between neighbours with equal bytes. `None` only if there is no newer segment.
pub fn align(older: &[Segment], newer: &[Segment]) -> Vec<Option<usize>> {
    let mut places: HashMap<&[u8; 32], Vec<usize>> = HashMap::new();
    for (index, segment) in newer.iter().enumerate() {
        places.entry(&segment.hash).or_default().push(index);
    }
    let mut next = 0;
    older
        .iter()
        .map(|segment| {
            let equal = places.get(&segment.hash).map(|found| {
                let ahead = found.partition_point(|index| *index < next);
                found[ahead.min(found.len() - 1)]
            });
            let index = equal.unwrap_or(next.min(newer.len().saturating_sub(1)));
            next = index + 1;
            (index < newer.len()).then_some(index)
        })
        .collect()
}

/// The older segment as a difference to a newer one, if that is smaller than the older one whole. Both are given as
/// [`unpack`](super::unpack) gives them; to restore it, give the newer one as `base`.
pub fn delta(older: &Segment, shaped: &[u8], newer: &Segment, base: &[u8]) -> Option<(Segment, Vec<u8>)> {
    let stored = zstd::bulk::compress(&compress_against(base, shaped)?, AGAIN).ok()?;
    let smaller = match older.encoding {
        Encoding::Zstd => (stored.len() as u64) < older.stored,
        // How large it would be whole is not known: what is very small needs no comparison.
        Encoding::ZstdDelta(_) => stored.len() < shaped.len() / SURELY || stored.len() < whole(older, shaped)?.1.len(),
    };
    let segment = Segment { stored: stored.len() as u64, encoding: Encoding::ZstdDelta(newer.hash), ..older.clone() };
    smaller.then_some((segment, stored))
}

/// A small text as the difference to another.
pub fn difference(text: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    // What begins as a dictionary of zstd would be taken for one.
    if base.len() + text.len() > contexts::SHORT || base.starts_with(&DICTIONARY) {
        return compress_against(base, text);
    }
    let mut stored = Vec::new();
    contexts::compress_against(base, text, LEVEL, &mut stored).ok()?;
    stored.shrink_to_fit();
    Some(stored)
}

/// The text of so many bytes that [`difference`] made something of.
pub fn apply(stored: &[u8], base: &[u8], size: u64) -> Result<Vec<u8>, Damaged> {
    unpacked(stored, Some(base), size)
}

/// A segment whole, packed as small as is worth the time for something that is written once and seldom read.
pub fn whole(segment: &Segment, shaped: &[u8]) -> Option<(Segment, Vec<u8>)> {
    let near = compress_near(shaped)?;
    let far = zstd::bulk::compress(shaped, THOROUGH).ok()?;
    let stored = if near.len() < far.len() { near } else { far };
    let segment = Segment { stored: stored.len() as u64, encoding: Encoding::Zstd, ..segment.clone() };
    Some((segment, stored))
}

const DICTIONARY: [u8; 4] = MAGIC_DICTIONARY.to_le_bytes();

/// States compress to a tenth or less; a difference this much smaller than its text is smaller than that.
const SURELY: usize = 50;

/// The level for what stays whole in the history.
pub(super) const THOROUGH: i32 = 12;

/// What is left between the long matches is short: a higher level finds no more, and this one still is fast.
const LEVEL: i32 = 9;

/// A difference says for every 128 KiB of its text that nothing differs there, each time in the same bytes: packed once
/// more, small ones are half as large.
const AGAIN: i32 = 9;

/// Resources of one kind stand beside each other. Matches that are near cost less to name, and in states with many ids
/// that outweighs those that are found farther away: 6.4 MB, minified, become 718 kB in place of 815.
const NEAR: u32 = 16;

fn compress_near(shaped: &[u8]) -> Option<Vec<u8>> {
    let mut compressor = Compressor::new(THOROUGH).ok()?;
    compressor.set_parameter(CParameter::WindowLog(NEAR)).ok()?;
    compressor.compress(shaped).ok()
}

/// zstd finds matches in a prefix only as far back as its window reaches: it must hold both texts. Long-distance
/// matching finds them at the cost of one pass.
fn compress_against(base: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let window = (base.len() + text.len()).max(1024).next_power_of_two().ilog2();
    let mut context = CCtx::create();
    context.set_parameter(CParameter::CompressionLevel(LEVEL)).ok()?;
    context.set_parameter(CParameter::WindowLog(window)).ok()?;
    context.set_parameter(CParameter::EnableLongDistanceMatching(true)).ok()?;
    context.ref_prefix(base).ok()?;
    let mut stored = Vec::with_capacity(compress_bound(text.len()));
    context.compress2(&mut stored, text).ok()?;
    stored.shrink_to_fit();
    Some(stored)
}
