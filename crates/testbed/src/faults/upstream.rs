//! The way to the real peer: one HTTP/1.1 connection per request, plain or TLS.

use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, Version, header};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::certificates::Pair;

pub(super) struct Upstream {
    host: String,
    address: String,
    tls: Option<TlsConnector>,
}

impl Upstream {
    pub(super) fn new(url: &str, authority_pem: Option<&str>, presented: Option<&Pair>) -> Upstream {
        let url: Uri = url.parse().expect("an address of a peer");
        let host = url.host().expect("a host of the peer").to_owned();
        let secure = url.scheme_str() == Some("https");
        let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tls = secure.then(|| connector(authority_pem.expect("the authority of an https peer"), presented));
        Upstream { address: format!("{host}:{port}"), host, tls }
    }

    pub(super) async fn send<B>(&self, request: Request<B>) -> Result<Response<Incoming>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        let stream = TcpStream::connect(&self.address).await.context("failed to connect")?;
        match &self.tls {
            None => exchange(stream, request).await,
            Some(connector) => {
                let name = ServerName::try_from(self.host.clone())?;
                let stream = connector.connect(name, stream).await.context("failed to speak TLS")?;
                exchange(stream, request).await
            }
        }
    }
}

async fn exchange<B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    mut request: Request<B>,
) -> Result<Response<Incoming>>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
{
    // The Host that the client meant: some peers check a signature over it. HTTP/2 has it in the address.
    if let Some(authority) = request.uri().authority() {
        let host = HeaderValue::from_str(authority.as_str())?;
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse()?;
    *request.version_mut() = Version::HTTP_11;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.context("failed to speak HTTP")?;
    // Its errors come out of the answer or of its body.
    tokio::spawn(connection);
    let mut answer = sender.send_request(request).await.context("failed to get an answer")?;
    // What concerns the connection to the peer does not concern the client's.
    answer.headers_mut().remove(header::CONNECTION);
    Ok(answer)
}

fn connector(authority_pem: &str, presented: Option<&Pair>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority_pem.as_bytes()) {
        roots.add(certificate.expect("a certificate")).expect("an authority");
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match presented {
        None => config.with_no_client_auth(),
        Some(pair) => {
            let (chain, key) = der(pair);
            config.with_client_auth_cert(chain, key).expect("a pair that fits")
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config))
}

pub(super) fn acceptor(pair: &Pair) -> TlsAcceptor {
    let (chain, key) = der(pair);
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.expect("a pair that fits");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

fn der(pair: &Pair) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_slice_iter(pair.certificate_pem.as_bytes());
    let chain = chain.map(|certificate| certificate.expect("a certificate")).collect();
    let key = PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).expect("a private key");
    (chain, key)
}
