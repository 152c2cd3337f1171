//! An authorization webhook: the API server asks it, a test decides.
//!
//! It is what clusters have whose permissions are elsewhere, in place of RBAC or before it. See [`crate::Cluster::judged_by`].

use std::convert::Infallible;
use std::fmt;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A running webhook on 127.0.0.1, with a thread of its own. It ends when dropped.
#[derive(Debug)]
pub struct Webhook {
    url: String,
    judge: Arc<Judge>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
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
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen for the webhook");
        listener.set_nonblocking(true).expect("listen without blocking");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let judge = Arc::new(Judge(Mutex::new(Arc::new(decide))));
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&judge);
        let thread = std::thread::spawn(move || serve(listener, &serving, stopped));
        Webhook { url, judge, stop: Some(stop), thread: Some(thread) }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on it decides like this.
    pub fn decide(&self, decide: impl Fn(&Value) -> Opinion + Send + Sync + 'static) {
        *self.judge.lock() = Arc::new(decide);
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(listener: TcpListener, judge: &Arc<Judge>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("start a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("listen for the webhook");
        let accept = async {
            loop {
                let Ok((stream, _peer)) = listener.accept().await else { continue };
                let judge = Arc::clone(judge);
                tokio::spawn(async move {
                    let service = service_fn(|request| {
                        let judge = Arc::clone(&judge);
                        async move { Ok::<_, Infallible>(judge.answer(request).await) }
                    });
                    // An error here is an API server that left.
                    let _ =
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        };
        tokio::select! {
            _ = stopped => {}
            () = accept => {}
        }
    });
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
