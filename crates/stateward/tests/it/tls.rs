//! TLS: certificates replaced under load, names, versions, protocols, methods.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use testbed::certificates::{Authority, Pair};
use testbed::process::scratch;
use testbed::scale;

use crate::run::{Run, stateward};
use crate::server::{PATIENCE, Server, Start, answer};

/// Files of a pair in a directory of their own, replaced as an operator or a kubelet would.
pub(crate) struct Files {
    directory: PathBuf,
}

impl Files {
    pub(crate) fn new(pair: &Pair) -> Files {
        let files = Files { directory: scratch("tls").unwrap() };
        files.replace(pair);
        files
    }

    pub(crate) fn cert(&self) -> PathBuf {
        self.directory.join("tls.crt")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.directory.join("tls.key")
    }

    /// One file after the other: for a moment they do not fit.
    pub(crate) fn replace(&self, pair: &Pair) {
        for (path, pem) in [(self.cert(), &pair.certificate_pem), (self.key(), &pair.key_pem)] {
            let new = path.with_extension("new");
            fs::write(&new, pem).unwrap();
            fs::rename(&new, &path).unwrap();
        }
    }
}

fn serve(files: &Files) -> Start {
    Start::new().flag("--tls-cert-file", files.cert()).flag("--tls-key-file", files.key())
}

fn client(authority: &Authority) -> reqwest::ClientBuilder {
    let root = reqwest::Certificate::from_pem(authority.certificate_pem().as_bytes()).unwrap();
    reqwest::Client::builder().timeout(PATIENCE).no_proxy().tls_certs_only([root])
}

pub(crate) fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// The certificate that a new connection is shown, and the connection.
fn shown(server: &Server, authority: &Authority, name: &str) -> Result<CertificateDer<'static>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    handshake(server, config, authority, name)
}

fn handshake(
    server: &Server,
    builder: rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>,
    authority: &Authority,
    name: &str,
) -> Result<CertificateDer<'static>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(der(authority.certificate_pem())).unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    Ok(session.peer_certificates().unwrap()[0].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_replaced_under_load_fails_no_request() {
    let authority = Authority::new("tls");
    let pair = || authority.server(&["localhost", "127.0.0.1"]);
    let files = Files::new(&pair());
    let server = serve(&files).flag("--log-level", "info,stateward::serve::tls=debug").serve();
    let url = format!("{}/healthz", server.url);
    let (stop, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut load = tokio::task::JoinSet::new();
    for kept in [true, true, false, false] {
        let (stop, requests, url) = (stop.clone(), requests.clone(), url.clone());
        // Half of them keep their connection, half make a new one for each request.
        let pool = if kept { 8 } else { 0 };
        let client = client(&authority).pool_max_idle_per_host(pool).build().unwrap();
        load.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let response = client.get(&url).send().await.expect("no request fails");
                assert_eq!(response.status().as_u16(), 200);
                response.bytes().await.expect("a whole answer");
                requests.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    // A connection that was there before lives through all of it.
    let old = client(&authority).http2_prior_knowledge().build().unwrap();
    assert_eq!(old.get(&url).send().await.unwrap().status().as_u16(), 200);
    for _ in 0..scale().of(2, 10) {
        let new = pair();
        files.replace(&new);
        let wanted = der(&new.certificate_pem);
        testbed::eventually(PATIENCE, || async { shown(&server, &authority, "localhost").unwrap() == wanted }).await;
        assert_eq!(old.get(&url).send().await.unwrap().status().as_u16(), 200);
    }
    // Rubbish leaves the last good pair.
    fs::write(files.cert(), "rubbish").unwrap();
    let noticed = || async { server.process.log().contains("holds no PEM certificate") };
    testbed::eventually(PATIENCE, noticed).await;
    let before = requests.load(Ordering::Relaxed);
    let more = || async { requests.load(Ordering::Relaxed) > before + 50 };
    testbed::eventually(PATIENCE, more).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = load.join_next().await {
        ended.expect("no request failed");
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_warned_about() {
    let authority = Authority::new("tls");
    let files = Files::new(&authority.server(&["localhost"]));
    let server = serve(&files).serve();
    fs::write(files.cert(), "rubbish").unwrap();
    let warned = || async {
        let log = server.process.log();
        log.lines().any(|line| line.contains("WARN") && line.contains("holds no PEM certificate"))
    };
    testbed::eventually(PATIENCE, warned).await;
    files.replace(&authority.server(&["localhost"]));
    testbed::eventually(PATIENCE, || async { server.process.log().contains("took a new certificate") }).await;
}

#[test]
fn old_protocol_versions_are_refused() {
    let authority = Authority::new("tls");
    let files = Files::new(&authority.server(&["localhost"]));
    let provider = || Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let with = |server: &Server, version| {
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[version]).unwrap();
        handshake(server, builder, &authority, "localhost")
    };
    let usual = serve(&files).serve();
    assert!(with(&usual, &rustls::version::TLS12).is_ok());
    assert!(with(&usual, &rustls::version::TLS13).is_ok());
    let strict = serve(&files).flag("--tls-min-version", "1.3").serve();
    assert!(with(&strict, &rustls::version::TLS13).is_ok());
    let refused = with(&strict, &rustls::version::TLS12).unwrap_err();
    assert!(refused.contains("ProtocolVersion"), "{refused}");
    for version in [[3, 0], [3, 1], [3, 2]] {
        // protocol_version, or handshake_failure where nothing at all is in common.
        assert!(matches!(alert_for(&usual, version), Some(70 | 40)), "{version:?}");
    }
}

/// Says hello as a client that knows nothing newer than `version`; the alert that comes back.
fn alert_for(server: &Server, version: [u8; 2]) -> Option<u8> {
    let mut hello = version.to_vec();
    hello.extend([7; 32]);
    hello.push(0);
    // TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, TLS_RSA_WITH_AES_128_CBC_SHA; no compression; no extensions.
    hello.extend([0, 4, 0xc0, 0x09, 0, 0x2f, 1, 0]);
    let length = u8::try_from(hello.len()).unwrap();
    let mut record = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(hello);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&record).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    match answer.as_slice() {
        [21, _, _, 0, 2, _level, description, ..] => Some(*description),
        _ => None,
    }
}

#[tokio::test]
async fn both_protocols_take_every_method() {
    let authority = Authority::new("tls");
    let files = Files::new(&authority.server(&["127.0.0.1"]));
    let server = serve(&files).serve();
    let token = server.first_token();
    let clients = [
        (client(&authority).http1_only(), "HTTP/1.1"),
        (client(&authority).http2_prior_knowledge(), "HTTP/2.0"),
        (client(&authority), "HTTP/2.0"),
    ];
    for (round, (builder, version)) in clients.into_iter().enumerate() {
        let client = builder.build().unwrap();
        let path = format!("/probe/protocols/round-{round}");
        let send = |method: &str, body: &'static str| {
            server.request_by(&client, method, &path).basic_auth("terraform", Some(&token)).body(body)
        };
        let response = send("LOCK", "{}").send().await.unwrap();
        assert_eq!(format!("{:?}", response.version()), version);
        assert_eq!(response.text().await.unwrap(), "locked");
        assert_eq!(answer(send("LOCK", "{}")).await.0, 423);
        assert_eq!(answer(send("POST", "state")).await, (200, "written".to_owned()));
        assert_eq!(answer(send("GET", "")).await, (200, "state".to_owned()));
        assert_eq!(answer(send("UNLOCK", "{}")).await, (200, "unlocked".to_owned()));
        assert_eq!(answer(send("LOCK", "")).await, (200, "locked".to_owned()));
        assert_eq!(answer(send("MKCOL", "")).await.0, 405);
    }
}

#[test]
fn each_server_name_gets_its_certificate() {
    let authority = Authority::new("tls");
    let default = authority.server(&["localhost", "unknown.test"]);
    let own = authority.server(&["a.test", "*.b.test"]);
    let named = authority.server(&["c.test", "d.test"]);
    let files = [Files::new(&default), Files::new(&own), Files::new(&named)];
    let pair = |files: &Files, names: &str| format!("{}:{}{names}", files.cert().display(), files.key().display());
    let start = serve(&files[0]).flag("--tls-sni", pair(&files[1], "")).flag("--tls-sni", pair(&files[2], ":c.test"));
    let server = start.serve();
    let cases = [
        ("localhost", Ok(&default)),
        ("a.test", Ok(&own)),
        ("A.TEST", Ok(&own)),
        ("x.b.test", Ok(&own)),
        ("c.test", Ok(&named)),
        // In the certificate, but not among the names that the pair was given.
        ("d.test", Err(())),
        ("b.test", Err(())),
        ("x.y.b.test", Err(())),
        ("unknown.test", Ok(&default)),
    ];
    for (name, expected) in cases {
        let found = shown(&server, &authority, name);
        match expected {
            Ok(pair) => assert_eq!(found.unwrap(), der(&pair.certificate_pem), "{name}"),
            Err(()) => assert!(
                found.as_ref().is_err_and(|error| error.contains("not valid for name")),
                "{name} gets the default: {found:?}"
            ),
        }
    }
    let new = authority.server(&["a.test"]);
    files[1].replace(&new);
    let wanted = der(&new.certificate_pem);
    for _ in 0..600 {
        if shown(&server, &authority, "a.test").is_ok_and(|found| found == wanted) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the pair of a.test was not reloaded");
}

#[tokio::test]
async fn a_self_signed_certificate_is_made_once_and_kept() {
    let server = Start::new().tls().flag("--tls-self-signed-names", "stateward.test").serve();
    let file = server.data.join("tls/self-signed.crt");
    let first = fs::read(&file).unwrap();
    assert_eq!(answer(server.request("GET", "/healthz")).await.0, 200);
    let mode =
        |path: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777;
    assert_eq!(mode(&server.data.join("tls/self-signed.key")), 0o600);
    let data = server.data.clone();
    drop(server);
    let start = || Start::on(data.clone()).tls();
    drop(start().flag("--tls-self-signed-names", "stateward.test").serve());
    assert_eq!(fs::read(&file).unwrap(), first, "the same names keep it");
    drop(start().serve());
    assert_ne!(fs::read(&file).unwrap(), first, "other names need another");
}

#[test]
fn a_client_that_speaks_to_it_without_tls_is_told_so() {
    let server = Start::new().tls().serve();
    let address = format!("http://{}", server.address());
    let run = Run::of(stateward(&["token", "list", "--server", &address]).env("STATEWARD_TOKEN", server.first_token()));
    run.fails(6, "https:// address");
}

#[test]
fn halves_that_do_not_fit_are_refused_at_the_start() {
    let authority = Authority::new("tls");
    let files = Files::new(&authority.server(&["localhost"]));
    fs::write(files.key(), authority.server(&["localhost"]).key_pem).unwrap();
    let mut process = serve(&files).spawn();
    assert!(!process.wait(PATIENCE).unwrap().success());
    assert!(process.log().contains("is not of the certificate in"), "{}", process.log());
}
