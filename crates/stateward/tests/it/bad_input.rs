//! Bodies that no client should send, and clients that take their time: they get an answer that names the fault, store
//! nothing, take no memory, and do not slow the others down.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use testbed::{eventually, scale};

use crate::limits::uploads;
use crate::server::{PATIENCE, Server, Start, answer, status};
use crate::states::{a_state, info, user};

const PATH: &str = "/state/team-a/app";
/// What a bad body may take of memory, whatever its size.
const FLAT: u64 = 40 << 20;

/// How long a body is, and its pieces.
type Body = (u64, Box<dyn FnMut() -> Vec<u8>>);

/// A request that is sent piece by piece until it is over or the server has hung up; the answer.
fn pour(server: &Server, token: &str, headers: &str, length: u64, mut piece: impl FnMut() -> Vec<u8>) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{headers}\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut left = length;
    while left > 0 {
        let mut piece = piece();
        piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        left -= piece.len() as u64;
        // The server may have said all that there is to say.
        if stream.write_all(&piece).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_answer_reaches_a_client_that_is_still_sending() {
    const LENGTH: usize = 6 << 20;
    for start in [Start::new(), Start::new().tls()] {
        let server = start.serve();
        let head =
            format!("POST {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {LENGTH}\r\n\r\n");
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let sent = |stream: &mut dyn Talk| {
            stream.write_all(head.as_bytes())?;
            // Without a credential, the answer is there before the body is. What comes after it is no reason for a reset.
            for _ in 0..LENGTH >> 20 {
                stream.write_all(&vec![b' '; 1 << 20])?;
            }
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
        };
        let answer = tokio::task::block_in_place(|| {
            if !server.url.starts_with("https") {
                return sent(&mut stream);
            }
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let builder = rustls::ClientConfig::builder_with_provider(provider);
            let pem = std::fs::read_to_string(server.data.join("tls/self-signed.crt"))?;
            let mut roots = rustls::RootCertStore::empty();
            roots.add(crate::tls::der(&pem)).expect("a root");
            let builder = builder.with_safe_default_protocol_versions().expect("versions");
            let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
            let name = "localhost".try_into().expect("a name");
            let session = rustls::ClientConnection::new(config, name).expect("a session");
            sent(&mut rustls::StreamOwned::new(session, stream))
        });
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", server.url));
        assert!(answer.starts_with("HTTP/1.1 401 "), "{}: {answer}", server.url);
    }
}

#[test]
fn an_early_answer_over_h2_resets_no_stream() {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    const DATA: u8 = 0;
    const PING: u8 = 6;
    const RESET: u8 = 3;
    let server = Start::new().serve();
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut send = stream.try_clone().expect("a socket");
    send.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("sent");
    let mut send = |kind: u8, flags: u8, number: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).expect("a short frame");
        let head = [0, 0, length, kind, flags, 0, 0, 0, number];
        send.write_all(&[&head, payload].concat()).expect("sent");
    };
    let mut next = || {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("a frame");
        stream.read_exact(&mut vec![0; usize::from(head[1]) << 8 | usize::from(head[2])]).expect("its payload");
        (head[3], head[4], head[8])
    };
    send(SETTINGS, 0, 0, &[]);
    // Every field as a literal: its length, its bytes.
    let mut fields = Vec::new();
    let authority = server.address().to_owned();
    for (name, value) in [(":method", "POST"), (":scheme", "http"), (":authority", &*authority), (":path", PATH)] {
        fields.push(0);
        for text in [name, value] {
            fields.push(u8::try_from(text.len()).expect("a short text"));
            fields.extend(text.as_bytes());
        }
    }
    for number in [1, 3, 5, 7, 9] {
        send(HEADERS, 4, number, &fields);
        // The whole answer, before the body is there: nobody may without a credential.
        while !matches!(next(), (HEADERS | DATA, flags, found) if found == number && flags & 1 == 1) {}
        send(DATA, 1, number, b"{}");
        send(PING, 0, 0, &[number; 8]);
        // Some clients take a reset of the stream, by whatever reason, for a failure of the request.
        loop {
            match next() {
                (PING, 1, 0) => break,
                (kind, _, found) => assert_ne!((kind, found), (RESET, number), "a reset"),
            }
        }
    }
}

trait Talk: std::io::Read + std::io::Write {}
impl<T: std::io::Read + std::io::Write> Talk for T {}

pub(crate) fn gzip(mut write: impl FnMut(&mut dyn std::io::Write)) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    write(&mut encoder);
    encoder.finish().expect("memory")
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_bodies_get_an_answer_that_names_the_fault_and_leave_nothing() {
    let server = Start::new().flag("--states-body-bytes", scale().of("16MiB", "128MiB")).serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    assert_eq!(ann.does("GET", PATH, "").await, 404);
    let megabyte = |byte: u8| move || vec![byte; 1 << 20];
    let nested = |beginning: &'static str| {
        let mut first = true;
        move || if std::mem::take(&mut first) { beginning.as_bytes().to_vec() } else { vec![b'['; 1 << 20] }
    };
    let much: u64 = scale().of(20 << 20, 1 << 30);
    let spaces = gzip(|out| {
        out.write_all(b"{\"a\": 1").expect("memory");
        for _ in 0..scale().of(20, 2048) {
            out.write_all(&vec![b' '; 1 << 20]).expect("memory");
        }
    });
    let layers = gzip(|out| {
        out.write_all(b"{\"a\": ").expect("memory");
        out.write_all(&vec![b'['; 4 << 20]).expect("memory");
    });
    let whole = a_state(1);
    let wrong_md5 = format!("Content-MD5: {}\r\n", BASE64_STANDARD.encode([7; 16]));
    let text = |text: &str| -> Body {
        let bytes = text.as_bytes().to_vec();
        (bytes.len() as u64, Box::new(move || bytes.clone()))
    };
    let packed = |bytes: Vec<u8>| -> Body { (bytes.len() as u64, Box::new(move || bytes.clone())) };
    let encoded = "Content-Encoding: gzip\r\n";
    let cases: Vec<(&str, &str, Body, u16, &str)> = vec![
        ("not JSON", "", text("no JSON at all"), 400, "expected '{' at byte 0"),
        ("JSON, but no object", "", text("[1, 2]"), 400, "expected '{' at byte 0"),
        ("truncated", "", text(&whole[..whole.len() - 4]), 400, "the body ends at byte"),
        ("truncated in a text", "", text("{\"a\": \"b"), 400, "the body ends at byte 8"),
        ("something after it", "", text("{} {}"), 400, "nothing but white space after it"),
        ("the same key twice", "", text("{\"serial\": 1, \"serial\": 2}"), 400, "twice"),
        ("many [", "", (much, Box::new(megabyte(b'['))), 400, "expected '{' at byte 0"),
        ("an object of many [", "", (much, Box::new(nested("{\"a\":"))), 400, "states.depth"),
        ("an endless text", "", (much, Box::new(nested("{\"a\":\""))), 413, "states.body_bytes"),
        ("another MD5", &wrong_md5, text(&whole), 400, "Content-MD5"),
        ("no MD5", "Content-MD5: x\r\n", text(&whole), 400, "Content-MD5"),
        ("a gzip bomb of spaces", encoded, packed(spaces), 413, "states.body_bytes"),
        ("a gzip bomb of [", encoded, packed(layers), 400, "states.depth"),
        ("no gzip", encoded, text(&whole), 400, "Content-Encoding"),
        ("an unknown encoding", "Content-Encoding: br\r\n", text(&whole), 415, "Content-Encoding"),
    ];
    for (what, headers, (length, piece), expected, words) in cases {
        server.forget_peak();
        let before = server.peak_memory();
        let answer = tokio::task::block_in_place(|| pour(&server, &ann.token, headers, length, piece));
        let taken = server.peak_memory().saturating_sub(before);
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{what}: {answer}");
        assert!(answer.contains(words), "{what}: {answer}");
        assert!(taken <= FLAT, "{what} took {} MiB", taken >> 20);
        assert_eq!(ann.does("GET", PATH, "").await, 404, "{what} was stored");
    }
    let spooled = std::fs::read_dir(server.data.join("spool")).expect("the spool").count();
    assert_eq!(spooled, 0, "files are left in the spool");
    assert_eq!(ann.does("POST", PATH, whole).await, 200);
}

/// LOCK, GET, POST, UNLOCK again and again, with states large enough to need a place; the times of the requests.
async fn sessions(server: &Server, token: &str, client: usize, count: usize) -> Vec<Duration> {
    let http = server.client();
    let path = format!("/state/team-a/good-{client}");
    let filler = "x".repeat(3 << 19);
    let mut times = Vec::new();
    for number in 0..count {
        let id = format!("{client}-{number}");
        let state = format!("{{\"version\": 4, \"serial\": {number}, \"filler\": \"{filler}\"}}");
        let steps = [
            ("LOCK", path.clone(), info(&id)),
            ("POST", format!("{path}?ID={id}"), state),
            ("GET", path.clone(), String::new()),
            ("UNLOCK", path.clone(), info(&id)),
        ];
        for (method, path, body) in steps {
            let began = Instant::now();
            let request = server.request_by(&http, method, &path).bearer_auth(token).body(body);
            let (status, text) = answer(request).await;
            assert_eq!(status, 200, "{method} {path}: {text:.400}");
            times.push(began.elapsed());
        }
    }
    times
}

async fn p99_of_good_clients(server: &Server, token: &str) -> Duration {
    let clients = (0..4).map(|client| sessions(server, token, client, scale().of(5, 100)));
    let mut times: Vec<Duration> = futures::future::join_all(clients).await.concat();
    times.sort();
    times[times.len() * 99 / 100]
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_uploads_and_made_up_tokens_do_not_slow_the_others_down() {
    let slow_ones = scale().of(8, 64);
    // Half of them have a place, so that there is none left for the others.
    let start = Start::new().flag("--states-uploads", (slow_ones / 2).to_string());
    let server = Arc::new(start.flag("--metrics-listen", "127.0.0.1:0").serve());
    let ann = user(&server, "ann", &["editor@*"]).await.token;
    let mut pairs = Vec::new();
    for _ in 0..scale().of(1, 3) {
        let alone = p99_of_good_clients(&server, &ann).await;
        let over = Arc::new(AtomicBool::new(false));
        let slow: Vec<_> = (0..slow_ones).map(|number| trickle(&server, &ann, number, over.clone())).collect();
        let all_taken = || uploads(&server, slow_ones / 2);
        eventually(PATIENCE, all_taken).await;
        let guesser = tokio::spawn(guess(server.clone(), over.clone()));
        let among_them = p99_of_good_clients(&server, &ann).await;
        over.store(true, Ordering::Relaxed);
        let guesses = guesser.await.expect("a guesser who was refused each time");
        let mut ended = 0;
        for upload in slow {
            ended += usize::from(upload.await.expect("a slow upload") == Trickled::Ended);
        }
        assert!(ended > 0, "there was a place for everybody");
        pairs.push((among_them.as_secs_f64() / alone.as_secs_f64(), alone, among_them, guesses, ended));
    }
    pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ratio = pairs[pairs.len() / 2].0;
    #[expect(clippy::print_stderr, reason = "the figures of the run")]
    for (ratio, alone, among_them, guesses, ended) in &pairs {
        eprintln!(
            "p99 alone {alone:?}, beside {slow_ones} slow uploads (of which {ended} lost their place) and {guesses} bad \
             tokens {among_them:?}: {ratio:.2} times"
        );
    }
    if scale().is_full() {
        assert!(ratio <= 3.0, "{ratio:.2} times the p99 of those who are alone, in the median of {}", pairs.len());
    }
}

/// Presents tokens that nobody has, until the others are done and so many were refused; how many.
async fn guess(server: Arc<Server>, over: Arc<AtomicBool>) -> usize {
    let http = server.client();
    let mut guesses = 0;
    while guesses < scale().of(200, 10_000) || !over.load(Ordering::Relaxed) {
        let token = format!("stw_{guesses:016x}_{}", "a".repeat(43));
        let refused = status(server.request_by(&http, "GET", PATH).bearer_auth(token)).await;
        assert!(matches!(refused, 401 | 429), "{refused}");
        guesses += 1;
    }
    guesses
}

/// What became of a slow upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trickled {
    UnderWay,
    /// Another upload needed the place.
    Ended,
}

/// An upload that begins as others do, and then sends a few bytes now and then until the others are done.
fn trickle(
    server: &Arc<Server>,
    token: &str,
    number: usize,
    over: Arc<AtomicBool>,
) -> tokio::task::JoinHandle<Trickled> {
    let (server, token) = (server.clone(), token.to_owned());
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        let head = format!(
            "POST /state/team-a/slow-{number} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: 100000000\r\n\r\n{{\"a\": \""
        );
        stream.write_all(head.as_bytes()).expect("sent");
        // More than is taken without a place.
        stream.write_all(&vec![b'x'; 512 << 10]).expect("sent");
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out");
        let mut answer = [0; 4096];
        while !over.load(Ordering::Relaxed) {
            // Should there be an answer, it is the one for those who lose their place, or who wait for one too long.
            if let Ok(length) = stream.read(&mut answer) {
                let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
                assert!(["HTTP/1.1 408 ", "HTTP/1.1 503 "].iter().any(|start| answer.starts_with(start)), "{answer}");
                return Trickled::Ended;
            }
            stream.write_all(b"some more of it").expect("an upload that may take its time");
        }
        Trickled::UnderWay
    })
}
