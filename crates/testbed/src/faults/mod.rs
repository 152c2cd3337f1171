//! An HTTP proxy in front of a real peer that misbehaves where a test says so.
//!
//! The door is [`Proxy`]; what goes wrong, and when, is a [`Rule`]. Requests that no rule is about pass as they are, with
//! streamed bodies and the Host header that the client sent. Protocol upgrades are not passed on. The peer behind it is
//! always real: nothing here makes up an answer but the ones that rules ask for.

mod rules;
mod upstream;

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

pub use rules::{Fault, Rule};

use crate::certificates::Pair;
use crate::serving::Serving;
use rules::Rules;
use upstream::Upstream;

/// A running proxy on 127.0.0.1. It ends, and cuts its connections, when dropped.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    state: Arc<State>,
    _serving: Serving,
}

/// What a proxy needs to know before it starts.
#[derive(Debug)]
pub struct Setup {
    upstream: String,
    authority_pem: Option<String>,
    presented: Option<Pair>,
    served: Option<Pair>,
}

/// A request that came to the proxy, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub method: Method,
    /// With the query.
    pub path: String,
    /// How often it was sent to the peer.
    pub sent: u32,
    /// What the client was told: nothing yet, or nothing ever, if the answer was lost.
    pub answer: Option<StatusCode>,
}

#[derive(Debug, Default)]
struct State {
    rules: Mutex<Rules>,
    exchanges: Mutex<Vec<Exchange>>,
}

impl Proxy {
    /// A proxy in front of `upstream`, an address like `http://127.0.0.1:2379`.
    pub fn to(upstream: &str) -> Setup {
        Setup { upstream: upstream.to_owned(), authority_pem: None, presented: None, served: None }
    }

    /// Where the proxy listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Adds a rule. Of the rules whose turn it is, the one that was added first is taken.
    pub fn add(&self, rule: Rule) {
        lock(&self.state.rules).add(rule);
    }

    /// Takes all rules away: from now on everything passes.
    pub fn clear(&self) {
        lock(&self.state.rules).clear();
    }

    /// All requests so far, in the order in which they came.
    pub fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.state.exchanges).clone()
    }

    /// How many requests with this method and this part of the path were sent to the peer; a repeated one counts twice.
    pub fn passed(&self, method: &Method, path: &str) -> u32 {
        let exchanges = lock(&self.state.exchanges);
        let matching = exchanges.iter().filter(|exchange| exchange.method == method && exchange.path.contains(path));
        matching.map(|exchange| exchange.sent).sum()
    }
}

impl Setup {
    /// The authority that signed the peer's certificate, for an https peer.
    #[must_use]
    pub fn trusting(mut self, authority_pem: &str) -> Setup {
        self.authority_pem = Some(authority_pem.to_owned());
        self
    }

    /// The certificate that the proxy shows to an https peer; a client's own does not pass through a proxy.
    #[must_use]
    pub fn presenting(mut self, pair: &Pair) -> Setup {
        self.presented = Some(pair.clone());
        self
    }

    /// Serves https with this certificate, in place of plain http.
    #[must_use]
    pub fn serving(mut self, pair: &Pair) -> Setup {
        self.served = Some(pair.clone());
        self
    }

    /// Starts the proxy on a port that the kernel chooses.
    pub fn start(self) -> Proxy {
        let upstream = Upstream::new(&self.upstream, self.authority_pem.as_deref(), self.presented.as_ref());
        let acceptor = self.served.as_ref().map(upstream::acceptor);
        let state = Arc::new(State::default());
        let proxy = Arc::new(Handler { upstream, state: Arc::clone(&state) });
        let serving = Serving::start(move |stream| serve(acceptor.clone(), Arc::clone(&proxy), stream));
        let scheme = if self.served.is_some() { "https" } else { "http" };
        Proxy { url: format!("{scheme}://{}", serving.address), state, _serving: serving }
    }
}

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

struct Handler {
    upstream: Upstream,
    state: Arc<State>,
}

async fn serve(acceptor: Option<TlsAcceptor>, proxy: Arc<Handler>, stream: TcpStream) {
    match acceptor {
        None => proxy.serve_connection(stream).await,
        // A client that fails the handshake knows why; there is nobody else to tell.
        Some(acceptor) => {
            if let Ok(stream) = acceptor.accept(stream).await {
                proxy.serve_connection(stream).await;
            }
        }
    }
}

impl Handler {
    async fn serve_connection(self: Arc<Handler>, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(|request| {
            let proxy = Arc::clone(&self);
            async move { proxy.handle(request).await }
        });
        let server = auto::Builder::new(TokioExecutor::new());
        // An error here is a lost answer, which a rule asked for, or a client that left.
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }

    /// An error cuts the connection (HTTP/1.1) or the stream (HTTP/2) without an answer.
    async fn handle(&self, request: Request<Incoming>) -> Result<Answer, io::Error> {
        let method = request.method().clone();
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let fault = lock(&self.state.rules).take(&method, &path);
        let number = self.state.arrived(method, path);
        let answer = self.act(request, number, fault).await?;
        lock(&self.state.exchanges)[number].answer = Some(answer.status());
        Ok(answer)
    }

    async fn act(&self, request: Request<Incoming>, number: usize, fault: Option<Fault>) -> Result<Answer, io::Error> {
        let lost = || io::Error::other("lost by a rule of the proxy");
        match fault {
            None => Ok(self.pass(request, number).await),
            Some(Fault::Answer { status, retry_after_seconds }) => {
                // Read first: a client that is still sending would see a broken pipe in place of the answer.
                let _ = request.into_body().collect().await;
                let mut answer = plain(status, "answered by a rule of the proxy\n");
                if let Some(seconds) = retry_after_seconds {
                    answer.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
                }
                Ok(answer)
            }
            Some(Fault::LoseRequest) => {
                let _ = request.into_body().collect().await;
                Err(lost())
            }
            Some(Fault::LoseAnswer) => {
                let answer = self.pass(request, number).await;
                // To the end, so that the peer has surely done its work.
                let _ = answer.into_body().collect().await;
                Err(lost())
            }
            Some(Fault::DelayRequest(time)) => {
                tokio::time::sleep(time).await;
                Ok(self.pass(request, number).await)
            }
            Some(Fault::DelayAnswer(time)) => {
                let answer = self.pass(request, number).await;
                tokio::time::sleep(time).await;
                Ok(answer)
            }
            Some(Fault::Repeat) => {
                let (head, body) = request.into_parts();
                let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
                let first = self.pass(Request::from_parts(head.clone(), Full::new(body.clone())), number).await;
                let _ = first.into_body().collect().await;
                Ok(self.pass(Request::from_parts(head, Full::new(body)), number).await)
            }
            Some(Fault::RemoveHeaders(names)) => {
                let mut request = request;
                for name in &names {
                    request.headers_mut().remove(name);
                }
                Ok(self.pass(request, number).await)
            }
        }
    }

    async fn pass<B>(&self, request: Request<B>, number: usize) -> Answer
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        lock(&self.state.exchanges)[number].sent += 1;
        match self.upstream.send(request).await {
            Ok(answer) => answer.map(BodyExt::boxed),
            Err(error) => plain(StatusCode::BAD_GATEWAY, format!("the peer behind the proxy failed: {error:#}\n")),
        }
    }
}

impl State {
    fn arrived(&self, method: Method, path: String) -> usize {
        let mut exchanges = lock(&self.exchanges);
        exchanges.push(Exchange { method, path, sent: 0, answer: None });
        exchanges.len() - 1
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let body = Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
