//! Many clients at once: how often they get through, and how long each has to wait.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

/// All turns of one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series(Vec<Turn>);

#[derive(Clone, Debug)]
struct Turn {
    elapsed: Duration,
    /// Sorted.
    latencies: Vec<Duration>,
}

impl Series {
    /// One more turn: so many clients, each with its number, do something again and again for a while.
    pub(crate) async fn turn<T, F, O>(
        &mut self,
        clients: usize,
        slice: Duration,
        side: &Arc<T>,
        operation: F,
    ) -> Result<()>
    where
        T: Send + Sync + 'static,
        F: Fn(Arc<T>, usize) -> O + Copy + Send + 'static,
        O: Future<Output = Result<()>> + Send,
    {
        self.0.push(turn(clients, slice, side, operation).await?);
        Ok(())
    }

    /// Operations in all turns.
    pub(crate) fn count(&self) -> f64 {
        let count: usize = self.0.iter().map(|turn| turn.latencies.len()).sum();
        f64::from(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Operations per second over all turns.
    pub(crate) fn rate(&self) -> f64 {
        let elapsed: Duration = self.0.iter().map(|turn| turn.elapsed).sum();
        self.count() / elapsed.as_secs_f64()
    }

    /// What so much of all operations were not slower than: 0.5 is the median.
    pub(crate) fn percentile(&self, part: f64) -> Duration {
        let mut all: Vec<Duration> = self.0.iter().flat_map(|turn| turn.latencies.iter().copied()).collect();
        all.sort();
        percentile(&all, part)
    }

    /// The rate of each turn divided by that of the other side's turn.
    pub(crate) fn rates_against(&self, other: &Series) -> Vec<f64> {
        self.0.iter().zip(&other.0).map(|(ours, theirs)| ours.rate() / theirs.rate()).collect()
    }

    /// The median of each turn divided by that of the other side's turn.
    pub(crate) fn medians_against(&self, other: &Series) -> Vec<f64> {
        let median = |turn: &Turn| percentile(&turn.latencies, 0.5).as_secs_f64();
        self.0.iter().zip(&other.0).map(|(ours, theirs)| median(ours) / median(theirs)).collect()
    }
}

impl Turn {
    fn rate(&self) -> f64 {
        f64::from(u32::try_from(self.latencies.len()).unwrap_or(u32::MAX)) / self.elapsed.as_secs_f64()
    }
}

async fn turn<T, F, O>(clients: usize, slice: Duration, side: &Arc<T>, operation: F) -> Result<Turn>
where
    T: Send + Sync + 'static,
    F: Fn(Arc<T>, usize) -> O + Copy + Send + 'static,
    O: Future<Output = Result<()>> + Send,
{
    let start = Instant::now();
    let mut running = JoinSet::new();
    for client in 0..clients {
        let side = Arc::clone(side);
        running.spawn(async move {
            let mut latencies = Vec::new();
            while start.elapsed() < slice {
                let begun = Instant::now();
                operation(Arc::clone(&side), client).await?;
                latencies.push(begun.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = running.join_next().await {
        latencies.extend(done.context("a client ended early")??);
    }
    ensure!(!latencies.is_empty(), "nothing was done at all");
    latencies.sort();
    Ok(Turn { elapsed: start.elapsed(), latencies })
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
pub(crate) fn percentile(sorted: &[Duration], part: f64) -> Duration {
    let index = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 0.5), Duration::from_millis(100));
        assert_eq!(percentile(&times, 0.99), Duration::from_millis(198));
        assert_eq!(percentile(&times[..1], 0.99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }

    #[tokio::test]
    async fn every_client_works_for_the_whole_turn_and_failures_count() {
        let mut series = Series::default();
        let slice = Duration::from_millis(20);
        let wait = |_, client: usize| async move {
            tokio::time::sleep(Duration::from_millis(client as u64)).await;
            Ok(())
        };
        series.turn(3, slice, &Arc::new(()), wait).await.unwrap();
        assert!(series.rate() > 0.0 && series.percentile(1.0) >= Duration::from_millis(2));
        let fail = |_, _| async { anyhow::bail!("no") };
        assert!(series.turn(2, slice, &Arc::new(()), fail).await.is_err());
    }
}
