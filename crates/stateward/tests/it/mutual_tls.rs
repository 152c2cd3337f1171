//! The client over TLS: which servers it trusts, and client certificates from a kubeconfig.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::run::{Run, stateward};

/// A CA that signs the server and its clients.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Authority { pem: certificate.pem(), der: certificate.der().clone(), issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

/// Answers each connection with an empty list and notes the certificate that the client showed.
struct Server {
    address: SocketAddr,
    shown: Arc<Mutex<Vec<Option<CertificateDer<'static>>>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start(authority: &Authority) -> Server {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (certificate, key) = authority.sign("server");
        let mut roots = RootCertStore::empty();
        roots.add(authority.der.clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build().unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder().with_client_cert_verifier(verifier);
        let config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));

        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let notes = shown.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                // The request is read, so that closing does not reset the connection under the answer.
                let _ = stream.read(&mut [0; 4096]).await;
                let certificate = stream.get_ref().1.peer_certificates().map(|chain| chain[0].clone().into_owned());
                notes.lock().unwrap().push(certificate);
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 12\r\nconnection: close\r\n\r\n{\"items\":[]}";
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Server { address, shown, _runtime: runtime }
    }

    fn list(&self, arguments: &[&str]) -> Run {
        let url = format!("https://{}", self.address);
        Run::of(stateward(&["token", "list", "--server", &url]).args(arguments))
    }
}

fn kubeconfig(directory: &Path, user: &Value) -> PathBuf {
    let path = directory.join("kubeconfig");
    let config = json!({
        "current-context": "one",
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [{ "name": "u", "user": user }],
        "contexts": [{ "name": "one", "context": { "cluster": "c", "user": "u" } }],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

#[test]
fn a_server_is_trusted_by_the_ca_file_only() {
    let authority = Authority::new();
    let server = Server::start(&authority);
    let directory = tempfile::tempdir().unwrap();
    let (ours, other) = (directory.path().join("ca.pem"), directory.path().join("other.pem"));
    std::fs::write(&ours, &authority.pem).unwrap();
    std::fs::write(&other, Authority::new().pem).unwrap();

    server.list(&["--ca-file", ours.to_str().unwrap()]).ok();
    server.list(&["--ca-file", other.to_str().unwrap()]).fails(6, "hint: give the CA of the server with --ca-file");
    server.list(&[]).fails(6, "hint: give the CA of the server with --ca-file");
    server.list(&["--ca-file", "/nowhere/ca.pem"]).fails(2, "/nowhere/ca.pem");
    assert_eq!(*server.shown.lock().unwrap(), [None], "only the trusted run got as far as a request");
}

#[test]
fn the_certificate_of_a_kubeconfig_is_shown_to_the_server() {
    let authority = Authority::new();
    let (certificate, key) = authority.sign("alice");
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ca = write("ca.pem", &authority.pem);
    let (cert_file, key_file) = (write("client.pem", &certificate.pem()), write("client.key", &key.serialize_pem()));
    let credential = json!({ "kind": "ExecCredential",
        "status": { "clientCertificateData": certificate.pem(), "clientKeyData": key.serialize_pem() } });
    let credential = write("credential.json", &credential.to_string());

    let users = [
        json!({ "client-certificate": cert_file, "client-key": key_file }),
        json!({ "client-certificate": "client.pem", "client-key": "client.key" }),
        json!({ "client-certificate-data": BASE64_STANDARD.encode(certificate.pem()),
                "client-key-data": BASE64_STANDARD.encode(key.serialize_pem()) }),
        json!({ "exec": { "command": "cat", "args": [credential], "interactiveMode": "Never" } }),
    ];
    for user in users {
        let server = Server::start(&authority);
        let path = kubeconfig(directory.path(), &user);
        server.list(&["--ca-file", ca.to_str().unwrap(), "--kubeconfig", path.to_str().unwrap()]).ok();
        assert_eq!(*server.shown.lock().unwrap(), [Some(certificate.der().clone())], "{user}");
    }
}
