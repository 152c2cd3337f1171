//! What surrounds every request: its id, the check of the Host header, the deadline of its body, the catching of
//! panics, one log line and the counters.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use access::http::{Door, Problem, REQUEST_ID, RequestId};
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::FutureExt as _;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderName, HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;
use tracing::Instrument as _;

use super::metrics::{Metrics, Route};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the layers of one listener need.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    pub(crate) door: Door,
    pub(crate) metrics: Metrics,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) idle_body_time: Duration,
}

/// Which Host headers are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Any: others reach this listener under names that we cannot know.
    Any,
    /// Loopback names and these. A page in a browser can make its own name point to 127.0.0.1 and so reach a local
    /// server as its own origin; the Host header still tells that name.
    Only(Vec<String>),
}

impl Hosts {
    fn admit(&self, request: &Request) -> bool {
        let Hosts::Only(names) = self else { return true };
        let header = request.headers().get_all(HOST).iter().collect::<Vec<_>>();
        let authority = match (request.uri().authority(), header.as_slice()) {
            (Some(authority), [] | [_]) => Some(authority.clone()),
            (None, [value]) => value.to_str().ok().and_then(|text| text.parse::<Authority>().ok()),
            _ => None,
        };
        let Some(authority) = authority else { return false };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        loopback || host == "localhost" || names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// The outermost layer of every listener.
pub(crate) async fn around(State(around): State<Around>, mut request: Request, next: Next) -> Response {
    let id = RequestId::take(request.headers().get(&X_REQUEST_ID));
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str);
    let route = Route(Arc::from(route));
    let method = request.method().clone();
    let span = tracing::info_span!("request", id = %id);
    let started = Instant::now();
    request.extensions_mut().insert(around.door.clone());
    let idle = around.idle_body_time;
    let request = request.map(|body| Body::new(IdleLimit::new(body, idle)));

    let admitted = around.hosts.admit(&request);
    let handled = async {
        if !admitted {
            return Problem::new(
                StatusCode::MISDIRECTED_REQUEST,
                "the Host header is not one of this server's names",
                "use localhost or 127.0.0.1, or add the name to allowed_hosts",
            )
            .into_response();
        }
        // A panic is our fault and one request's: it must neither take the connection nor the others with it.
        let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        answered.unwrap_or_else(|_| {
            tracing::error!("a handler panicked");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the server failed", "look for the request id in its log")
                .into_response()
        })
    };
    let mut response = REQUEST_ID.scope(id, handled).instrument(span.clone()).await;
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    let (status, time) = (response.status(), started.elapsed());
    span.in_scope(|| {
        let (method, status, ms) = (super::metrics::known(&method), status.as_u16(), time.as_millis());
        tracing::info!(method, route = &*route.0, status, ms, "answered");
    });
    around.metrics.request(route, &method, status, time);
    response
}

/// A body that fails when its sender pauses for too long.
pub(crate) struct IdleLimit {
    body: Body,
    limit: Duration,
    timer: Pin<Box<Sleep>>,
}

impl IdleLimit {
    pub(crate) fn new(body: Body, limit: Duration) -> IdleLimit {
        IdleLimit { body, limit, timer: Box::pin(tokio::time::sleep(limit)) }
    }
}

impl hyper::body::Body for IdleLimit {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let limit = self.limit;
        match self.body.frame().poll_unpin(context) {
            Poll::Ready(frame) => {
                self.timer.as_mut().reset(tokio::time::Instant::now() + limit);
                Poll::Ready(frame)
            }
            Poll::Pending if self.timer.poll_unpin(context).is_ready() => {
                let error = std::io::Error::new(std::io::ErrorKind::TimedOut, "the body was not sent in time");
                Poll::Ready(Some(Err(axum::Error::new(error))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
