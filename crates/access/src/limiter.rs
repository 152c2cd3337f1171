//! So many per second, and no more.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A bucket that fills with `rate` tokens per second and holds as many.
#[derive(Debug)]
pub(crate) struct Limiter {
    rate: f64,
    bucket: Mutex<(Instant, f64)>,
}

impl Limiter {
    pub(crate) fn new(rate: u32) -> Limiter {
        let rate = f64::from(rate);
        Limiter { rate, bucket: Mutex::new((Instant::now(), rate)) }
    }

    /// Whether one more may pass now.
    pub(crate) fn take(&self) -> bool {
        self.take_at(Instant::now())
    }

    /// Puts back what was taken.
    pub(crate) fn give_back(&self) {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.1 = (bucket.1 + 1.0).min(self.rate);
    }

    fn take_at(&self, now: Instant) -> bool {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, level) = *bucket;
        let level = (level + now.saturating_duration_since(last).as_secs_f64() * self.rate).min(self.rate);
        let passes = level >= 1.0;
        *bucket = (now.max(last), if passes { level - 1.0 } else { level });
        passes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let limiter = Limiter::new(5);
        let start = Instant::now();
        let passed = |at: Duration| (0..100).filter(|_| limiter.take_at(start + at)).count();
        assert_eq!(passed(Duration::ZERO), 5);
        assert_eq!(passed(Duration::from_millis(500)), 2);
        limiter.give_back();
        assert_eq!(passed(Duration::from_millis(500)), 1);
        assert_eq!(passed(Duration::from_mins(1)), 5);
    }
}
