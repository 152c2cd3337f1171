//! Older versions as differences to newer ones.
//!
//! The doors are [`align`], which finds the newer segment that an older one resembles, and [`delta`]. How long chains
//! of deltas get, and what is pruned, is the caller's business.

use std::collections::HashMap;

use zstd::zstd_safe::{CCtx, CParameter, compress_bound};

use super::segment::{Encoding, Segment, unpack};

/// For each older segment the index of the newer one to take the difference to: the one with equal bytes, else the
/// one that stands in its place between neighbours with equal bytes. `None` only if there is no newer segment.
pub fn align(older: &[Segment], newer: &[Segment]) -> Vec<Option<usize>> {
    let mut places: HashMap<&[u8; 32], Vec<usize>> = HashMap::new();
    for (index, segment) in newer.iter().enumerate() {
        places.entry(&segment.sha256).or_default().push(index);
    }
    let mut next = 0;
    older
        .iter()
        .map(|segment| {
            let equal = places.get(&segment.sha256).map(|found| {
                let ahead = found.partition_point(|index| *index < next);
                found[ahead.min(found.len() - 1)]
            });
            let index = equal.unwrap_or(next.min(newer.len().saturating_sub(1)));
            next = index + 1;
            (index < newer.len()).then_some(index)
        })
        .collect()
}

/// The older segment as a difference to a newer one, if that is smaller; both must be stored whole. To restore it,
/// [`unpack`] the newer segment and give the result as `base`.
pub fn delta(older: &Segment, older_stored: &[u8], newer: &Segment, newer_stored: &[u8]) -> Option<(Segment, Vec<u8>)> {
    if older.encoding != Encoding::Zstd || newer.encoding != Encoding::Zstd {
        return None;
    }
    let base = unpack(newer, newer_stored, None).ok()?;
    let text = unpack(older, older_stored, None).ok()?;
    let stored = compress_against(&base, &text)?;
    let segment = Segment { stored: stored.len() as u64, encoding: Encoding::ZstdDelta(newer.sha256), ..older.clone() };
    (segment.stored < older.stored).then_some((segment, stored))
}

/// zstd's own default: what is left between the long matches is short.
const LEVEL: i32 = 3;

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
