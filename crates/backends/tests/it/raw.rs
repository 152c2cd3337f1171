//! A peer that is nothing but HTTP/2: it keeps what it gets, byte by byte, and answers as it is told.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use ::bytes::Bytes;
use futures::future::pending;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

/// What to answer.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// This message, and success.
    Message(Vec<u8>),
    /// A code with its text, as they stand in headers, and more headers.
    Status(u32, &'static str, &'static [(&'static str, &'static str)]),
    /// These bytes where a message should be.
    Garbage(&'static [u8]),
    /// Something that is not gRPC at all.
    Page(u16),
    /// The stream is reset after the request was read.
    Reset,
    /// Nothing, for ever.
    Hang,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) timeout: Option<String>,
    /// Without the five bytes before it.
    pub(crate) message: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
}

impl Peer {
    /// Gives the replies one after the other, the last one again and again.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Peer {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = Peer {
            address: socket.local_addr().unwrap().to_string(),
            seen: Arc::default(),
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
        };
        let answering = peer.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                let peer = answering.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(peer.clone(), request));
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        peer
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The only request there was.
    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }

    fn next(&self) -> Reply {
        let mut replies = self.replies.lock().unwrap();
        let first = replies.front().cloned().expect("a reply");
        if replies.len() > 1 {
            replies.pop_front();
        }
        first
    }
}

type Answer = Result<Response<BoxBody<Bytes, Infallible>>, &'static str>;

async fn answer(peer: Peer, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "half a request")?.to_bytes();
    let timeout = head.headers.get("grpc-timeout").map(|text| text.to_str().unwrap().to_owned());
    let seen = Seen { path: head.uri.path().to_owned(), timeout, message: body[5..].to_vec() };
    peer.seen.lock().unwrap().push(seen);
    let grpc = Response::builder().header("content-type", "application/grpc");
    let answer = match peer.next() {
        Reply::Message(message) => grpc.body(framed(&message)),
        Reply::Status(code, text, more) => {
            let status = grpc.header("grpc-status", code).header("grpc-message", text);
            let status = more.iter().fold(status, |status, (name, value)| status.header(*name, *value));
            status.body(Full::default().boxed())
        }
        Reply::Garbage(bytes) => grpc.body(Full::from(bytes).boxed()),
        Reply::Page(status) => {
            let status = StatusCode::from_u16(status).unwrap();
            Response::builder().status(status).header("content-type", "text/html").body(Full::from("<html>").boxed())
        }
        Reply::Reset => return Err("reset"),
        Reply::Hang => pending().await,
    };
    Ok(answer.unwrap())
}

fn framed(message: &[u8]) -> BoxBody<Bytes, Infallible> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let data = [&[0], length.as_slice(), message].concat();
    let mut trailers = hyper::HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [Frame::data(Bytes::from(data)), Frame::trailers(trailers)].map(Ok::<_, Infallible>);
    StreamBody::new(futures::stream::iter(frames)).boxed()
}
