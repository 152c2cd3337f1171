//! How fast a body comes. No IO here.

use std::time::Duration;

/// What lies further back than these spans does not count.
const SPANS: usize = 20;
const SPAN: Duration = Duration::from_millis(100);
/// Nobody is judged by less than this.
const ENOUGH: Duration = Duration::from_secs(1);

/// Bytes by the time that was waited for them: what is done with them in between is not the sender's fault.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    waited: Duration,
    /// The present span first.
    spans: [u64; SPANS],
}

impl Pace {
    pub(super) fn waited(&mut self, time: Duration) {
        let before = span(self.waited);
        self.waited += time;
        let passed = usize::try_from(span(self.waited) - before).map_or(SPANS, |passed| passed.min(SPANS));
        self.spans.rotate_right(passed);
        self.spans[..passed].fill(0);
    }

    pub(super) fn arrived(&mut self, bytes: u64) {
        self.spans[0] += bytes;
    }

    /// Bytes per second of late, if there was enough to wait for; `waiting` is how long somebody waits already.
    pub(super) fn rate(&self, waiting: Duration) -> Option<u64> {
        let mut now = self.clone();
        now.waited(waiting);
        if now.waited < ENOUGH {
            return None;
        }
        let millis = now.waited.as_millis();
        let present = millis % SPAN.as_millis();
        let covered = millis.min((SPANS as u128 - 1) * SPAN.as_millis() + present).max(1);
        let bytes: u128 = now.spans.iter().map(|bytes| u128::from(*bytes)).sum();
        Some(u64::try_from(bytes * 1000 / covered).unwrap_or(u64::MAX))
    }
}

fn span(waited: Duration) -> u128 {
    waited.as_millis() / SPAN.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds_of_waiting() {
        type Came = &'static [(u64, u64)];
        let millis = Duration::from_millis;
        // What was waited and then came, how long is waited since, and the rate.
        let table: [(Came, u64, Option<u64>); 9] = [
            (&[], 0, None),
            (&[(0, 1 << 20)], 999, None),
            (&[(0, 1 << 20)], 1000, Some(1 << 20)),
            // It lies too far back.
            (&[(0, 1 << 20)], 2000, Some(0)),
            (&[(0, 1 << 20), (100, 15)], 60_000, Some(0)),
            (&[(1000, 50_000)], 0, Some(50_000)),
            (&[(1000, 50_000), (1000, 50_000), (1000, 50_000), (1000, 50_000)], 0, Some(52_631)),
            // Nothing is waited for by a sender who is faster than we are.
            (&[(0, 1 << 20), (1, 1 << 20), (0, 1 << 20)], 0, None),
            (&[(1500, 0), (500, 1 << 30)], 0, Some((1 << 30) * 10 / 19)),
        ];
        for (came, waiting, expected) in table {
            let mut pace = Pace::default();
            for (waited, bytes) in came {
                pace.waited(millis(*waited));
                pace.arrived(*bytes);
            }
            assert_eq!(pace.rate(millis(waiting)), expected, "{came:?} {waiting}");
        }
    }
}
