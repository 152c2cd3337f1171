//! A gRPC server for a driver.
//!
//! The door is [`Server`]. A driver is served under the service of its mode, beside gRPC's own health service. `incoming`
//! accepts connections, `calls` runs one call against the driver, `value` and `context` are the two services.
//!
//! Whoever may connect may read and change every value: beyond loopback only clients with a certificate of the named
//! authority are let in, and there is no way around it.

mod calls;
mod context;
mod incoming;
mod value;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::wire::health::health_server::HealthServer;
use crate::wire::storage_backend::context_storage_backend_server::ContextStorageBackendServer;
use crate::wire::storage_backend::value_and_context_storage_backend_server::ValueAndContextStorageBackendServer;
use crate::{Driver, Error, Mode, Pem};
use calls::Calls;
use incoming::Incoming;

/// How a connection that says nothing is found.
const PING_EVERY: Duration = Duration::from_secs(20);

/// Where a driver is served, and to whom.
#[derive(Clone, Debug)]
pub struct Serving {
    pub listen: SocketAddr,
    /// Without it: plain, on loopback only.
    pub tls: Option<ServerTls>,
    pub limits: ServerLimits,
}

impl Serving {
    /// Refuses what others could reach without showing who they are.
    pub fn check(&self) -> Result<(), Error> {
        let mutual = self.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some());
        if self.listen.ip().is_loopback() || mutual { Ok(()) } else { Err(Error::Exposed(self.listen)) }
    }
}

/// Who the server is and whose clients it lets in.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// With its intermediates.
    pub certificate: Pem,
    pub key: Pem,
    /// Clients must show a certificate that it signed.
    pub client_authority: Option<Pem>,
}

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// The longest message, either way.
    pub message_bytes: usize,
    /// Calls that run at a time; more wait.
    pub calls: usize,
    pub connections: usize,
    /// For a call whose caller sets no deadline.
    pub within: Duration,
    /// For a TLS handshake.
    pub handshake_within: Duration,
    /// How long calls under way may go on after a stop.
    pub grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            message_bytes: 32 << 20,
            calls: 64,
            connections: 256,
            within: Duration::from_secs(30),
            handshake_within: Duration::from_secs(10),
            grace: Duration::from_secs(20),
        }
    }
}

/// A server that listens; [`Server::run`] makes it answer.
pub struct Server {
    driver: Arc<dyn Driver>,
    incoming: Incoming,
    address: SocketAddr,
    limits: ServerLimits,
}

impl Server {
    /// Listens, where [`Serving::check`] lets it.
    pub async fn bind(driver: Arc<dyn Driver>, serving: Serving) -> Result<Server, Error> {
        serving.check()?;
        let Serving { listen, tls, limits } = serving;
        let failed = |source| Error::Listen { address: listen, source };
        let socket = TcpListener::bind(listen).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let incoming = Incoming::new(socket, tls, limits)?;
        Ok(Server { driver, incoming, address, limits })
    }

    /// Where it listens; the port is the one that was chosen if none was named.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` comes, then lets calls end within the grace time.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let calls = Calls::new(self.driver.clone(), self.limits);
        let bytes = self.limits.message_bytes;
        let mut builder = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(PING_EVERY))
            .http2_keepalive_timeout(Some(PING_EVERY))
            .http2_adaptive_window(Some(true));
        let health = HealthServer::new(calls.clone());
        let router = match self.driver.mode() {
            Mode::Value => {
                let service = ValueAndContextStorageBackendServer::new(calls);
                let service = service.max_decoding_message_size(bytes).max_encoding_message_size(bytes);
                builder.add_service(health).add_service(service)
            }
            Mode::Context => {
                let service = ContextStorageBackendServer::new(calls);
                let service = service.max_decoding_message_size(bytes).max_encoding_message_size(bytes);
                builder.add_service(health).add_service(service)
            }
        };
        let stopping = watch::Sender::new(false);
        let (connections, accepting) = self.incoming.start(stopping.subscribe());
        let mut stopped = stopping.subscribe();
        let serving = router.serve_with_incoming_shutdown(connections, async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        });
        let grace = async {
            stop.await;
            stopping.send_replace(true);
            tokio::time::sleep(self.limits.grace).await;
        };
        tokio::select! {
            ended = serving => if let Err(error) = ended {
                tracing::warn!(%error, "the server of a storage backend ended");
            },
            () = grace => tracing::warn!(grace = ?self.limits.grace, "cut off calls that did not end in time"),
        }
        accepting.abort();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}
