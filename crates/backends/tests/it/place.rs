//! Where a driver is in a test: in this process, or behind a server of ours that a client of ours calls over TCP.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::bytes::Bytes;
use backends::drivers::file::File;
use backends::{
    Client, ClientTls, Document, Driver, Endpoint, Failure, Pem, Server, ServerLimits, ServerTls, Serving, Target,
};
use testbed::certificates::{Authority, Pair};
use testbed::process::scratch;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener};
use tokio::sync::oneshot;

/// How long what must succeed may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A driver and how it is reached.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) driver: Arc<dyn Driver>,
    _running: Option<Running>,
}

/// A server that ends with its test.
pub(crate) struct Running {
    pub(crate) address: String,
    _stop: oneshot::Sender<()>,
}

/// The file driver, on an empty directory, by every way there is.
pub(crate) async fn all() -> Vec<Place> {
    let mut places = vec![Place { name: "direct", driver: file(), _running: None }];
    for (name, security) in [("plain", Security::Plain), ("tls", Security::Tls), ("mtls", Security::Mutual)] {
        let parts = Parts::new(security);
        let running = serve(file(), parts.server.clone(), ServerLimits::default()).await;
        let mut endpoint = Endpoint::new(running.address.clone(), backends::Mode::Value);
        endpoint.tls.clone_from(&parts.client);
        let driver = Arc::new(Client::new(&endpoint).unwrap());
        places.push(Place { name, driver, _running: Some(running) });
    }
    let running = serve(file(), None, ServerLimits::default()).await;
    let endpoint = Endpoint::new(socket(&running.address), backends::Mode::Value);
    let driver = Arc::new(Client::new(&endpoint).unwrap());
    places.push(Place { name: "unix", driver, _running: Some(running) });
    places
}

/// A socket of this machine before a server that listens on a port; its url.
fn socket(address: &str) -> String {
    let path = scratch("socket").unwrap().join("backend.sock");
    let (listener, address) = (UnixListener::bind(&path).unwrap(), address.to_owned());
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = TcpStream::connect(&address).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    format!("unix:{}", path.display())
}

/// The file driver on a directory of its own.
pub(crate) fn file() -> Arc<dyn Driver> {
    Arc::new(File::open(directory()).unwrap())
}

/// A directory that is not there yet.
pub(crate) fn directory() -> PathBuf {
    scratch("backends").unwrap().join("values")
}

/// Serves a driver on a port of loopback.
pub(crate) async fn serve(driver: Arc<dyn Driver>, tls: Option<ServerTls>, limits: ServerLimits) -> Running {
    let serving = Serving { listen: "127.0.0.1:0".parse().unwrap(), tls, limits };
    let server = Server::bind(driver, serving).await.unwrap();
    let address = server.address().to_string();
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    Running { address, _stop: stop }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    Plain,
    Tls,
    Mutual,
}

/// What both sides of a connection need.
pub(crate) struct Parts {
    pub(crate) server: Option<ServerTls>,
    pub(crate) client: Option<ClientTls>,
}

impl Parts {
    pub(crate) fn new(security: Security) -> Parts {
        if security == Security::Plain {
            return Parts { server: None, client: None };
        }
        let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
        let (certificate, key) = pems(&servers.server(&["127.0.0.1", "localhost"]));
        let mutual = security == Security::Mutual;
        let server = ServerTls { certificate, key, client_authority: mutual.then(|| pem(clients.certificate_pem())) };
        let identity = mutual.then(|| pems(&clients.client("hub", &[])));
        let client = ClientTls { authorities: Some(pem(servers.certificate_pem())), identity, server_name: None };
        Parts { server: Some(server), client: Some(client) }
    }
}

pub(crate) fn pem(text: &str) -> Pem {
    Pem::Text(text.as_bytes().to_vec())
}

pub(crate) fn pems(pair: &Pair) -> (Pem, Pem) {
    (pem(&pair.certificate_pem), pem(&pair.key_pem))
}

pub(crate) fn document(text: &str) -> Document {
    Document(Bytes::copy_from_slice(text.as_bytes()))
}

pub(crate) fn text(document: Option<Document>) -> Option<String> {
    document.map(|document| String::from_utf8(document.0.to_vec()).unwrap())
}

/// A call about a record without a context, with a key of its own.
pub(crate) fn target<'a>(id: &'a str, key: &'a str) -> Target<'a> {
    Target { id, context: None, key, within: PATIENCE }
}

/// What a failure says, without the name of the call that a client puts before it.
pub(crate) fn said(failure: &Failure) -> &str {
    match failure.text.strip_prefix("/storage_backend.") {
        Some(named) => named.split_once(": ").expect("a code and its details").1,
        None => &failure.text,
    }
}
