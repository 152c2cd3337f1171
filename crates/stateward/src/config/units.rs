//! Durations and sizes as people write them.

use std::time::Duration;

const TIME_UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZE_UNITS: &[(&str, u64)] = &[("", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Reads `10s`, `5m`, `24h`, `90d` or `250ms`.
pub fn duration(text: &str) -> Option<Duration> {
    scaled(text, TIME_UNITS).map(Duration::from_millis)
}

/// Reads `65536`, `64KiB`, `1MiB` or `2GiB`.
pub fn bytes(text: &str) -> Option<u64> {
    scaled(text, SIZE_UNITS)
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
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
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
