//! The accept loop: plain or TLS, HTTP/1.1 or h2, with a deadline for everything a silent peer could drag out, and a
//! graceful stop.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use access::Certificates;
use access::http::Peer;
use axum::Router;
use axum::body::Body;
use http::StatusCode;
use http::header::ALLOW;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::leftover::Drained;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_BYTES: usize = 64 * 1024;
/// Streams of one h2 connection, unless somebody says otherwise.
pub(crate) const H2_STREAMS: u32 = 250;
const H2_PING: Duration = Duration::from_secs(20);
/// The longest piece in which an h2 client may send a body: four times what it may without being told, so that a large
/// state comes in fewer of them. The window of a stream, and with it memory, stays as it is.
const H2_FRAME: u32 = 64 << 10;
/// How much is read from a TLS connection at once: by itself rustls asks the kernel for 4 KiB, 2500 times for 10 MB.
const TLS_READ: usize = 32 << 10;

/// A listener with its routes.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) routes: Router,
    pub(crate) limits: Limits,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For a TLS handshake, and for the head of each request.
    pub(crate) header_time: Duration,
    pub(crate) connections: usize,
    /// In one h2 connection.
    pub(crate) streams: u32,
    /// How long requests under way may go on after a stop.
    pub(crate) grace: Duration,
}

impl Listener {
    /// Serves until `stop` turns true, then lets requests end within the grace period.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let graceful = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(self.limits.connections));
        let tls = self.tls.map(TlsAcceptor::from);
        loop {
            let accepted = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                // A place first: when all are taken, peers wait in the kernel's queue and not in our memory.
                accepted = accept(&self.socket, &places) => accepted,
            };
            let Some((stream, address, place)) = accepted else { continue };
            let (routes, tls, limits, watcher) = (self.routes.clone(), tls.clone(), self.limits, graceful.watcher());
            let stop = stop.clone();
            tokio::spawn(async move {
                let served = connection(stream, address, tls, routes, limits, watcher, stop).await;
                if let Err(error) = served {
                    tracing::debug!(%address, %error, "a connection ended early");
                }
                drop(place);
            });
        }
        drop(self.socket);
        if timeout(self.limits.grace, graceful.shutdown()).await.is_err() {
            tracing::warn!(grace = ?self.limits.grace, "cut off requests that did not end in time");
        }
    }
}

async fn accept(
    socket: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match socket.accept().await {
        Ok((stream, address)) => Some((stream, address, place)),
        Err(error) => {
            // Out of file descriptors and the like: it passes when others end, so wait instead of spinning.
            tracing::warn!(%error, "failed to accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    routes: Router,
    limits: Limits,
    watcher: Watcher,
    mut stop: watch::Receiver<bool>,
) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    match tls {
        None => {
            let greeting = timeout(limits.header_time, begins_as_h2(&stream));
            let Some(greeted) = unless_stopped(&mut stop, greeting).await else { return Ok(()) };
            let h2 = greeted??;
            let peer = Peer { address, certificates: Certificates::default() };
            speak(stream, h2, peer, routes, limits, watcher).await
        }
        Some(acceptor) => {
            let stream = BufReader::with_capacity(TLS_READ, stream);
            let greeting = timeout(limits.header_time, acceptor.accept(stream));
            let Some(greeted) = unless_stopped(&mut stop, greeting).await else { return Ok(()) };
            let stream = greeted??;
            let session = stream.get_ref().1;
            let certificates: Vec<_> = session.peer_certificates().unwrap_or_default().to_vec();
            let h2 = session.alpn_protocol() == Some(b"h2");
            let peer = Peer { address, certificates: certificates.into() };
            speak(stream, h2, peer, routes, limits, watcher).await
        }
    }
}

/// What comes before the first request, unless the server stops meanwhile: of a peer that has asked for nothing yet,
/// nothing is under way that a stop could wait for.
async fn unless_stopped<T>(stop: &mut watch::Receiver<bool>, greeting: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        greeted = greeting => Some(greeted),
        _ = stop.wait_for(|stop| *stop) => None,
    }
}

/// Looks at the first bytes without taking them: h2 with prior knowledge begins with its preface.
async fn begins_as_h2(stream: &TcpStream) -> std::io::Result<bool> {
    let mut seen = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut seen).await?;
        if count == 0 || !PREFACE.starts_with(&seen[..count]) {
            return Ok(false);
        }
        if count == PREFACE.len() {
            return Ok(true);
        }
        // Only a prefix of the preface is there yet; `peek` would answer at once with the same bytes.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn speak<S>(
    stream: S,
    h2: bool,
    peer: Peer,
    routes: Router,
    limits: Limits,
    watcher: Watcher,
) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let routes = routes.clone();
        async move {
            let mut response = routes.oneshot(Drained::of(request).map(Body::new)).await?;
            // A route whose fallback takes LOCK and UNLOCK gets this header on every such answer, outside of all layers;
            // it belongs to a 405 alone.
            if response.status() != StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().remove(ALLOW);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let io = TokioIo::new(stream);
    if h2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_frame_size(H2_FRAME)
            .max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX))
            .keep_alive_interval(H2_PING)
            .keep_alive_timeout(limits.header_time);
        watcher.watch(builder.serve_connection(io, service)).await?;
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(limits.header_time).max_buf_size(HEADER_BYTES);
        watcher.watch(builder.serve_connection(io, service)).await?;
    }
    Ok(())
}
