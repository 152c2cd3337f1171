//! What the server counts, and `/metrics`. No label holds a namespace, a name, a user or a path that a caller chose.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The registry of this process and the counters of its HTTP side.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    registry: Arc<Mutex<Registry>>,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: Route,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: Route,
}

/// A route as it was declared, such as `/api/v1/tokens/{id}`; never a path as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route(pub(crate) Arc<str>);

impl EncodeLabelValue for Route {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.as_ref().encode(encoder)
    }
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("stateward");
        let requests = Family::default();
        let seconds = Family::<RouteLabels, Histogram>::new_with_constructor(|| {
            Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0])
        });
        registry.register("http_requests", "Requests answered", requests.clone());
        registry.register("http_request_seconds", "Time from head to answer", seconds.clone());
        Metrics { registry: Arc::new(Mutex::new(registry)), requests, seconds }
    }

    /// Lets another part put its metrics into the registry.
    pub(crate) fn register<T>(&self, add: impl FnOnce(&mut Registry) -> T) -> T {
        add(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn request(&self, route: Route, method: &Method, status: StatusCode, time: Duration) {
        let labels = RequestLabels { route: route.clone(), method: known(method), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&RouteLabels { route }).observe(time.as_secs_f64());
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(text)
    }
}

/// Callers may send any method; only known ones become a label or reach the log.
pub(super) fn known(method: &Method) -> &'static str {
    const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "LOCK", "UNLOCK"];
    METHODS.iter().find(|known| **known == method.as_str()).copied().unwrap_or("other")
}
