//! zstd contexts that wait for their next use.
//!
//! A context has some hundred kilobytes of tables: to make one for a small state, and to give it back, takes longer than
//! to compress the state. The doors are [`compress`], [`compress_against`] and [`decompress`]; a few contexts are kept,
//! whoever comes beyond them makes one for itself.

use std::io;
use std::sync::{Mutex, PoisonError};

use zstd::zstd_safe::{CCtx, DCtx, SafeResult, compress_bound, get_error_name};

/// The longest text that goes through a context which is kept: its tables grow with what it has compressed.
pub(super) const SHORT: usize = 256 << 10;
/// How many contexts of a kind wait at most.
const KEPT: usize = 8;

struct Waiting<T>(Mutex<Vec<T>>);

static COMPRESSING: Waiting<CCtx<'static>> = Waiting(Mutex::new(Vec::new()));
static DECOMPRESSING: Waiting<DCtx<'static>> = Waiting(Mutex::new(Vec::new()));

impl<T> Waiting<T> {
    fn lend(&self, make: fn() -> T, work: impl FnOnce(&mut T) -> SafeResult) -> io::Result<()> {
        let waiting = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = waiting().pop();
        let mut context = kept.unwrap_or_else(make);
        // One that has failed is not used again.
        work(&mut context).map_err(|code| io::Error::other(get_error_name(code)))?;
        let mut waiting = waiting();
        if waiting.len() < KEPT {
            waiting.push(context);
        }
        Ok(())
    }
}

/// Compresses a text that is not longer than [`SHORT`] into `out`, which is emptied first.
pub(super) fn compress(text: &[u8], level: i32, out: &mut Vec<u8>) -> io::Result<()> {
    out.clear();
    out.reserve(compress_bound(text.len()));
    COMPRESSING.lend(CCtx::create, |context| context.compress(out, text, level))
}

/// The same with another text as its prefix; both together are not longer than [`SHORT`].
pub(super) fn compress_against(base: &[u8], text: &[u8], level: i32, out: &mut Vec<u8>) -> io::Result<()> {
    out.clear();
    out.reserve(compress_bound(text.len()));
    COMPRESSING.lend(CCtx::create, |context| context.compress_using_dict(out, text, base, level))
}

/// Decompresses as much as `out` has room for.
pub(super) fn decompress(stored: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    DECOMPRESSING.lend(DCtx::create, |context| context.decompress(out, stored))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{apply, difference};

    #[test]
    fn a_context_remembers_nothing_of_what_it_was_used_for_before() {
        let text = |seed: u64| -> Vec<u8> {
            let mut random = fastrand::Rng::with_seed(seed);
            (0..random.usize(1..20_000)).flat_map(|_| random.u32(..).to_string().into_bytes()).collect()
        };
        let mut packed = Vec::new();
        for seed in 0..20 {
            let (older, newer) = (text(seed), text(seed + 1));
            let small = difference(&older, &newer).expect("a difference");
            assert_eq!(apply(&small, &newer, older.len() as u64).expect("its text"), older, "{seed}");
            compress(&older, 1, &mut packed).expect("room");
            let mut unpacked = Vec::with_capacity(older.len());
            decompress(&packed, &mut unpacked).expect("what was packed");
            assert!(unpacked == older, "{seed}");
            assert!(decompress(&packed[1..], &mut Vec::with_capacity(older.len())).is_err(), "no frame");
        }
        assert!(COMPRESSING.0.lock().expect("nobody panicked").len() <= KEPT);
    }
}
