//! Taking turns and counting. The door is [`Bench`]; it knows nothing of what it measures.
//!
//! A noisy machine slows both sides of a round alike, so that each round gives a ratio of its own and the median of
//! those is what counts. The medians of the two rates are shown beside it and need not divide to exactly that.

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::states::{Peer, Programs};

/// What a benchmark measures with.
pub(crate) struct Bench {
    rounds: u32,
    slice: Duration,
    directory: PathBuf,
    runtime: Runtime,
    pub(crate) effort: Effort,
    /// Other HTTP state backends that take part.
    pub(crate) peers: Vec<Peer>,
    /// The programs that states are kept in.
    pub(crate) programs: Programs,
    counted: AtomicU32,
}

/// How much is done where it takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    Quick,
    Full,
}

impl Effort {
    pub(crate) fn of<T>(self, quick: T, full: T) -> T {
        match self {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }
}

/// Two sides and how far apart they may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) ours: &'static str,
    pub(crate) against: &'static str,
    pub(crate) limit: Limit,
}

/// The least ratio of our rate to the other one, with the reason for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) at_least: f64,
    pub(crate) why: &'static str,
}

/// Operations per second of both sides, round by round.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) question: Question,
    pub(crate) rounds: Vec<(f64, f64)>,
}

impl Bench {
    pub(crate) fn new(rounds: u32, slice: Duration, directory: PathBuf, effort: Effort) -> Result<Bench> {
        let runtime = Runtime::new().context("failed to start the runtime")?;
        let (peers, programs, counted) = (Vec::new(), Programs::default(), AtomicU32::new(0));
        Ok(Bench { rounds, slice, directory, runtime, effort, peers, programs, counted })
    }

    /// A number that nobody else of this run has, for names.
    pub(crate) fn count(&self) -> u32 {
        self.counted.fetch_add(1, Relaxed)
    }

    /// A path for the files of one side.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Waits for something that is set up and not measured.
    pub(crate) fn wait_for<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Lets both sides run in turns; each answers with its operations per second.
    pub(crate) fn compare(
        &self,
        question: Question,
        mut ours: impl FnMut() -> Result<f64>,
        mut theirs: impl FnMut() -> Result<f64>,
    ) -> Result<Comparison> {
        // Caches, connections and files grow warm in a round that does not count.
        ours()?;
        theirs()?;
        let rounds = (0..self.rounds).map(|_| Ok((ours()?, theirs()?))).collect::<Result<_>>()?;
        Ok(Comparison { question, rounds })
    }

    /// How often per second this thread can do something.
    pub(crate) fn alone(&self, mut operation: impl FnMut() -> Result<()>) -> Result<f64> {
        let start = Instant::now();
        let mut count = 0_u32;
        while start.elapsed() < self.slice {
            operation()?;
            count += 1;
        }
        rate(count, start.elapsed())
    }

    /// How often per second so many tasks can do something at once, each time with a clone of `with`. They run on the
    /// runtime's own threads, as the handlers of a server do.
    pub(crate) fn together<T, F, O>(&self, tasks: usize, with: &T, operation: F) -> Result<f64>
    where
        T: Clone + Send + 'static,
        F: Fn(T) -> O + Copy + Send + 'static,
        O: Future<Output = Result<()>> + Send,
    {
        let slice = self.slice;
        self.runtime.block_on(async move {
            let start = Instant::now();
            let mut running = JoinSet::new();
            for _task in 0..tasks {
                let with = with.clone();
                running.spawn(async move {
                    let mut count = 0_u32;
                    while start.elapsed() < slice {
                        operation(with.clone()).await?;
                        count += 1;
                    }
                    anyhow::Ok(count)
                });
            }
            let mut count = 0;
            while let Some(done) = running.join_next().await {
                count += done.context("a task ended early")??;
            }
            rate(count, start.elapsed())
        })
    }
}

fn rate(count: u32, elapsed: Duration) -> Result<f64> {
    ensure!(count > 0, "nothing was done at all");
    Ok(f64::from(count) / elapsed.as_secs_f64())
}

impl Comparison {
    pub(crate) fn ours(&self) -> f64 {
        median(self.rounds.iter().map(|(ours, _)| *ours))
    }

    pub(crate) fn theirs(&self) -> f64 {
        median(self.rounds.iter().map(|(_, theirs)| *theirs))
    }

    pub(crate) fn ratio(&self) -> f64 {
        median(self.ratios())
    }

    /// The lowest and the highest ratio: far apart, they tell of a noisy machine.
    pub(crate) fn spread(&self) -> (f64, f64) {
        self.ratios().fold((f64::INFINITY, 0.0), |(low, high), ratio| (ratio.min(low), ratio.max(high)))
    }

    fn ratios(&self) -> impl Iterator<Item = f64> + '_ {
        self.rounds.iter().map(|(ours, theirs)| ours / theirs)
    }
}

/// The one in the middle; of two the lower, so that it is one that was seen. Of nothing it is not a number, which is
/// within no limit.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(at_least: f64, rounds: &[(f64, f64)]) -> Comparison {
        let question = Question { ours: "a", against: "b", limit: Limit { at_least, why: "" } };
        Comparison { question, rounds: rounds.to_vec() }
    }

    fn is_beyond(comparison: &Comparison) -> bool {
        crate::report::Row::of_rates(comparison).is_beyond_its_limit()
    }

    #[test]
    fn the_median_of_the_rounds_decides_and_not_their_extremes() {
        let noisy = comparison(0.5, &[(60.0, 100.0), (1.0, 100.0), (6.0, 10.0), (600.0, 10.0), (300.0, 500.0)]);
        assert!((noisy.ratio() - 0.6).abs() < 1e-9, "{noisy:?}");
        assert_eq!(noisy.spread(), (0.01, 60.0));
        assert!(!is_beyond(&noisy));
        assert!(is_beyond(&comparison(0.7, &noisy.rounds)));
    }

    #[test]
    fn no_rounds_are_within_no_limit() {
        assert!(is_beyond(&comparison(0.0, &[])));
    }

    #[test]
    fn sides_take_turns_after_a_round_that_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let bench = Bench::new(3, Duration::ZERO, directory.path().to_owned(), Effort::Quick).unwrap();
        let turns = std::cell::RefCell::new(String::new());
        let side = |name| {
            let turns = &turns;
            move || {
                turns.borrow_mut().push(name);
                Ok(f64::from(u32::try_from(turns.borrow().len())?))
            }
        };
        let question = comparison(0.0, &[]).question;
        let compared = bench.compare(question, side('a'), side('b')).unwrap();
        assert_eq!(turns.borrow().as_str(), "abababab");
        assert_eq!(compared.rounds, [(3.0, 4.0), (5.0, 6.0), (7.0, 8.0)]);
    }

    #[test]
    fn a_failing_operation_fails_the_measurement() {
        let directory = tempfile::tempdir().unwrap();
        let bench = Bench::new(1, Duration::from_millis(5), directory.path().to_owned(), Effort::Quick).unwrap();
        assert!(bench.alone(|| anyhow::bail!("no")).is_err());
        assert!(bench.together(4, &(), |()| async { anyhow::bail!("no") }).is_err());
        assert!(bench.together(4, &(), |()| async { Ok(()) }).unwrap() > 0.0);
    }
}
