//! Requests of others, passed on to the server under our identity.
//!
//! The door is [`Upstream::forward`]. Bodies stream both ways, a piece at a time. The identity is looked up for every
//! request, because tokens in files are replaced, and plugins give new ones. Nothing has an overall deadline, since a
//! large state may take long; what stands still for too long is given up.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, TRANSFER_ENCODING,
};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use reqwest::Url;
use tokio::time::{Instant, sleep_until};

use super::identity::Identity;
use super::{ClientArgs, build, causes, connection};
use crate::cli::failure::{Exit, Failure};
use crate::config::Environment;
use crate::serve::layers::IdleLimit;

/// What a state backend looks at; everything else of a request is between its sender and us.
const PASSED_ON: [HeaderName; 5] =
    [ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderName::from_static("content-md5")];

/// One address of a server, and who we are to it.
pub struct Upstream {
    http: reqwest::Client,
    address: Url,
    args: ClientArgs,
    environment: Environment,
}

impl Upstream {
    pub async fn new(args: ClientArgs, environment: &Environment, address: Url) -> Result<Upstream, Failure> {
        let identity = Identity::find_or_service_account(&args, environment, &address).await?;
        if identity.is_none() {
            return Err(Failure::usage(
                "there is no identity to put on requests",
                "use --token-file, STATEWARD_TOKEN or --kubeconfig",
            ));
        }
        let builder = connection(&args, &address, &identity)?.connect_timeout(args.timeout);
        Ok(Upstream { http: build(builder)?, address, args, environment: environment.clone() })
    }

    /// Sends a request to the address, with its method, query and body, and our identity in place of its own.
    pub async fn forward(&self, request: Request<Body>) -> Result<Response<Body>, Failure> {
        let identity = Identity::find_or_service_account(&self.args, &self.environment, &self.address).await?;
        let (parts, body) = request.into_parts();
        let mut url = self.address.clone();
        if let Some(query) = parts.uri.query() {
            let own = url.query().map(|own| format!("{own}&")).unwrap_or_default();
            url.set_query(Some(&format!("{own}{query}")));
        }
        let mut headers = HeaderMap::new();
        for name in PASSED_ON {
            headers.extend(parts.headers.get_all(&name).iter().map(|value| (name.clone(), value.clone())));
        }
        if let Some(authorization) = identity.authorization()? {
            headers.insert(AUTHORIZATION, authorization);
        }
        let limit = self.args.timeout;
        let moved = Moved(Arc::new(Mutex::new(Instant::now())));
        let body = reqwest::Body::wrap(Watched { body: Mutex::new(body), moved: moved.clone() });
        let mut sending = pin!(self.http.request(parts.method, url).headers(headers).body(body).send());
        let answer = loop {
            let deadline = moved.last() + limit;
            tokio::select! {
                answer = &mut sending => break answer.map_err(|error| self.unreachable(&causes(&error)))?,
                () = sleep_until(deadline) => {
                    if moved.last() + limit <= deadline {
                        return Err(self.unreachable(&format!("nothing moved for {limit:?}")));
                    }
                }
            }
        };
        let (mut parts, body) = Response::<reqwest::Body>::from(answer).into_parts();
        // About our connection to the server, not about the caller's to us.
        for name in [CONNECTION, TRANSFER_ENCODING] {
            parts.headers.remove(name);
        }
        Ok(Response::from_parts(parts, Body::new(IdleLimit::new(Body::new(body), limit))))
    }

    fn unreachable(&self, fault: &str) -> Failure {
        let message = format!("failed to reach {}: {fault}", self.address);
        Failure::new(Exit::Unavailable, message, "check the address and --ca-file; --timeout allows more time")
    }
}

/// When a body moved last.
#[derive(Clone, Debug)]
struct Moved(Arc<Mutex<Instant>>);

impl Moved {
    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// A request body that tells when it moves.
struct Watched {
    /// The client wants a body that could be shared, which it never is.
    body: Mutex<Body>,
    moved: Moved,
}

impl Watched {
    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body().frame()).poll(context);
        if polled.is_ready() {
            self.moved.now();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body().size_hint()
    }
}
