//! Connections on their way in: plain or with TLS, each handshake apart, so that a slow peer holds up nobody.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::{ServerLimits, ServerTls};
use crate::Error;

/// How old a certificate may be before its files are looked at again.
const FRESH: Duration = Duration::from_secs(10);

pub(super) struct Incoming {
    socket: TcpListener,
    certificates: Option<Certificates>,
    limits: ServerLimits,
}

/// What the files said last that made sense.
struct Certificates {
    tls: ServerTls,
    acceptor: TlsAcceptor,
    read: Instant,
}

impl Incoming {
    pub(super) fn new(socket: TcpListener, tls: Option<ServerTls>, limits: ServerLimits) -> Result<Incoming, Error> {
        let certificates = tls.map(|tls| {
            let acceptor = acceptor(&tls)?;
            Ok(Certificates { tls, acceptor, read: Instant::now() })
        });
        Ok(Incoming { socket, certificates: certificates.transpose()?, limits })
    }

    /// Accepts until it is told to stop.
    pub(super) fn start(
        mut self,
        mut stop: watch::Receiver<bool>,
    ) -> (impl Stream<Item = std::io::Result<Peer>>, JoinHandle<()>) {
        let (ready, connections) = mpsc::channel(16);
        let accepting = tokio::spawn(async move {
            let places = Arc::new(Semaphore::new(self.limits.connections));
            loop {
                let accepted = tokio::select! {
                    _ = stop.wait_for(|stop| *stop) => break,
                    // A place first: when all are taken, peers wait in the kernel's queue.
                    accepted = accept(&self.socket, &places) => accepted,
                };
                let Some((stream, place)) = accepted else { continue };
                let (acceptor, ready, time) = (self.acceptor(), ready.clone(), self.limits.handshake_within);
                tokio::spawn(async move {
                    let stream = match acceptor {
                        None => Transport::Plain(stream),
                        Some(acceptor) => match timeout(time, acceptor.accept(stream)).await {
                            Ok(Ok(stream)) => Transport::Tls(Box::new(stream)),
                            Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
                            Err(_) => return tracing::debug!("a TLS handshake took too long"),
                        },
                    };
                    // Nobody takes it any more: the server stops.
                    let _ = ready.send(Ok(Peer { stream, _place: place })).await;
                });
            }
        });
        let connections = futures::stream::unfold(connections, |mut connections| async move {
            connections.recv().await.map(|connection| (connection, connections))
        });
        (connections, accepting)
    }

    /// Files are read again from time to time, so that renewed certificates count; what makes no sense does not.
    fn acceptor(&mut self) -> Option<TlsAcceptor> {
        let certificates = self.certificates.as_mut()?;
        if certificates.read.elapsed() > FRESH {
            certificates.read = Instant::now();
            match acceptor(&certificates.tls) {
                Ok(acceptor) => certificates.acceptor = acceptor,
                Err(error) => tracing::warn!(%error, "kept the last certificate"),
            }
        }
        Some(certificates.acceptor.clone())
    }
}

async fn accept(socket: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match socket.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, place))
        }
        Err(error) => {
            // Out of file descriptors and the like: it passes when others end, so wait instead of spinning.
            tracing::warn!(%error, "failed to accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

fn acceptor(tls: &ServerTls) -> Result<TlsAcceptor, Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Error::Tls(error.to_string()))?;
    let builder = match &tls.client_authority {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let roots = Arc::new(authority.roots()?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| Error::Tls(error.to_string()))?)
        }
    };
    let config = builder.with_single_cert(tls.certificate.certificates()?, tls.key.key()?);
    let mut config = config.map_err(|_| Error::Tls("the server's key is not of its certificate".to_owned()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A connection with its place among those that are allowed at a time.
pub(super) struct Peer {
    stream: Transport,
    _place: OwnedSemaphorePermit,
}

enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connected for Peer {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match &mut self.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Peer {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        match &mut self.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut self.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match &mut self.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
