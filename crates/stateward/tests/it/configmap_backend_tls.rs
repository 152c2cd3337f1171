//! `stateward configmap-backend`: the flags about TLS, client certificates and front proxies.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use serde_json::{Value, json};
use testbed::certificates::{Authority, Pair};
use testbed::process::scratch;
use testbed::{Cluster, Scope, eventually, rule, subject};

use crate::backend::{Backend, EVERYTHING, Launch, NAME};
use crate::compat::somebody;
use crate::server::{PATIENCE, status};
use crate::tls::{Files, der};

/// A TLS session with a backend, as a client that trusts this authority makes it.
fn session(
    backend: &Backend,
    authority_pem: &str,
    name: &str,
    versions: &[&'static SupportedProtocolVersion],
    provider: CryptoProvider,
) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(der(authority_pem)).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(backend.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(session, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).map_err(|error| error.to_string())?;
    }
    Ok(stream)
}

fn usual() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}

const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

fn shown(backend: &Backend, authority: &Authority, name: &str) -> Option<Vec<u8>> {
    let stream = session(backend, authority.certificate_pem(), name, BOTH, usual()).ok()?;
    Some(stream.conn.peer_certificates()?[0].to_vec())
}

async fn with(files: &Files) -> Launch {
    Launch::new().await.flag("--tls-cert-file", files.cert()).flag("--tls-private-key-file", files.key())
}

#[tokio::test]
async fn a_pair_is_made_in_the_directory_or_found_there() {
    let backend = Launch::new().await.flag("--cert-dir", "certs").start();
    let (cert, key) = (format!("certs/{NAME}.crt"), format!("certs/{NAME}.key"));
    let (cert, key) = (backend.directory.join(cert), backend.directory.join(key));
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let made = fs::read_to_string(&cert).unwrap();
    for name in ["localhost", "127.0.0.1"] {
        session(&backend, &made, name, BOTH, usual()).expect("a certificate for this machine");
    }
    drop(backend);
    // The next start finds it, and so it does one of somebody else, which it leaves as it is.
    let directory = cert.parent().unwrap();
    drop(Launch::new().await.flag("--cert-dir", directory).start());
    assert_eq!(fs::read_to_string(&cert).unwrap(), made);
    let authority = Authority::new("theirs");
    let pair = authority.server(&["theirs.test"]);
    fs::write(&cert, &pair.certificate_pem).unwrap();
    fs::write(&key, &pair.key_pem).unwrap();
    let backend = Launch::new().await.flag("--cert-dir", directory).start();
    assert_eq!(shown(&backend, &authority, "theirs.test").unwrap(), der(&pair.certificate_pem).to_vec());
    fs::remove_file(&key).unwrap();
    let (_, log) = Launch::new().await.flag("--cert-dir", directory).fails();
    assert!(log.contains("has only one of"), "{log}");
}

#[tokio::test]
async fn given_files_are_served_and_followed() {
    let authority = Authority::new("files");
    let files = Files::new(&authority.server(&["backend.test"]));
    let backend = with(&files).await.flag("--cert-dir", "unused").start();
    assert!(shown(&backend, &authority, "backend.test").is_some());
    assert!(!backend.directory.join("unused").exists());
    let new = authority.server(&["backend.test"]);
    files.replace(&new);
    let wanted = der(&new.certificate_pem).to_vec();
    eventually(PATIENCE, || async { shown(&backend, &authority, "backend.test").as_ref() == Some(&wanted) }).await;
}

#[tokio::test]
async fn names_choose_a_pair_exact_before_pattern_given_before_found() {
    let authority = Authority::new("names");
    let names = ["a.foo.test", "*.foo.test", "*.*.test", "x.y.test", "found.test", "default.test"];
    let pairs: Vec<Pair> = (0..5).map(|_| authority.server(&names)).collect();
    let files: Vec<Files> = pairs.iter().map(Files::new).collect();
    let pair = |index: usize, names: &str| {
        let files: &Files = &files[index];
        format!("{},{}{names}", files.cert().display(), files.key().display())
    };
    let found = authority.server(&["found.test", "a.foo.test", "b.foo.test"]);
    let found_files = Files::new(&found);
    let launch = with(&files[0])
        .await
        .flag("--tls-sni-cert-key", pair(1, ":*.*.test"))
        .flag("--tls-sni-cert-key", pair(2, ":*.foo.test"))
        .flag("--tls-sni-cert-key", format!("{},{}", found_files.cert().display(), found_files.key().display()))
        .flag("--tls-sni-cert-key", pair(3, ":a.foo.test,other.test"));
    let backend = launch.start();
    let cases = [
        ("a.foo.test", &pairs[3], "an exact name that was given"),
        ("b.foo.test", &found, "an exact name of a certificate before a pattern"),
        ("c.foo.test", &pairs[2], "the pattern with the fewest wildcards"),
        ("x.y.test", &pairs[1], "a pattern with two wildcards"),
        ("found.test", &found, "a name of a certificate"),
        ("default.test", &pairs[0], "nobody's name"),
    ];
    for (name, pair, why) in cases {
        assert_eq!(shown(&backend, &authority, name), Some(der(&pair.certificate_pem).to_vec()), "{name}: {why}");
    }
}

#[tokio::test]
async fn old_versions_are_raised_with_a_warning() {
    let authority = Authority::new("versions");
    let files = Files::new(&authority.server(&["backend.test"]));
    for (flag, tls12, warns) in [
        ("VersionTLS10", true, true),
        ("VersionTLS11", true, true),
        ("VersionTLS12", true, false),
        ("VersionTLS13", false, false),
    ] {
        let backend = with(&files).await.flag("--tls-min-version", flag).start();
        let by = |version| session(&backend, authority.certificate_pem(), "backend.test", &[version], usual());
        assert!(by(&rustls::version::TLS13).is_ok(), "{flag}");
        assert_eq!(by(&rustls::version::TLS12).is_ok(), tls12, "{flag}");
        assert_eq!(backend.process.log().contains("this version of TLS is not safe"), warns, "{flag}");
    }
}

#[tokio::test]
async fn cipher_suites_are_chosen_and_unsafe_ones_left_out() {
    let authority = Authority::new("suites");
    let files = Files::new(&authority.server(&["backend.test"]));
    let list = "TLS_RSA_WITH_RC4_128_SHA,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
    let launch = with(&files).await.flag("--tls-cipher-suites", list);
    let backend = launch.flag("--tls-cipher-suites", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA").start();
    let log = backend.process.log();
    for suite in ["TLS_RSA_WITH_RC4_128_SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"] {
        assert!(log.lines().any(|line| line.contains("left out") && line.contains(suite)), "{suite}: {log}");
    }
    let by = |suite: rustls::CipherSuite, version| {
        let mut provider = usual();
        provider.cipher_suites.retain(|known| known.suite() == suite);
        session(&backend, authority.certificate_pem(), "backend.test", &[version], provider).is_ok()
    };
    assert!(by(rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, &rustls::version::TLS12));
    assert!(!by(rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, &rustls::version::TLS12));
    assert!(by(rustls::CipherSuite::TLS13_AES_128_GCM_SHA256, &rustls::version::TLS13), "TLS 1.3 is not chosen about");
}

#[tokio::test]
async fn a_connection_has_as_many_streams_as_it_is_told() {
    for (flag, expected) in [("7", 7), ("0", 250)] {
        let backend = Launch::new().await.flag("--http2-max-streams-per-connection", flag).start();
        let pem = fs::read_to_string(backend.certificate()).unwrap();
        let mut stream = session(&backend, &pem, "localhost", BOTH, usual()).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head[3], 4, "the first frame is SETTINGS");
        let mut settings = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut settings).unwrap();
        let streams = settings.chunks_exact(6).find(|entry| entry[..2] == [0, 3]).expect("a limit of streams");
        assert_eq!(u32::from_be_bytes(streams[2..].try_into().unwrap()), expected);
    }
}

fn written(directory: &Path, name: &str, authority: &Authority) -> PathBuf {
    let file = directory.join(name);
    fs::write(&file, authority.certificate_pem()).unwrap();
    file
}

fn by(backend: &Backend, pair: &Pair) -> reqwest::Client {
    let pem = format!("{}{}", pair.certificate_pem, pair.key_pem);
    let identity = reqwest::Identity::from_pem(pem.as_bytes()).unwrap();
    backend.client_builder().identity(identity).build().unwrap()
}

#[tokio::test]
async fn a_client_certificate_is_its_common_name() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("client-ca").await;
    let subjects = [subject::user("carol-of-ours"), subject::group("team-of-ours")];
    cluster.grant(Scope::Namespace(&namespace), &subjects, &[rule(EVERYTHING, &[""], &["configmaps"])]).await;
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let directory = scratch("client-ca").unwrap();
    let backend = Launch::new().await.flag("--client-ca-file", written(&directory, "ca.crt", &ours)).start();
    let get =
        async |pair: &Pair| status(backend.request_by(&by(&backend, pair), "GET", &format!("/{namespace}/app"))).await;
    assert_eq!(get(&ours.client("carol-of-ours", &[])).await, 200);
    assert_eq!(get(&ours.client("somebody", &["team-of-ours"])).await, 200);
    assert_eq!(get(&ours.client("somebody", &[])).await, 403);
    assert_eq!(get(&ours.client("boss", &["system:masters"])).await, 200, "as in Kubernetes");
    assert_eq!(get(&other.client("carol-of-ours", &[])).await, 401);
    let jane = cluster.client_ca().client("carol-of-ours", &[]);
    assert_eq!(get(&jane).await, 401, "the cluster's own authority counts only where no file is given");
}

/// Passes requests on to the API server and remembers the bodies of access reviews.
async fn recording(cluster: &'static Cluster) -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let root = reqwest::Certificate::from_pem(cluster.client_ca().certificate_pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([root]).build().unwrap();
    let reviews = Arc::new(Mutex::new(Vec::new()));
    let seen = reviews.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (client, seen) = (client.clone(), seen.clone());
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let (client, seen) = (client.clone(), seen.clone());
                async move {
                    let (mut parts, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    if parts.uri.path().ends_with("subjectaccessreviews") {
                        seen.lock().unwrap().push(serde_json::from_slice(&body).unwrap_or(Value::Null));
                    }
                    let url = format!("{}{}", cluster.url(), parts.uri);
                    parts.headers.remove("host");
                    let answer = client.request(parts.method, url).headers(parts.headers).body(body).send().await;
                    let answer = answer.expect("the API server answers");
                    let response = hyper::Response::builder().status(answer.status());
                    let response = response.header("content-type", "application/json");
                    let body = answer.bytes().await.expect("a whole answer");
                    Ok::<_, hyper::Error>(response.body(Full::<Bytes>::new(body)).expect("a response"))
                }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (url, reviews)
}

#[tokio::test]
async fn a_front_proxy_says_who_is_calling_in_the_headers_it_is_told() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("front-proxy").await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    let may = [rule(EVERYTHING, &[""], &["configmaps"])];
    let subjects = [subject::user("dora-of-proxy"), subject::group("proxied")];
    cluster.grant(Scope::Namespace(&namespace), &subjects, &may).await;
    let proxies = Authority::new("proxies");
    let directory = scratch("front-proxy").unwrap();
    let ca = written(&directory, "proxies.crt", &proxies);
    let (recorder, reviews) = recording(cluster).await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let through = delegator.kubeconfig.clone().with_server(&recorder).write();
    let path = format!("/{namespace}/app");

    // The usual headers, and any name.
    let usual = Launch::new().await.flag("--requestheader-client-ca-file", &ca).start();
    let get = async |backend: &Backend, pair: &Pair, headers: &[(&str, &str)]| {
        let request = backend.request_by(&by(backend, pair), "GET", &path);
        status(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
    };
    let proxy = proxies.client("gateway", &[]);
    assert_eq!(get(&usual, &proxy, &[("X-Remote-User", "dora-of-proxy")]).await, 200);
    assert_eq!(get(&usual, &proxy, &[("X-Remote-User", "eve"), ("X-Remote-Group", "proxied")]).await, 200);
    assert_eq!(get(&usual, &proxy, &[("X-Remote-User", "eve")]).await, 403);
    assert_eq!(get(&usual, &proxy, &[]).await, 401);
    let stranger = Authority::new("others").client("gateway", &[]);
    assert_eq!(get(&usual, &stranger, &[("X-Remote-User", "dora-of-proxy")]).await, 401);

    // All five flags.
    let chosen = Launch::new()
        .await
        .flag("--authorization-kubeconfig", &through)
        .flag("--requestheader-client-ca-file", &ca)
        .flag("--requestheader-allowed-names", "gateway,other-gateway")
        .flag("--requestheader-username-headers", "X-Who,X-Whom")
        .flag("--requestheader-group-headers", "X-Team")
        .flag("--requestheader-extra-headers-prefix", "X-More-")
        .start();
    assert_eq!(get(&chosen, &proxy, &[("X-Who", "dora-of-proxy"), ("X-More-Project", "blue")]).await, 200);
    let spec = reviews.lock().unwrap().last().expect("a review")["spec"].clone();
    assert_eq!((&spec["user"], &spec["extra"]), (&json!("dora-of-proxy"), &json!({"project": ["blue"]})));
    assert_eq!(get(&chosen, &proxy, &[("X-Whom", "eve"), ("X-Team", "proxied")]).await, 200);
    assert_eq!(get(&chosen, &proxy, &[("X-Whom", "eve"), ("X-Remote-Group", "proxied")]).await, 403);
    assert_eq!(get(&chosen, &proxy, &[("X-Remote-User", "dora-of-proxy")]).await, 401);
    let unnamed = proxies.client("nobodys-gateway", &[]);
    assert_eq!(get(&chosen, &unnamed, &[("X-Who", "dora-of-proxy")]).await, 401);
    let by_token = chosen.request("GET", &path).basic_auth("x", Some(&token));
    assert_eq!(status(by_token).await, 200, "tokens count as ever");
}
