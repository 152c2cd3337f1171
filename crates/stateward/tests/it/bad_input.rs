//! Bodies that no client should send, and clients that take their time: they get an answer that names the fault, store
//! nothing, take no memory, and do not slow the others down.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use testbed::scale;

use crate::server::{PATIENCE, Server, Start, status};
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

fn gzip(mut write: impl FnMut(&mut dyn std::io::Write)) -> Vec<u8> {
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

/// LOCK, GET, POST, UNLOCK again and again; the times of the requests, sorted.
async fn sessions(server: &Server, token: &str, client: usize, count: usize) -> Vec<Duration> {
    let http = server.client();
    let path = format!("/state/team-a/good-{client}");
    let mut times = Vec::new();
    for number in 0..count {
        let id = format!("{client}-{number}");
        let steps = [
            ("LOCK", path.clone(), info(&id)),
            ("POST", format!("{path}?ID={id}"), a_state(number as u64)),
            ("GET", path.clone(), String::new()),
            ("UNLOCK", path.clone(), info(&id)),
        ];
        for (method, path, body) in steps {
            let began = Instant::now();
            let request = server.request_by(&http, method, &path).bearer_auth(token).body(body);
            assert_eq!(status(request).await, 200, "{method} {path}");
            times.push(began.elapsed());
        }
    }
    times.sort();
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
    let server = Arc::new(Start::new().serve());
    let ann = user(&server, "ann", &["editor@*"]).await.token;
    let alone = p99_of_good_clients(&server, &ann).await;

    let over = Arc::new(AtomicBool::new(false));
    let slow: Vec<_> = (0..scale().of(8, 64)).map(|number| trickle(&server, &ann, number, over.clone())).collect();
    let guesses = Arc::new(AtomicUsize::new(0));
    let (guessing, token_count) = (guesses.clone(), scale().of(200, 10_000));
    let (guessed_at, guessing_over) = (server.clone(), over.clone());
    let guesser = tokio::spawn(async move {
        let http = guessed_at.client();
        while guessing.load(Ordering::Relaxed) < token_count || !guessing_over.load(Ordering::Relaxed) {
            let number = guessing.fetch_add(1, Ordering::Relaxed);
            let token = format!("stw_{number:016x}_{}", "a".repeat(43));
            let refused = status(guessed_at.request_by(&http, "GET", PATH).bearer_auth(token)).await;
            assert!(matches!(refused, 401 | 429), "{refused}");
        }
    });
    let among_them = p99_of_good_clients(&server, &ann).await;
    over.store(true, Ordering::Relaxed);
    guesser.await.expect("a guesser who was refused each time");
    for upload in slow {
        upload.await.expect("a slow upload that was under way all the time");
    }
    let ratio = among_them.as_secs_f64() / alone.as_secs_f64();
    #[expect(clippy::print_stderr, reason = "the figures of the run")]
    {
        let guesses = guesses.load(Ordering::Relaxed);
        eprintln!("p99 alone {alone:?}, beside slow uploads and {guesses} bad tokens {among_them:?}: {ratio:.2} times");
    }
    if scale().is_full() {
        assert!(ratio <= 3.0, "{ratio:.2} times the p99 of those who are alone");
    }
}

/// An upload that sends a few bytes now and then until the others are done.
fn trickle(server: &Arc<Server>, token: &str, number: usize, over: Arc<AtomicBool>) -> tokio::task::JoinHandle<()> {
    let (server, token) = (server.clone(), token.to_owned());
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        let head = format!(
            "POST /state/team-a/slow-{number} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: 100000000\r\n\r\n{{\"a\": \""
        );
        stream.write_all(head.as_bytes()).expect("sent");
        stream.write_all(&vec![b'x'; 100_000]).expect("sent");
        while !over.load(Ordering::Relaxed) {
            stream.write_all(b"some more of it").expect("an upload that may take its time");
            std::thread::sleep(Duration::from_millis(50));
        }
    })
}
