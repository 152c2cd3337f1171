//! A state of some kilobytes that is another one each time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result};
use bytes::Bytes;
use testbed::states::{Options, generate};

/// Serials with as many digits all the time, so that every payload is as long.
const FIRST: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Payload {
    before: Vec<u8>,
    after: Vec<u8>,
    serial: AtomicU64,
}

impl Payload {
    /// 10 kB: three resources, and white space that Terraform would not write at the end for what is missing.
    pub(crate) fn ten_kilobytes() -> Result<Payload> {
        let mut state = generate(3, 1, &Options { serial: FIRST, ..Options::default() });
        let end = state.iter().rposition(|&byte| byte == b'}').context("a state ends with a brace")?;
        let missing = 10_000_usize.checked_sub(state.len() + OUTPUT).context("three resources are more than 10 kB")?;
        let more =
            format!(",\n  \"padding\": \"{}\"\n", "0123456789abcdef".repeat(missing / 16 + 1).split_at(missing).0);
        let start =
            state[..end].iter().rposition(|byte| !byte.is_ascii_whitespace()).context("a state is not empty")?;
        state.splice(start + 1..end, more.into_bytes());
        let digits = FIRST.to_string();
        let at = state.windows(digits.len()).position(|window| window == digits.as_bytes());
        let at = at.context("a state has its serial")?;
        let after = state.split_off(at + digits.len());
        state.truncate(at);
        Ok(Payload { before: state, after, serial: AtomicU64::new(FIRST) })
    }

    /// The next one.
    pub(crate) fn next(&self) -> Bytes {
        let serial = self.serial.fetch_add(1, Relaxed).to_string();
        [&self.before, serial.as_bytes(), &self.after].concat().into()
    }
}

/// What stands around the padding.
const OUTPUT: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_valid_as_long_as_said_and_all_different() {
        let payload = Payload::ten_kilobytes().unwrap();
        let (first, second) = (payload.next(), payload.next());
        assert_ne!(first, second);
        for bytes in [first, second] {
            assert!((9_990..=10_010).contains(&bytes.len()), "{}", bytes.len());
            let state: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(state["resources"].as_array().unwrap().len(), 3);
        }
    }
}
