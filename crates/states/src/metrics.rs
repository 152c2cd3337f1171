//! What is counted about states. No label holds a namespace, a name or a user.
//!
//! How long clients wait for a lock only they know: a refused LOCK may be tried again or not. So what is told is how
//! often a LOCK met another holder, and how long locks were held.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use ::http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::store::StoreError;

/// The counters of all states; a clone counts into the same ones.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    requests: Family<RequestLabels, Counter>,
    sizes: Family<DirectionLabels, Histogram>,
    conflicts: Counter,
    held: Histogram,
    store: Family<StoreLabels, Histogram>,
    failures: Family<FailureLabels, Counter>,
    uploads: Gauge<i64, AtomicI64>,
    sweeps: Counter,
    swept: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabels {
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StoreLabels {
    store: &'static str,
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    store: &'static str,
    operation: &'static str,
    reason: &'static str,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let seconds = || Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0]);
        Metrics(Arc::new(Counters {
            requests: Family::default(),
            // 1 kB to 1 GB.
            sizes: Family::new_with_constructor(|| Histogram::new(exponential_buckets(1024.0, 4.0, 11))),
            conflicts: Counter::default(),
            held: Histogram::new([1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0]),
            store: Family::new_with_constructor(seconds),
            failures: Family::default(),
            uploads: Gauge::default(),
            sweeps: Counter::default(),
            swept: Counter::default(),
        }))
    }
}

impl Metrics {
    /// Makes the counters and puts them into `registry`.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        let registry = registry.sub_registry_with_prefix("states");
        let counters = &metrics.0;
        registry.register("requests", "Requests for states answered", counters.requests.clone());
        let help = "Sizes of states that were written or read";
        registry.register_with_unit("size", help, Unit::Bytes, counters.sizes.clone());
        let help = "LOCK requests that met another holder";
        registry.register("lock_conflicts", help, counters.conflicts.clone());
        let help = "How long locks were held that an UNLOCK ended";
        registry.register_with_unit("lock_held", help, Unit::Seconds, counters.held.clone());
        let help = "Time that a store took for an operation";
        registry.register_with_unit("store", help, Unit::Seconds, counters.store.clone());
        let help = "Operations that a store did not do, conflicts with other writers included";
        registry.register("store_failures", help, counters.failures.clone());
        let help = "Uploads under way that are larger than a first piece";
        registry.register("uploads", help, counters.uploads.clone());
        registry.register("sweeps", "Times that stores were swept", counters.sweeps.clone());
        let help = "Uploads that sweeping removed: of writes that did not end, and of old versions";
        registry.register("swept_uploads", help, counters.swept.clone());
        metrics
    }

    pub(crate) fn request(&self, method: &Method, status: StatusCode) {
        const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "LOCK", "UNLOCK"];
        let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("other");
        let class = match status.as_u16() {
            ..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            500.. => "5xx",
        };
        self.0.requests.get_or_create(&RequestLabels { method, class }).inc();
    }

    pub(crate) fn received(&self, size: u64) {
        self.size("written", size);
    }

    pub(crate) fn sent(&self, size: u64) {
        self.size("read", size);
    }

    #[expect(clippy::cast_precision_loss, reason = "a bucket is found as well")]
    fn size(&self, direction: &'static str, size: u64) {
        self.0.sizes.get_or_create(&DirectionLabels { direction }).observe(size as f64);
    }

    pub(crate) fn lock_conflict(&self) {
        self.0.conflicts.inc();
    }

    pub(crate) fn lock_ended(&self, held: Duration) {
        self.0.held.observe(held.as_secs_f64());
    }

    pub(crate) fn store<T>(
        &self,
        store: &'static str,
        operation: &'static str,
        time: Duration,
        result: &Result<T, StoreError>,
    ) {
        self.0.store.get_or_create(&StoreLabels { store, operation }).observe(time.as_secs_f64());
        let reason = match result {
            Ok(_) => return,
            Err(StoreError::Conflict) => "conflict",
            Err(StoreError::Unknown(_)) => "unknown",
            Err(StoreError::Unavailable(_)) => "unavailable",
            Err(StoreError::TooLarge(_)) => "too_large",
            Err(StoreError::Damaged(_)) => "damaged",
            Err(StoreError::Refused(_)) => "refused",
        };
        self.0.failures.get_or_create(&FailureLabels { store, operation, reason }).inc();
    }

    /// Counts an upload until it is dropped.
    pub(crate) fn upload(&self) -> UnderWay {
        self.0.uploads.inc();
        UnderWay(self.clone())
    }

    pub(crate) fn swept(&self, uploads: usize) {
        self.0.sweeps.inc();
        self.0.swept.inc_by(uploads as u64);
    }
}

/// An upload that is under way.
#[derive(Debug)]
pub(crate) struct UnderWay(Metrics);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.uploads.dec();
    }
}
