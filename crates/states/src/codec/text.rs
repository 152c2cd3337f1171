//! Which bytes end a run of white space or of plain string content: the inner loops of the scanner. Pure.

/// JSON's white space.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// What may follow a backslash, but for `u`.
pub(super) fn is_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
}

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// The first place after `at`, which is white space, that is not. Indentation is mostly spaces.
pub(super) fn space_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    at += spaces(&bytes[at..]);
    while at < bytes.len() && is_space(bytes[at]) {
        at += 1;
    }
    at
}

/// With how many spaces `bytes` begin; eight are compared at once.
pub(super) fn spaces(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = word(bytes, at) {
        let others = word ^ (ONES * u64::from(b' '));
        if others != 0 {
            return at + others.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + bytes[at..].iter().take_while(|byte| **byte == b' ').count()
}

/// The first place from `at` on that is a quote, a backslash, a control character or no ASCII; eight bytes at once.
pub(super) fn plain_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    while let Some(word) = word(bytes, at) {
        // A borrow can mark a byte above a true hit, never one below the first: the lowest mark is exact.
        let quote = word ^ (ONES * u64::from(b'"'));
        let backslash = word ^ (ONES * u64::from(b'\\'));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash) | control | word;
        let found = found & HIGHS;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < bytes.len() && bytes[at] >= 0x20 && bytes[at] < 0x80 && bytes[at] != b'"' && bytes[at] != b'\\' {
        at += 1;
    }
    at
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<8>().map(|chunk| u64::from_le_bytes(*chunk))
}

/// The rest of a UTF-8 character: how many bytes are missing and what the next one may be (RFC 3629: no overlong
/// forms, no surrogates, nothing above U+10FFFF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wide {
    missing: u8,
    lowest: u8,
    highest: u8,
}

impl Wide {
    pub(super) const COMPLETE: Wide = Wide { missing: 0, lowest: 0x80, highest: 0xbf };

    /// What must follow `first`, which is no ASCII.
    pub(super) fn begin(first: u8) -> Option<Wide> {
        let (missing, lowest, highest) = match first {
            0xc2..=0xdf => (1, 0x80, 0xbf),
            0xe0 => (2, 0xa0, 0xbf),
            0xed => (2, 0x80, 0x9f),
            0xe1..=0xef => (2, 0x80, 0xbf),
            0xf0 => (3, 0x90, 0xbf),
            0xf1..=0xf3 => (3, 0x80, 0xbf),
            0xf4 => (3, 0x80, 0x8f),
            _ => return None,
        };
        Some(Wide { missing, lowest, highest })
    }

    pub(super) fn next(self, byte: u8) -> Option<Wide> {
        let fits = (self.lowest..=self.highest).contains(&byte);
        fits.then(|| Wide { missing: self.missing - 1, ..Wide::COMPLETE })
    }
}

#[cfg(test)]
mod tests {
    use super::{is_space, plain_end, space_end};

    #[test]
    fn the_fast_loops_agree_with_the_slow_ones() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.usize(1..40))
                .map(|_| match random.u8(0..12) {
                    0 => random.u8(..),
                    1 => *random.choice(b"\"\\\x1f\x20\x21\x7f\x80\n\r\t").expect("not empty"),
                    2..6 => b' ',
                    _ => random.u8(b'a'..=b'z'),
                })
                .collect();
            let at = random.usize(..bytes.len());
            let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x80..);
            let slow = bytes[at..].iter().position(special).map_or(bytes.len(), |found| at + found);
            assert_eq!(plain_end(&bytes, at), slow, "{bytes:?} from {at}");
            if is_space(bytes[at]) {
                let slow = bytes[at..].iter().position(|byte| !is_space(*byte)).map_or(bytes.len(), |end| at + end);
                assert_eq!(space_end(&bytes, at), slow, "{bytes:?} from {at}");
            }
        }
    }
}
