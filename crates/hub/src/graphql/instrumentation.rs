//! What the original declares and never fills: clients may select it all the same.

use async_graphql::{Enum, SimpleObject};

#[derive(SimpleObject)]
pub(super) struct TypeInstanceInstrumentation {
    metrics: Option<TypeInstanceInstrumentationMetrics>,
    health: Option<TypeInstanceInstrumentationHealth>,
}

#[derive(SimpleObject)]
struct TypeInstanceInstrumentationMetrics {
    endpoint: Option<String>,
    regex: Option<String>,
    dashboards: Vec<TypeInstanceInstrumentationMetricsDashboard>,
}

#[derive(SimpleObject)]
struct TypeInstanceInstrumentationMetricsDashboard {
    url: String,
}

#[derive(SimpleObject)]
struct TypeInstanceInstrumentationHealth {
    url: Option<String>,
    method: Option<HttpRequestMethod>,
    status: Option<TypeInstanceInstrumentationHealthStatus>,
}

#[derive(Clone, Copy, PartialEq, Eq, Enum)]
enum TypeInstanceInstrumentationHealthStatus {
    Unknown,
    Ready,
    Failing,
}

#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(name = "HTTPRequestMethod")]
enum HttpRequestMethod {
    Get,
    Post,
}
