//! The places for uploads: each takes some memory, so that there are only so many.
//!
//! The door is [`Uploads`]; a body that comes is an [`Upload`], which is measured from its first byte on and takes a
//! place when it turns out to be large. Who finds no free one takes that of the slowest, if that is too slow: so slow
//! senders have the places only for as long as nobody else needs them. The rule about rates is in [`pace`].

mod pace;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use pace::Pace;

/// How long an upload waits for its place: it takes some two seconds to know that one who has a place is slow.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks for somebody who is slow.
const TICK: Duration = Duration::from_millis(100);

/// All places.
#[derive(Debug)]
pub(crate) struct Uploads {
    free: Arc<Semaphore>,
    /// Bytes per second; 0 leaves everybody their place.
    least: u64,
    taken: Arc<Mutex<Vec<Arc<Seat>>>>,
}

/// Another upload has the place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooSlow;

/// There was no place for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Uploads {
    pub(crate) fn new(places: usize, least: u64) -> Uploads {
        Uploads { free: Arc::new(Semaphore::new(places)), least, taken: Arc::default() }
    }

    /// A body begins to come. It has no place yet.
    pub(crate) fn begin(&self) -> Upload<'_> {
        Upload { uploads: self, seat: Arc::default() }
    }

    /// The place of the slowest, if that is too slow and who asks is not.
    fn displaced(&self, asking: &Seat) -> Option<OwnedSemaphorePermit> {
        let is_slow = |rate: u64| rate < self.least;
        if asking.rate().is_some_and(is_slow) {
            return None;
        }
        let mut taken = lock(&self.taken);
        let rates = taken.iter().enumerate().filter_map(|(index, seat)| Some((seat.rate()?, index)));
        let (_, index) = rates.min().filter(|(rate, _)| is_slow(*rate))?;
        let slowest = taken.swap_remove(index);
        slowest.ended.notify_one();
        lock(&slowest.permit).take()
    }
}

/// One body that comes. Its place is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Upload<'u> {
    uploads: &'u Uploads,
    seat: Arc<Seat>,
}

#[derive(Debug, Default)]
struct Seat {
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    coming: Mutex<Coming>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Coming {
    pace: Pace,
    /// Since when the sender is waited for, if that is so now.
    since: Option<Instant>,
}

impl Upload<'_> {
    /// Waits for the sender, unless the place has gone to somebody else.
    pub(crate) async fn waits<T>(&self, piece: impl Future<Output = T>) -> Result<T, TooSlow> {
        lock(&self.seat.coming).since = Some(Instant::now());
        let came = tokio::select! {
            biased;
            () = self.seat.ended.notified() => Err(TooSlow),
            piece = piece => Ok(piece),
        };
        let mut coming = lock(&self.seat.coming);
        if let Some(since) = coming.since.take() {
            coming.pace.waited(since.elapsed());
        }
        came
    }

    pub(crate) fn arrived(&self, bytes: usize) {
        lock(&self.seat.coming).pace.arrived(bytes as u64);
    }

    /// Waits for a place.
    pub(crate) async fn sit(&self) -> Result<(), Full> {
        let free = self.uploads.free.clone().acquire_owned();
        tokio::pin!(free);
        let mut look = interval(TICK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let found = async {
            loop {
                tokio::select! {
                    biased;
                    permit = &mut free => return permit.ok(),
                    _ = look.tick() => {
                        if let Some(permit) = self.uploads.displaced(&self.seat) {
                            return Some(permit);
                        }
                    }
                }
            }
        };
        let permit = timeout(PATIENCE, found).await.ok().flatten().ok_or(Full)?;
        *lock(&self.seat.permit) = Some(permit);
        lock(&self.uploads.taken).push(self.seat.clone());
        Ok(())
    }

    /// Nothing more is to come: the sender cannot be slow any more, and keeps the place until the end.
    pub(crate) fn settle(&self) {
        lock(&self.uploads.taken).retain(|seat| !Arc::ptr_eq(seat, &self.seat));
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

impl Seat {
    fn rate(&self) -> Option<u64> {
        let coming = lock(&self.coming);
        coming.pace.rate(coming.since.map_or(Duration::ZERO, |since| since.elapsed()))
    }
}

/// Nothing that is kept here can be left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 64 << 10;

    /// One whose sender was waited for ten seconds, with so many bytes in each.
    fn one_that_sent(uploads: &Uploads, bytes: u64) -> Upload<'_> {
        let upload = uploads.begin();
        for _ in 0..10 {
            lock(&upload.seat.coming).pace.waited(Duration::from_secs(1));
            lock(&upload.seat.coming).pace.arrived(bytes);
        }
        upload
    }

    async fn is_over(upload: &Upload<'_>) -> bool {
        upload.waits(std::future::ready(())).await == Err(TooSlow)
    }

    #[tokio::test]
    async fn the_slowest_gives_its_place_to_who_is_not_slow() {
        let uploads = Uploads::new(3, LEAST);
        let fast = one_that_sent(&uploads, 10 << 20);
        let (slow, slower) = (one_that_sent(&uploads, 50_000), one_that_sent(&uploads, 20_000));
        for upload in [&fast, &slow, &slower] {
            assert_eq!(upload.sit().await, Ok(()), "there are free places");
        }
        assert!(uploads.displaced(&one_that_sent(&uploads, 60_000).seat).is_none(), "who is slow displaces nobody");
        let new = uploads.begin();
        assert_eq!(new.sit().await, Ok(()));
        assert_eq!((is_over(&slow).await, is_over(&slower).await, is_over(&fast).await), (false, true, false));
        drop(slower);
        assert_eq!(uploads.free.available_permits(), 0, "its place was handed over");
        slow.settle();
        assert!(uploads.displaced(&uploads.begin().seat).is_none(), "one that is all here is not slow any more");
        drop((fast, slow, new));
        assert_eq!(uploads.free.available_permits(), 3);
    }

    #[tokio::test]
    async fn who_began_fast_and_stops_is_slow() {
        let uploads = Uploads::new(1, LEAST);
        let stopped = uploads.begin();
        stopped.arrived(100 << 20);
        assert_eq!(stopped.sit().await, Ok(()));
        assert!(uploads.displaced(&uploads.begin().seat).is_none(), "nothing is known of it yet");
        lock(&stopped.seat.coming).since = Instant::now().checked_sub(Duration::from_secs(3));
        assert!(uploads.displaced(&uploads.begin().seat).is_some());
        assert!(is_over(&stopped).await);
    }

    #[tokio::test]
    async fn without_a_least_rate_everybody_keeps_the_place() {
        let uploads = Uploads::new(1, 0);
        let slow = one_that_sent(&uploads, 0);
        assert_eq!(slow.sit().await, Ok(()));
        assert!(uploads.displaced(&uploads.begin().seat).is_none());
    }
}
