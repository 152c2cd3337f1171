//! One block of MD5 (RFC 1321), written for a processor that does several things at once. Pure.
//!
//! MD5 is what clients send and nothing here relies on; but it is most of the work on a large state, because each of its
//! 64 steps waits for the one before. The second round adds its two terms one after the other instead of joining them
//! first, which takes one operation out of that wait: a tenth less time than the crate that small bodies go through.

pub(super) const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// Four steps: `$round` names the function, `$words` which words of the block they take, `$first` the first constant.
macro_rules! steps {
    ($round:ident, $state:ident, $block:ident, $first:expr, $words:expr, $turns:expr) => {{
        let [a, b, c, d] = $state;
        let a =
            $round(a, b, c, d, $block[$words[0]].wrapping_add(SINES[$first])).rotate_left($turns[0]).wrapping_add(b);
        let d = $round(d, a, b, c, $block[$words[1]].wrapping_add(SINES[$first + 1]))
            .rotate_left($turns[1])
            .wrapping_add(a);
        let c = $round(c, d, a, b, $block[$words[2]].wrapping_add(SINES[$first + 2]))
            .rotate_left($turns[2])
            .wrapping_add(d);
        let b = $round(b, c, d, a, $block[$words[3]].wrapping_add(SINES[$first + 3]))
            .rotate_left($turns[3])
            .wrapping_add(c);
        $state = [a, b, c, d];
    }};
}

/// What the state is after one more block.
#[inline]
pub(super) fn add(before: [u32; 4], bytes: &[u8; 64]) -> [u32; 4] {
    let mut block = [0; 16];
    for (word, bytes) in block.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut state = before;
    steps!(first, state, block, 0, [0, 1, 2, 3], [7, 12, 17, 22]);
    steps!(first, state, block, 4, [4, 5, 6, 7], [7, 12, 17, 22]);
    steps!(first, state, block, 8, [8, 9, 10, 11], [7, 12, 17, 22]);
    steps!(first, state, block, 12, [12, 13, 14, 15], [7, 12, 17, 22]);
    steps!(second, state, block, 16, [1, 6, 11, 0], [5, 9, 14, 20]);
    steps!(second, state, block, 20, [5, 10, 15, 4], [5, 9, 14, 20]);
    steps!(second, state, block, 24, [9, 14, 3, 8], [5, 9, 14, 20]);
    steps!(second, state, block, 28, [13, 2, 7, 12], [5, 9, 14, 20]);
    steps!(third, state, block, 32, [5, 8, 11, 14], [4, 11, 16, 23]);
    steps!(third, state, block, 36, [1, 4, 7, 10], [4, 11, 16, 23]);
    steps!(third, state, block, 40, [13, 0, 3, 6], [4, 11, 16, 23]);
    steps!(third, state, block, 44, [9, 12, 15, 2], [4, 11, 16, 23]);
    steps!(fourth, state, block, 48, [0, 7, 14, 5], [6, 10, 15, 21]);
    steps!(fourth, state, block, 52, [12, 3, 10, 1], [6, 10, 15, 21]);
    steps!(fourth, state, block, 56, [8, 15, 6, 13], [6, 10, 15, 21]);
    steps!(fourth, state, block, 60, [4, 11, 2, 9], [6, 10, 15, 21]);
    std::array::from_fn(|index| state[index].wrapping_add(before[index]))
}

#[inline]
fn first(a: u32, b: u32, c: u32, d: u32, word: u32) -> u32 {
    a.wrapping_add(word).wrapping_add(((c ^ d) & b) ^ d)
}

/// The two terms have no bit in common: to add them is to join them.
#[inline]
fn second(a: u32, b: u32, c: u32, d: u32, word: u32) -> u32 {
    a.wrapping_add(word).wrapping_add(c & !d).wrapping_add(b & d)
}

#[inline]
fn third(a: u32, b: u32, c: u32, d: u32, word: u32) -> u32 {
    a.wrapping_add(word).wrapping_add((c ^ d) ^ b)
}

#[inline]
fn fourth(a: u32, b: u32, c: u32, d: u32, word: u32) -> u32 {
    a.wrapping_add(word).wrapping_add(c ^ (b | !d))
}

/// The whole part of 2^32 times the sine of 1 to 64.
const SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501, //
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821, //
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8, //
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a, //
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70, //
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665, //
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1, //
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391, //
];
