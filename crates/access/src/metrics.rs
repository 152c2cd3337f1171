//! What the gate counts. No label holds a namespace, a name or a user.

use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

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
