//! What the gate counts. No label holds a namespace, a name or a user.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::audit::Audit;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Review {
    Token,
    Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Answer {
    Allowed,
    Denied,
    Unauthenticated,
    Unavailable,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewLabels {
    kind: Review,
    answered: Answered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Answered {
    Yes,
    No,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    answer: Answer,
}

/// Counters of the gate; a clone counts into the same ones.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    reviews: Family<ReviewLabels, Counter>,
    decisions: Family<DecisionLabels, Counter>,
}

/// Puts the counters of the audit log into `registry`, read when they are asked for.
pub fn register_audit(registry: &mut Registry, audit: &Audit) {
    registry.register_collector(Box::new(AuditCollector(audit.clone())));
}

#[derive(Debug)]
struct AuditCollector(Audit);

impl Collector for AuditCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stats = self.0.stats();
        let counters: [(&str, &str, &AtomicU64); 5] = [
            ("audit_lines", "Lines written to the audit log", &stats.lines),
            ("audit_syncs", "Times the audit log was synced to disk", &stats.syncs),
            ("audit_commits", "Entries that were on disk before their answer", &stats.commits),
            ("audit_lost", "Decisions that could not be written", &stats.lost),
            ("audit_rotations", "Files of the audit log that were closed", &stats.rotations),
        ];
        for (name, help, counter) in counters {
            let value = ConstCounter::new(counter.load(Ordering::Relaxed));
            value.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let healthy = ConstGauge::new(i64::from(self.0.health().is_ok()));
        let help = "Whether changes can be recorded";
        healthy.encode(encoder.encode_descriptor("audit_healthy", help, None, MetricType::Gauge)?)
    }
}

impl Metrics {
    /// Makes the counters and puts them into `registry`.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        let registry = registry.sub_registry_with_prefix("access");
        registry.register("reviews", "Questions put to the API server", metrics.0.reviews.clone());
        registry.register("decisions", "Answers of the gate", metrics.0.decisions.clone());
        metrics
    }

    pub(crate) fn review(&self, kind: Review, answered: bool) {
        let answered = if answered { Answered::Yes } else { Answered::No };
        self.0.reviews.get_or_create(&ReviewLabels { kind, answered }).inc();
    }

    pub(crate) fn decision(&self, answer: Answer) {
        self.0.decisions.get_or_create(&DecisionLabels { answer }).inc();
    }
}
