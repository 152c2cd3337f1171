//! Why a client or a server cannot even begin. What a call says when it fails is [`crate::Failure`].

use std::net::SocketAddr;
use std::path::PathBuf;

/// A wrong setting, or a place that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The url of a backend.
    #[error("url: {0}")]
    Url(String),
    /// A certificate, a key, or what they go with.
    #[error("TLS: {0}")]
    Tls(String),
    #[error(
        "listen is {0}, which others can reach, and whoever reaches it can read and change every value: give a certificate, \
         its key and the authority of the clients' certificates, or listen on 127.0.0.1"
    )]
    Exposed(SocketAddr),
    #[error("failed to listen on {address}: is another server there?")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    /// An option of a driver.
    #[error("{name}: {fault}")]
    Setting { name: &'static str, fault: String },
    #[error("failed to use the directory {path}")]
    Directory {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}
