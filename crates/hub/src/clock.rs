//! What time it is, the same for all hubs on one database.
//!
//! Leases of locks and of the journal are compared by whoever comes next, which may be another machine. On PostgreSQL the
//! server's clock counts: it is asked at the start and with every round of [`Hub::run`](crate::Hub::run), and between two
//! answers the time that passed is counted by a clock that nobody sets. So two hubs differ by what an answer may be late, half
//! of the time that it took, however wrong their machines' own clocks are. On SQLite all hubs are on one machine.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use db::{Db, Engine};
use jiff::Timestamp;

use crate::Error;

#[derive(Debug, Default)]
pub(crate) struct Clock(Mutex<Option<Reading>>);

/// What the database said, and when here.
#[derive(Clone, Copy, Debug)]
struct Reading {
    said: Timestamp,
    at: Instant,
    /// How wrong it may be.
    error: Duration,
}

/// Two clocks that count alone drift apart by less than one part in this many.
const DRIFT: u32 = 1000;

impl Clock {
    pub(crate) fn now(&self) -> Timestamp {
        let reading = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reading.map_or_else(Timestamp::now, |reading| reading.now(Instant::now()))
    }

    /// Asks the database.
    pub(crate) async fn set(&self, db: &Db) -> Result<(), Error> {
        if db.engine() == Engine::Sqlite {
            return Ok(());
        }
        let asked = Instant::now();
        let sql = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)";
        let row = db.look_up(sql, &[]).await?;
        let row = row.ok_or_else(|| Error::damaged("the database's clock", "it does not tell"))?;
        let said = Timestamp::from_microsecond(row.get(0)?);
        let said = said.map_err(|_| Error::damaged("the database's clock", "it tells no time"))?;
        let error = asked.elapsed() / 2;
        self.take(Reading { said, at: asked + error, error });
        Ok(())
    }

    /// A late answer is worth less than an old one, unless the clock itself was set.
    fn take(&self, new: Reading) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_better = kept.is_none_or(|old| {
            let grown = old.error + new.at.saturating_duration_since(old.at) / DRIFT;
            let apart = old.now(new.at).duration_until(new.said).unsigned_abs();
            new.error <= grown || apart > new.error + grown
        });
        if is_better {
            *kept = Some(new);
        }
    }
}

impl Reading {
    fn now(&self, at: Instant) -> Timestamp {
        self.said.checked_add(at.saturating_duration_since(self.at)).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_does_not_count_unless_the_clock_was_set() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let reading = |said: i64, at: u32, error: Duration| Reading {
            said: Timestamp::from_second(said).unwrap(),
            at: start + second * at,
            error,
        };
        let millisecond = Duration::from_millis(1);
        let table = [
            // (said, at, error), what is told ten seconds after the start
            (reading(105, 5, millisecond), 110),
            (reading(106, 5, 2 * second), 110),
            (reading(106, 5, millisecond), 111),
            (reading(205, 5, 2 * second), 210),
            (reading(55, 5, 2 * second), 60),
        ];
        for (new, expected) in table {
            let clock = Clock::default();
            clock.take(reading(100, 0, millisecond));
            clock.take(new);
            let kept = clock.0.lock().unwrap().unwrap();
            assert_eq!(kept.now(start + second * 10), Timestamp::from_second(expected).unwrap(), "{new:?}");
        }
    }
}
