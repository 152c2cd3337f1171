//! What is counted about the explorer. No label holds a namespace, a name, a cluster or a user.

use std::sync::{Arc, OnceLock, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::report::KindState;
use super::shared::Shared;

/// The counters; a clone counts into the same ones.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    events: Family<EventLabels, Counter>,
    reviews: Family<AnsweredLabels, Counter>,
    cleaner_runs: Counter,
    cleaned: Counter,
    /// What is looked at when somebody asks.
    shared: OnceLock<Weak<Shared>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnsweredLabels {
    answered: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

impl Metrics {
    /// Makes the counters and puts them into `registry`.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        let registry = registry.sub_registry_with_prefix("explorer");
        let counters = &metrics.0;
        registry.register("events", "Objects that were taken in, and their ends", counters.events.clone());
        registry.register("reviews", "SubjectAccessReviews put to clusters", counters.reviews.clone());
        registry.register("cleaner_runs", "Runs of the cleaner", counters.cleaner_runs.clone());
        registry.register("cleaned_rows", "Rows that had been kept long enough", counters.cleaned.clone());
        registry.register_collector(Box::new(Looked(metrics.clone())));
        metrics
    }

    pub(crate) fn look_at(&self, shared: &Arc<Shared>) {
        // A second service of the same process counts into the first one's counters; its gauges are its own.
        let _ = self.0.shared.set(Arc::downgrade(shared));
    }

    pub(crate) fn applied(&self) {
        self.0.events.get_or_create(&EventLabels { event: "applied" }).inc();
    }

    pub(crate) fn deleted(&self) {
        self.0.events.get_or_create(&EventLabels { event: "deleted" }).inc();
    }

    pub(crate) fn reviewed(&self, answered: bool) {
        let answered = if answered { "yes" } else { "no" };
        self.0.reviews.get_or_create(&AnsweredLabels { answered }).inc();
    }

    pub(crate) fn cleaned(&self, rows: usize) {
        self.0.cleaner_runs.inc();
        self.0.cleaned.inc_by(rows as u64);
    }
}

/// Gauges that are worked out when they are asked for.
#[derive(Debug)]
struct Looked(Metrics);

impl Collector for Looked {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(shared) = self.0.0.shared.get().and_then(Weak::upgrade) else { return Ok(()) };
        let members: Vec<_> = shared.members().values().cloned().collect();
        let now = jiff::Timestamp::now();
        let withheld = members.iter().filter(|member| member.withheld(&shared, now).is_some()).count();
        let clusters = [("shown", members.len() - withheld), ("withheld", withheld)];
        let streams: Vec<_> = members.iter().flat_map(|member| member.figures()).collect();
        let in_state = |state| streams.iter().filter(|(found, _)| *found == state).count();
        let states = [
            ("absent", in_state(KindState::Absent)),
            ("listing", in_state(KindState::Listing)),
            ("synced", in_state(KindState::Synced)),
            ("stale", in_state(KindState::Stale)),
        ];
        let lag = streams.iter().map(|(_, figures)| figures.lag.as_secs_f64()).fold(0.0, f64::max);
        let help = "Clusters, by whether their rows are shown";
        encode_states(&mut encoder, "clusters", help, &clusters)?;
        let help = "Kinds that are followed in clusters, by how that goes";
        encode_states(&mut encoder, "streams", help, &states)?;
        let rows = ConstGauge::new(i64::try_from(shared.store.read().len()).unwrap_or(i64::MAX));
        rows.encode(encoder.encode_descriptor("rows", "Rows of the index", None, MetricType::Gauge)?)?;
        let help = "How long the oldest event has waited to be taken in, in seconds";
        ConstGauge::new(lag).encode(encoder.encode_descriptor("lag_seconds", help, None, MetricType::Gauge)?)
    }
}

fn encode_states(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: &[(&'static str, usize)],
) -> Result<(), std::fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (state, value) in values {
        let gauge = ConstGauge::new(i64::try_from(*value).unwrap_or(i64::MAX));
        gauge.encode(family.encode_family(&StateLabels { state })?)?;
    }
    Ok(())
}
