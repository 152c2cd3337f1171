//! The real driver `file` behind the real protocol.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use backends::drivers::file::File;
use backends::{Client, Code, Driver, Failure, Server, ServerLimits, Serving};
use hub::{Connect, Encoding, Endpoint};

/// Calls backends over the network.
#[derive(Debug)]
pub(crate) struct Grpc;

impl Connect for Grpc {
    fn connect(&self, endpoint: &Endpoint) -> Result<Arc<dyn Driver>, Failure> {
        let encoding = match endpoint.encoding {
            Encoding::Json => backends::Encoding::Strict,
            Encoding::Legacy => backends::Encoding::Legacy,
        };
        let endpoint = backends::Endpoint { encoding, ..backends::Endpoint::new(&endpoint.url, endpoint.mode) };
        let client = Client::new(&endpoint).map_err(|error| Failure::new(Code::InvalidArgument, error.to_string()))?;
        Ok(Arc::new(client))
    }
}

/// Serves a directory for as long as the test runs; tells where.
pub(crate) async fn serve(directory: &Path) -> SocketAddr {
    let driver = Arc::new(File::open(directory).unwrap());
    let serving = Serving { listen: ([127, 0, 0, 1], 0).into(), tls: None, limits: ServerLimits::default() };
    let server = Server::bind(driver, serving).await.unwrap();
    let address = server.address();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// The ids of the records in such a directory.
pub(crate) fn ids(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut ids: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    ids.sort_unstable();
    ids
}
