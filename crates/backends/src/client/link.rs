//! The connection to a backend: made when it is needed, shared by all calls, made anew when it ended.
//!
//! tonic's own channel would do, but it does not tell whether a request that failed was ever written. Here the two are apart:
//! [`Link::connection`] fails before anything is sent, and a request on a connection fails as [`NotSent`] only if hyper gives
//! it back whole.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::body::Body;
use tower::Service;

use super::address::{Address, Certificates, Place, Security};
use super::{ClientTls, Endpoint, Limits};
use crate::Error;

/// A connection that nobody used for so long is left: what stands between may have forgotten it without a word.
const IDLE: Duration = Duration::from_secs(60);
/// How long the first word of a server is waited for. It speaks first in HTTP/2, unless it is of an odd kind.
const GREETING: Duration = Duration::from_secs(1);

pub(super) struct Link {
    address: Address,
    tls: ClientTls,
    pub(super) limits: Limits,
    /// Scheme and authority of requests.
    pub(super) origin: http::Uri,
    kept: Mutex<Kept>,
    made: AtomicU64,
}

#[derive(Default)]
struct Kept {
    connection: Option<(Connection, Instant)>,
    /// When an attempt last failed and why: whoever waited for it need not try the same.
    failed: Option<(Instant, String)>,
}

/// One connection; a clone is the same one.
#[derive(Clone)]
pub(super) struct Connection {
    sender: SendRequest<Body>,
    number: u64,
}

/// Hyper gave the request back: not one byte of it was written.
#[derive(Debug, thiserror::Error)]
#[error("the request was not sent")]
pub(super) struct NotSent;

impl Link {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Link, Error> {
        let certificates = if endpoint.tls.is_some() { Certificates::Given } else { Certificates::None };
        let address = Address::parse(&endpoint.url, certificates)?;
        let scheme = if address.security == Security::Tls { "https" } else { "http" };
        let origin = http::Uri::builder().scheme(scheme).authority(address.authority()).path_and_query("/").build();
        let origin = origin.map_err(|_| Error::Url("it is not host:port".to_owned()))?;
        let tls = endpoint.tls.clone().unwrap_or_default();
        let link =
            Link { address, tls, limits: endpoint.limits, origin, kept: Mutex::default(), made: AtomicU64::new(0) };
        if link.address.security == Security::Tls {
            // What cannot work is told now; what changes on disk later, when it is read.
            link.tls_config()?;
            link.server_name()?;
        }
        Ok(link)
    }

    /// A connection that is open as far as anybody knows; the error is its reason, and nothing was sent.
    pub(super) async fn connection(&self) -> Result<Connection, String> {
        let asked = Instant::now();
        let mut kept = self.kept.lock().await;
        if let Some((connection, used)) = &mut kept.connection
            && !connection.sender.is_closed()
            && used.elapsed() < IDLE
        {
            *used = Instant::now();
            return Ok(connection.clone());
        }
        if let Some((_, why)) = kept.failed.as_ref().filter(|(when, _)| *when > asked) {
            return Err(why.clone());
        }
        let made = match timeout(self.limits.connect_within, self.connect()).await {
            Ok(made) => made,
            Err(_) => Err(format!("no connection within {:?}", self.limits.connect_within)),
        };
        let made = made.map_err(|why| format!("failed to connect to {}: {why}", self.address.authority()));
        match made {
            Ok(connection) => {
                *kept = Kept { connection: Some((connection.clone(), Instant::now())), failed: None };
                Ok(connection)
            }
            Err(why) => {
                *kept = Kept { connection: None, failed: Some((Instant::now(), why.clone())) };
                Err(why)
            }
        }
    }

    /// Gives a connection to nobody any more; who has it already keeps it.
    pub(super) async fn retire(&self, connection: &Connection) {
        let mut kept = self.kept.lock().await;
        if kept.connection.as_ref().is_some_and(|(current, _)| current.number == connection.number) {
            kept.connection = None;
        }
    }

    async fn connect(&self) -> Result<Connection, String> {
        match &self.address.place {
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| error.to_string())?;
                self.greet(stream).await
            }
            Place::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| error.to_string())?;
                stream.set_nodelay(true).map_err(|error| error.to_string())?;
                match self.address.security {
                    Security::Plain => self.greet(stream).await,
                    Security::Tls => {
                        let (config, name) = self
                            .tls_config()
                            .and_then(|config| Ok((config, self.server_name()?)))
                            .map_err(|error| error.to_string())?;
                        let connector = TlsConnector::from(std::sync::Arc::new(config));
                        let stream = connector.connect(name, stream).await;
                        self.greet(stream.map_err(|error| format!("TLS: {error}"))?).await
                    }
                }
            }
        }
    }

    /// Waits for the server's first word. A certificate of ours that it does not like, a proxy with nobody behind it: both
    /// end the connection here, where nothing is lost yet, and not after the first request.
    async fn greet(&self, stream: impl Stream) -> Result<Connection, String> {
        let mut stream = BufReader::new(stream);
        match timeout(GREETING, stream.fill_buf()).await {
            Ok(Err(error)) => return Err(error.to_string()),
            Ok(Ok([])) => return Err("the other side closed the connection at once".to_owned()),
            Ok(Ok(_)) | Err(_) => {}
        }
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(self.limits.ping_every)
            .keep_alive_timeout(self.limits.ping_every)
            .adaptive_window(true);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // Ends with the last sender, or with the connection; whoever waits on it then is told.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to a storage backend ended");
            }
        });
        Ok(Connection { sender, number: self.made.fetch_add(1, Ordering::Relaxed) })
    }

    fn tls_config(&self) -> Result<ClientConfig, Error> {
        let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| Error::Tls(error.to_string()))?;
        let builder = if let Some(authorities) = &self.tls.authorities {
            builder.with_root_certificates(authorities.roots()?)
        } else {
            let verifier = rustls_platform_verifier::Verifier::new(provider);
            let verifier = verifier.map_err(|error| {
                Error::Tls(format!("this machine trusts nobody ({error}): name the authority's file"))
            })?;
            builder.dangerous().with_custom_certificate_verifier(std::sync::Arc::new(verifier))
        };
        let mut config = match &self.tls.identity {
            None => builder.with_no_client_auth(),
            Some((certificates, key)) => builder
                .with_client_auth_cert(certificates.certificates()?, key.key()?)
                .map_err(|_| Error::Tls("the client's key is not of its certificate".to_owned()))?,
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    fn server_name(&self) -> Result<ServerName<'static>, Error> {
        let host = match (&self.tls.server_name, &self.address.place) {
            (Some(name), _) => name.clone(),
            (None, Place::Tcp { host, .. }) => host.clone(),
            (None, Place::Unix(_)) => "localhost".to_owned(),
        };
        ServerName::try_from(host).map_err(|_| Error::Tls("the server name can be in no certificate".to_owned()))
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

impl Service<http::Request<Body>> for Connection {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context).map_err(|_| NotSent.into())
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let sending = self.sender.try_send_request(request);
        Box::pin(async move {
            sending.await.map_err(|error| match error.message() {
                Some(_) => NotSent.into(),
                None => error.into_error().into(),
            })
        })
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}
