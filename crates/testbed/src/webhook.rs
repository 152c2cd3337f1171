//! An authorization webhook: the API server asks it, a test decides.
//!
//! It is what clusters have whose permissions are elsewhere, in place of RBAC or before it. See [`crate::Cluster::judged_by`].

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::serving::Serving;

/// A running webhook on 127.0.0.1. It ends when dropped.
#[derive(Debug)]
pub struct Webhook {
    url: String,
    judge: Arc<Judge>,
    _serving: Serving,
}

/// What a webhook says to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion {
    Allow,
    /// Whatever authorizers after it would say.
    Deny,
    /// The next authorizer decides.
    None,
    /// It fails: 500.
    Broken,
}

/// The `spec` of a SubjectAccessReview.
type Decide = dyn Fn(&Value) -> Opinion + Send + Sync;

struct Judge(Mutex<Arc<Decide>>);

impl Webhook {
    pub fn start(decide: impl Fn(&Value) -> Opinion + Send + Sync + 'static) -> Webhook {
        let judge = Arc::new(Judge(Mutex::new(Arc::new(decide))));
        let sitting = Arc::clone(&judge);
        let serving = Serving::start(move |stream| serve(Arc::clone(&sitting), stream));
        Webhook { url: format!("http://{}", serving.address), judge, _serving: serving }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on it decides like this.
    pub fn decide(&self, decide: impl Fn(&Value) -> Opinion + Send + Sync + 'static) {
        *self.judge.lock() = Arc::new(decide);
    }
}

async fn serve(judge: Arc<Judge>, stream: TcpStream) {
    let service = service_fn(|request| {
        let judge = Arc::clone(&judge);
        async move { Ok::<_, Infallible>(judge.answer(request).await) }
    });
    // An error here is an API server that left.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

impl Judge {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
        let decide = Arc::clone(&*self.lock());
        let status = match decide(&review["spec"]) {
            Opinion::Allow => json!({"allowed": true}),
            Opinion::Deny => json!({"allowed": false, "denied": true, "reason": "the webhook says no"}),
            Opinion::None => json!({"allowed": false}),
            Opinion::Broken => {
                let mut answer = Response::new(Full::default());
                *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                return answer;
            }
        };
        review["status"] = status;
        let mut answer = Response::new(Full::new(Bytes::from(review.to_string())));
        answer.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Decide>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Judge")
    }
}
