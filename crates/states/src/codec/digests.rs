//! The hashes of a whole upload: what clients send and ask for (MD5), and by which people know a state (SHA-256).
//!
//! Apart from the rest of receiving, because they are most of its work and need nothing but the bytes: whoever receives
//! much computes them on another thread. Either hash waits for its own last step most of the time, so they go block by
//! block side by side, and the processor does the second in the pauses of the first: 10 MB take 18 ms instead of 24.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};

use super::md5_block;

const BLOCK: usize = 64;

/// Hashes in the making.
pub struct Digests {
    sha256: Context,
    md5: [u32; 4],
    length: u64,
    /// The beginning of a block.
    rest: [u8; BLOCK],
}

/// The hashes of something complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digested {
    pub sha256: [u8; 32],
    pub md5: [u8; 16],
}

impl Digests {
    pub fn new() -> Digests {
        Digests { sha256: Context::new(&SHA256), md5: md5_block::START, length: 0, rest: [0; BLOCK] }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        let filled = self.filled();
        self.length += bytes.len() as u64;
        let mut bytes = bytes;
        if filled > 0 {
            let (first, others) = bytes.split_at(bytes.len().min(BLOCK - filled));
            self.rest[filled..filled + first.len()].copy_from_slice(first);
            if filled + first.len() < BLOCK {
                return;
            }
            bytes = others;
            let block = self.rest;
            self.add(&block);
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for block in blocks {
            self.add(block);
        }
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    pub fn finish(mut self) -> Digested {
        let filled = self.filled();
        self.sha256.update(&self.rest[..filled]);
        // A one bit, zeros, and the length in bits, at the end of a block.
        let bits = self.length.wrapping_mul(8).to_le_bytes();
        self.rest[filled..].fill(0);
        self.rest[filled] = 0x80;
        if filled >= BLOCK - bits.len() {
            self.md5 = md5_block::add(self.md5, &self.rest);
            self.rest.fill(0);
        }
        self.rest[BLOCK - bits.len()..].copy_from_slice(&bits);
        self.md5 = md5_block::add(self.md5, &self.rest);
        let (mut sha256, mut md5) = ([0; 32], [0; 16]);
        sha256.copy_from_slice(self.sha256.finish().as_ref());
        for (bytes, word) in md5.as_chunks_mut::<4>().0.iter_mut().zip(self.md5) {
            *bytes = word.to_le_bytes();
        }
        Digested { sha256, md5 }
    }

    fn add(&mut self, block: &[u8; BLOCK]) {
        self.md5 = md5_block::add(self.md5, block);
        self.sha256.update(block);
    }

    fn filled(&self) -> usize {
        usize::try_from(self.length % BLOCK as u64).unwrap_or_default()
    }
}

impl Default for Digests {
    fn default() -> Digests {
        Digests::new()
    }
}

impl fmt::Debug for Digests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Digests").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::{SHA256, digest};
    use md5::{Digest as _, Md5};

    use super::{Digested, Digests};

    #[test]
    fn whatever_the_length_and_the_pieces_the_hashes_are_those_of_others() {
        let mut random = fastrand::Rng::with_seed(64);
        for length in (0..300).chain([4096, 10_000]) {
            let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            let mut digests = Digests::new();
            let mut left = bytes.as_slice();
            while !left.is_empty() {
                let (piece, others) = left.split_at(random.usize(0..=left.len().min(150)));
                digests.update(piece);
                left = others;
            }
            let mut sha256 = [0; 32];
            sha256.copy_from_slice(digest(&SHA256, &bytes).as_ref());
            assert_eq!(digests.finish(), Digested { sha256, md5: Md5::digest(&bytes).into() }, "{length} bytes");
        }
    }
}
