//! Requests that no client should send: none may cause a panic, a 5xx or a server that is not ready any more.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use fastrand::Rng;
use testbed::{scale, seed};

use crate::server::{Server, Start, status};

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
const PATHS: &[&str] = &[
    "/",
    "/healthz",
    "/readyz",
    "/readyz?verbose",
    "/metrics",
    "/api/v1/tokens",
    "/api/v1/tokens/x",
    "/probe/a/b",
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
    let mut bytes = text.into_bytes();
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
