//! Durations and sizes as people write them.

use std::time::Duration;

const TIME_UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZE_UNITS: &[(&str, u64)] = &[("", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Longer times are slips of a finger, and clocks and caches panic at the end of what they can count.
pub const LONGEST: &str = "36500d";
const LONGEST_MILLIS: u64 = 36_500 * 86_400_000;
/// Larger sizes than this, 2^50 bytes, are slips too.
pub const LARGEST: &str = "1048576GiB";
const LARGEST_BYTES: u64 = 1 << 50;

/// Reads `10s`, `5m`, `24h`, `90d` or `250ms`, up to [`LONGEST`].
pub fn duration(text: &str) -> Option<Duration> {
    scaled(text, TIME_UNITS).filter(|millis| *millis <= LONGEST_MILLIS).map(Duration::from_millis)
}

/// Reads `65536`, `64KiB`, `1MiB` or `2GiB`, up to [`LARGEST`].
pub fn bytes(text: &str) -> Option<u64> {
    scaled(text, SIZE_UNITS).filter(|bytes| *bytes <= LARGEST_BYTES)
}

/// Whether the text is written as a time, however long.
pub fn is_time(text: &str) -> bool {
    parts(text, TIME_UNITS).is_some()
}

/// Whether the text is written as a size, however large.
pub fn is_size(text: &str) -> bool {
    parts(text, SIZE_UNITS).is_some()
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, factor) = parts(text, units)?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The digits, and how many times the smallest unit their unit is.
fn parts<'a>(text: &'a str, units: &[(&str, u64)]) -> Option<(&'a str, u64)> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    (!number.is_empty()).then_some((number, *factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_whole_number_and_a_unit() {
        let table = [
            ("10s", Some(10_000)),
            ("5m", Some(300_000)),
            ("24h", Some(86_400_000)),
            ("90d", Some(7_776_000_000)),
            ("250ms", Some(250)),
            ("0s", Some(0)),
            ("10 s", Some(10_000)),
            ("10", None),
            ("s", None),
            ("1.5h", None),
            ("-1s", None),
            ("1w", None),
            ("99999999999999999999d", None),
            ("18446744073709551615d", None),
            (LONGEST, Some(LONGEST_MILLIS)),
            ("36501d", None),
        ];
        for (text, millis) in table {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_carry_a_binary_unit() {
        let table = [
            ("1", Some(1)),
            ("64KiB", Some(65536)),
            ("1 MiB", Some(1 << 20)),
            ("2GiB", Some(2 << 30)),
            ("1MB", None),
            ("1.5MiB", None),
            (LARGEST, Some(LARGEST_BYTES)),
            ("1048577GiB", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
