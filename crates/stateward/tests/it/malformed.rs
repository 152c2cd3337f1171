//! Requests that no client should send: none may cause a panic, a 5xx or a server that is not ready any more.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use testbed::{scale, seed};

use crate::server::{PATIENCE, Server, Start, status};

const METHODS: &[&str] = &[
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "LOCK",
    "UNLOCK",
    "HEAD",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
    "PRI",
    "get",
    "",
    "G E T",
    "\u{0}",
    "LÖCK",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
];
/// `LONG` stands for a name that is too long for anything.
const PATHS: &[&str] = &[
    "/",
    "/healthz",
    "/readyz",
    "/readyz?verbose",
    "/metrics",
    "/api/v1/tokens",
    "/api/v1/tokens/x",
    "/probe/a/b",
    "/api/v1/tokens/%00",
    "/api/v1/tokens/LONG",
    "/api/v1/tokens/a%00b",
    "/state/a/%00",
    "/state/%00/a",
    "/api/states/%00",
    "/api/states/a/%00/versions",
    "/api/states?namespace=%00",
    "/v1/clusters/%00",
    "/v1/objects/%00",
    "/v1/suggest?field=%00&prefix=%00",
    "/v1/who-can-see?id=%00",
    "/explore?q=%00",
    "/graphql",
    "/probe/a/b/c",
    "/probe//b",
    "/probe/%00/b",
    "/probe/%ff%fe/b",
    "/probe/%/b",
    "/probe/a/%2e%2e",
    "/../../etc/passwd",
    "/probe/A/b",
    "/probe/a/B_",
    "*",
    "http://evil.example/",
    "//",
    "/%",
    "/?%zz",
    "/probe/ä/ö",
    "",
    "/probe/a/b?x=\u{1}",
];
const VERSIONS: &[&str] = &["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "http/1.1", "HTP/1.1", "", "HTTP/1.1 x"];
const HEADERS: &[&str] = &[
    "Host: localhost",
    "Host: localhost\r\nHost: other",
    "Host:",
    "Host: [::1",
    "Host: a b",
    "Content-Length: 5",
    "Content-Length: -1",
    "Content-Length: 99999999999999999999999",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: abc",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: gzip",
    "Transfer-Encoding: chunked\r\nContent-Length: 3",
    "Expect: 100-continue",
    "Expect: nonsense",
    "Connection: close",
    "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: !!",
    "Upgrade: websocket",
    "Content-Type: \u{7f}",
    "Authorization: Basic",
    "Authorization: Basic ====",
    "Authorization: Bearer",
    "Authorization: Bearer \u{fffd}",
    "Authorization: Digest x",
    ": no name",
    "No colon",
    "Spaced : x",
    "X-\u{e9}: x",
    "X-Null: a\u{0}b",
    " Folded: x",
    "Range: bytes=9-1",
    "X-Request-Id: ' OR 1=1",
    "X-Remote-User: admin",
    "Accept-Encoding: *;q=nope",
    "Cookie: ;;;===",
];
const BODIES: &[&str] = &[
    "",
    "{}",
    "{",
    "null",
    "[1,2",
    "\"\\ud800\"",
    "5\r\nhello\r\n0\r\n\r\n",
    "zz\r\nhello\r\n",
    "5\r\nhel",
    "ffffffffffffffff\r\nx",
    "-1\r\n\r\n",
    "0\r\nTrailer: \u{0}\r\n\r\n",
    "5;ext=\"\r\nhello\r\n0\r\n\r\n",
    "{\"name\":{}}",
    "{\"name\":\"\u{0}\"}",
    "{\"grants\":[[]]}",
];

static LONG: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| "a".repeat(3000));

/// One request, put together from parts that are each wrong in their own way, sometimes cut, sometimes with noise.
fn request(rng: &mut Rng, token: &str) -> Vec<u8> {
    if rng.u8(..) < 16 {
        // An h2 preface and then whatever.
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        for _ in 0..rng.usize(0..6) {
            let length = rng.usize(0..40);
            bytes.extend([0, 0, u8::try_from(length).unwrap(), rng.u8(0..12), rng.u8(..), 0, 0, 0, rng.u8(..)]);
            bytes.extend((0..length).map(|_| rng.u8(..)));
        }
        return bytes;
    }
    let pick = |rng: &mut Rng, list: &[&'static str]| list[rng.usize(..list.len())];
    // Mostly one part is wrong: a request that is wrong everywhere gets no further than the first line.
    let mut part = |list: &'static [&'static str], good: usize| {
        let list = if rng.u8(..) < 180 { &list[..good] } else { list };
        list[rng.usize(..list.len())]
    };
    let mut text = format!("{} {} {}\r\n", part(METHODS, 6), part(PATHS, 8), part(VERSIONS, 1));
    if rng.bool() {
        text.push_str("Host: localhost\r\n");
    }
    if rng.bool() {
        text.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    for _ in 0..rng.usize(0..4) {
        text.push_str(pick(rng, HEADERS));
        text.push_str("\r\n");
    }
    if rng.u8(..) < 4 {
        text.push_str(&format!("X-Long: {}\r\n", "x".repeat(100_000)));
    }
    if rng.u8(..) < 4 {
        text.push_str(&"X-Many: x\r\n".repeat(500));
    }
    text.push_str("\r\n");
    text.push_str(pick(rng, BODIES));
    let mut bytes = text.replace("LONG", &LONG).into_bytes();
    if rng.u8(..) < 40 {
        bytes.truncate(rng.usize(..=bytes.len()));
    }
    if rng.u8(..) < 40 {
        let at = rng.usize(..=bytes.len());
        let noise: Vec<u8> = (0..rng.usize(1..9)).map(|_| rng.u8(..)).collect();
        bytes.splice(at..at, noise);
    }
    bytes
}

/// Sends bytes and gives back whatever comes until the server hangs up or has nothing more to say.
fn exchange(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The server may answer and hang up before everything is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// A request as HTTP/2 carries it, wrong in its path, method, headers or body only: frames of noise hardly ever make one.
fn h2_request(rng: &mut Rng, token: &str) -> Option<http::Request<Full<Bytes>>> {
    let pick = |rng: &mut Rng, list: &[&'static str]| list[rng.usize(..list.len())];
    let path = pick(rng, PATHS).replace("LONG", &LONG);
    let mut request = http::Request::builder().method(pick(rng, METHODS)).uri(format!("http://localhost{path}"));
    if rng.u8(..) < 200 {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    for _ in 0..rng.usize(0..3) {
        // What cannot be a header there is left out.
        let header = pick(rng, HEADERS).split_once(": ");
        if let Some((name, value)) = header.filter(|(name, _)| name.parse::<http::HeaderName>().is_ok())
            && let Ok(value) = http::HeaderValue::from_bytes(value.as_bytes())
        {
            request = request.header(name, value);
        }
    }
    request.body(Full::from(pick(rng, BODIES))).ok()
}

/// The status of a request over HTTP/2; none if the stream or the connection ended without one.
async fn exchange_h2(server: &Server, request: http::Request<Full<Bytes>>) -> Option<u16> {
    let stream = tokio::net::TcpStream::connect(server.address()).await.expect("a connection");
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("a handshake");
    let connection = tokio::spawn(connection);
    let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.expect("an end within a minute");
    connection.abort();
    Some(answer.ok()?.status().as_u16())
}

#[tokio::test]
async fn malformed_requests_over_h2_cause_no_panic_and_no_5xx() {
    let mut rng = Rng::with_seed(seed("malformed h2"));
    let server = Start::new().serve();
    let token = server.first_token();
    let mut statuses = std::collections::BTreeMap::<Option<u16>, usize>::new();
    // Each path once as it is, then whatever comes together.
    let plain = PATHS.iter().flat_map(|path| ["GET", "DELETE"].map(|method| (method, path.replace("LONG", &LONG))));
    let plain = plain.filter_map(|(method, path)| {
        let request = http::Request::builder().method(method).uri(format!("http://localhost{path}"));
        request.header("authorization", format!("Bearer {token}")).body(Full::default()).ok()
    });
    let wild = (0..scale().of(500, 5_000)).filter_map(|_| h2_request(&mut rng, &token));
    for request in plain.collect::<Vec<_>>().into_iter().chain(wild) {
        let shown = format!("{request:?}");
        let status = exchange_h2(&server, request).await;
        *statuses.entry(status).or_default() += 1;
        assert!(status.is_none_or(|status| (100..500).contains(&status)), "{status:?}: {shown}");
    }
    let answered = |wanted: fn(u16) -> bool| statuses.keys().any(|status| status.is_some_and(wanted));
    assert!(answered(|status| status == 200) && answered(|status| (400..500).contains(&status)), "{statuses:?}");
    let none = statuses.get(&None).copied().unwrap_or_default();
    assert!(none * 2 < statuses.values().sum(), "most are answered: {statuses:?}");
    assert_eq!(status(server.request("GET", "/readyz")).await, 200);
    let log = server.process.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[tokio::test]
async fn malformed_requests_cause_no_panic_and_no_5xx() {
    let mut rng = Rng::with_seed(seed("malformed"));
    let server = Start::new().flag("--limits-header-time", "5s").flag("--limits-idle-body-time", "5s").serve();
    let token = server.first_token();
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for round in 0..scale().of(1_000, 10_000) {
        let bytes = request(&mut rng, &token);
        let answer = exchange(&server, &bytes);
        let text = String::from_utf8_lossy(&answer);
        for line in text.lines().filter(|line| line.starts_with("HTTP/1.")) {
            let status: u16 = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
            *statuses.entry(status).or_default() += 1;
            assert!((100..500).contains(&status), "round {round}: {line}\n{:?}", String::from_utf8_lossy(&bytes));
        }
    }
    assert!(statuses.keys().any(|status| (400..500).contains(status)), "{statuses:?}");
    assert!(statuses.contains_key(&200), "some are right after all: {statuses:?}");
    assert_eq!(status(server.request("GET", "/readyz")).await, 200);
    let log = server.process.log();
    assert!(!log.contains("panicked"), "{log}");
}
