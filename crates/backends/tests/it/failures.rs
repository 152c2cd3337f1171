//! Backends that fail, hang, lose answers or talk nonsense: an end in bounded time, and a text that tells and does not leak.

use std::time::{Duration, Instant};

use backends::{Client, Code, Driver, Endpoint, Failure, Limits, Mode, ServerLimits, Target};

use crate::place::{PATIENCE, document, file, serve, target};
use crate::raw::{Peer, Reply};

const CREATE: &str = "/storage_backend.ValueAndContextStorageBackend/OnCreate";
const GET: &str = "/storage_backend.ValueAndContextStorageBackend/GetValue";

fn client(address: &str) -> Client {
    Client::new(&Endpoint::new(address, Mode::Value)).unwrap()
}

/// How a change and a read end on such a peer, and how often each was sent.
async fn both(replies: &[Reply]) -> [(Failure, usize); 2] {
    let peer = Peer::start(replies.to_vec()).await;
    let change = client(&peer.address).on_create(target("r", "k"), None).await.unwrap_err();
    let changes = peer.seen().len();
    let peer = Peer::start(replies.to_vec()).await;
    let read = client(&peer.address).get_value(target("r", ""), 1).await.unwrap_err();
    [(change, changes), (read, peer.seen().len())]
}

#[tokio::test]
async fn failures_have_the_text_of_the_original_and_a_code_that_claims_no_more_than_is_known() {
    let table = [
        (3, "INVALID_ARGUMENT", Code::InvalidArgument, Code::InvalidArgument),
        (5, "NOT_FOUND", Code::NotFound, Code::NotFound),
        (6, "ALREADY_EXISTS", Code::AlreadyExists, Code::AlreadyExists),
        (9, "FAILED_PRECONDITION", Code::FailedPrecondition, Code::FailedPrecondition),
        (7, "PERMISSION_DENIED", Code::PermissionDenied, Code::PermissionDenied),
        (16, "UNAUTHENTICATED", Code::PermissionDenied, Code::PermissionDenied),
        (12, "UNIMPLEMENTED", Code::Unimplemented, Code::Unimplemented),
        (13, "INTERNAL", Code::Internal, Code::Internal),
        (15, "DATA_LOSS", Code::Internal, Code::Internal),
        (4, "DEADLINE_EXCEEDED", Code::DeadlineExceeded, Code::DeadlineExceeded),
        (2, "UNKNOWN", Code::Unknown, Code::Unknown),
        (10, "ABORTED", Code::Unknown, Code::Unknown),
        (8, "RESOURCE_EXHAUSTED", Code::Unknown, Code::Unknown),
        (1, "CANCELLED", Code::Unknown, Code::Unknown),
    ];
    for (number, name, change, read) in table {
        let [changed, got] = both(&[Reply::Status(number, "it%20went wrong", &[])]).await;
        assert_eq!(changed, (Failure::new(change, format!("{CREATE} {name}: it went wrong")), 1));
        assert_eq!(got, (Failure::new(read, format!("{GET} {name}: it went wrong")), 1));
    }
}

#[tokio::test]
async fn only_what_is_safe_is_repeated() {
    let [(change, changes), (read, reads)] = both(&[Reply::Status(14, "overloaded", &[])]).await;
    assert_eq!((change.code, changes), (Code::Unknown, 1), "who knows what it did: {change}");
    assert_eq!((read.code, reads), (Code::Unavailable, 4), "{read}");
    assert_eq!(change.text, format!("{CREATE} UNAVAILABLE: overloaded"));

    let sure = Reply::Status(14, "overloaded", &[("stateward-nothing-done", "1")]);
    let [(change, changes), (read, reads)] = both(&[sure]).await;
    assert_eq!((change.code, changes), (Code::Unavailable, 4), "{change}");
    assert_eq!((read.code, reads), (Code::Unavailable, 4), "{read}");

    let [(change, changes), (read, reads)] = both(&[Reply::Reset]).await;
    assert_eq!((change.code, changes), (Code::Unknown, 1), "{change}");
    assert_eq!(
        change.text,
        format!("{CREATE} UNKNOWN: the connection ended before the answer; it may have taken place")
    );
    assert_eq!((read.code, reads), (Code::Unknown, 4), "{read}");

    let peer = Peer::start([Reply::Reset, Reply::Status(14, "soon", &[]), Reply::Message(vec![0x0a, 1, b'1'])]).await;
    let value = client(&peer.address).get_value(target("r", ""), 1).await.unwrap();
    assert_eq!((value, peer.seen().len()), (Some(document("1")), 3));
}

#[tokio::test]
async fn nonsense_is_an_error_and_nothing_is_claimed_of_a_change() {
    let table = [
        (Reply::Garbage(b""), Code::Internal),
        (Reply::Garbage(b"hello"), Code::Internal),
        (Reply::Garbage(b"\0\0\0\0\x02\x0a\x7f"), Code::Internal),
        (Reply::Garbage(b"\0\0\0\0\x05\xff\xff\xff\xff\xff"), Code::Internal),
        (Reply::Garbage(b"\x07\0\0\0\0"), Code::Internal),
        (Reply::Garbage(b"\0\x7f\xff\xff\xff"), Code::Internal),
        (Reply::Page(200), Code::Internal),
        (Reply::Page(500), Code::Unknown),
    ];
    for (reply, code) in table {
        let [(change, changes), (read, _)] = both(std::slice::from_ref(&reply)).await;
        assert!(!change.code.is_certain() && changes == 1, "{reply:?}: {change:?}");
        assert!(change.text.starts_with(CREATE), "{change}");
        assert!(matches!(read.code, Code::Internal | Code::Unknown), "{reply:?} {code:?}: {read:?}");
    }
}

#[tokio::test]
async fn a_backend_that_hangs_is_given_up_in_time() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hanging = Peer::start([Reply::Hang]).await;
    for address in [hanging.address.clone(), silent.local_addr().unwrap().to_string()] {
        let started = Instant::now();
        let within = Duration::from_millis(2500);
        let client = client(&address);
        let target = Target { within, ..target("r", "k") };
        let failure = client.on_create(target, None).await.unwrap_err();
        assert_eq!(failure.code, Code::DeadlineExceeded, "{failure}");
        let text = format!("{CREATE} DEADLINE_EXCEEDED: no answer within 2.5s; it may have taken place");
        assert_eq!(failure.text, text);
        assert_eq!(client.get_value(target, 1).await.unwrap_err().code, Code::DeadlineExceeded);
        assert_eq!(client.health(within).await.unwrap_err().code, Code::DeadlineExceeded);
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
    assert_eq!(hanging.seen().len(), 3, "once each");
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_tried_until_it_comes() {
    let port = testbed::process::free_port().unwrap();
    let address = format!("127.0.0.1:{port}");
    let failure = client(&address).on_create(target("r", "k"), None).await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable, "{failure}");
    let text = format!("{CREATE} UNAVAILABLE: failed to connect to {address}: Connection refused");
    assert!(failure.text.starts_with(&text), "{failure}");
    assert_eq!(client(&address).health(PATIENCE).await.unwrap_err().code, Code::Unavailable);

    // Nothing was sent, so that a change may be tried for as long as its deadline.
    let limits = Limits { attempts: 1000, ..Limits::default() };
    let endpoint = Endpoint { limits, ..Endpoint::new(address.clone(), Mode::Value) };
    let waiting = tokio::spawn(async move {
        let client = Client::new(&endpoint).unwrap();
        client.on_create(target("r", "k"), None).await
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let serving = backends::Serving { listen: address.parse().unwrap(), tls: None, limits: ServerLimits::default() };
    let server = backends::Server::bind(file(), serving).await.unwrap();
    tokio::spawn(server.run(std::future::pending()));
    assert_eq!(waiting.await.unwrap(), Ok(None));
}

#[tokio::test]
async fn a_peer_that_closes_at_once_was_never_sent_anything() {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let closing = tokio::spawn(async move {
        let mut accepted = 0;
        while let Ok(Ok((stream, _))) = tokio::time::timeout(Duration::from_secs(2), socket.accept()).await {
            accepted += 1;
            drop(stream);
        }
        accepted
    });
    let failure = client(&address).on_create(target("r", "k"), None).await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable, "{failure}");
    assert_eq!(closing.await.unwrap(), 4, "so that it may be tried again");
}

#[tokio::test]
async fn error_texts_are_short_printable_and_hold_nothing_that_was_sent() {
    let quoting = "cannot store correct-horse-battery or {%22user%22:%22admin-of-all%22}%0A%1B[31m near orse-batter";
    let peer = Peer::start([Reply::Status(13, quoting, &[])]).await;
    let (value, context) =
        (document(r#"{"password":"correct-horse-battery"}"#), document(r#"{"user":"admin-of-all"}"#));
    let target = Target { context: Some(&context), ..target("r", "k") };
    let failure = client(&peer.address).on_create(target, Some(&value)).await.unwrap_err();
    let expected = r#"cannot store [hidden] or {"user":"[hidden]"}  [31m near [hidden]"#;
    assert_eq!(failure.text, format!("{CREATE} INTERNAL: {expected}"));

    let long: &'static str = Box::leak("x".repeat(5000).into_boxed_str());
    let peer = Peer::start([Reply::Status(13, long, &[])]).await;
    let failure = client(&peer.address).get_value(target, 1).await.unwrap_err();
    assert!(failure.text.chars().count() < 700 && failure.text.ends_with("x…"), "{failure}");
}

#[tokio::test]
async fn messages_beyond_the_limit_are_refused_on_either_side() {
    let small = 1 << 20;
    let driver = file();
    let long = document(&format!("\"{}\"", "x".repeat(2 * small)));
    let short = document("\"fits\"");
    let limits = Limits { message_bytes: small, ..Limits::default() };

    // Our own limit: not even sent.
    let peer = Peer::start([Reply::Message(Vec::new())]).await;
    let endpoint = Endpoint { limits, ..Endpoint::new(peer.address.clone(), Mode::Value) };
    let client = Client::new(&endpoint).unwrap();
    let failure = client.on_create(target("a", "k"), Some(&long)).await.unwrap_err();
    assert_eq!(failure.code, Code::InvalidArgument, "{failure}");
    assert!(failure.text.starts_with(&format!("{CREATE} RESOURCE_EXHAUSTED: the request has 2097")), "{failure}");
    assert_eq!(peer.seen().len(), 0);
    client.on_create(target("a", "k"), Some(&short)).await.unwrap();

    // The limit of the server: nothing took place.
    let limited = ServerLimits { message_bytes: small, ..ServerLimits::default() };
    let running = serve(driver.clone(), None, limited).await;
    let wide = Client::new(&Endpoint::new(running.address.clone(), Mode::Value)).unwrap();
    let failure = wide.on_create(target("b", "k"), Some(&long)).await.unwrap_err();
    assert!(failure.text.contains("OUT_OF_RANGE"), "{failure}");
    assert_eq!(driver.get_value(target("b", ""), 1).await.unwrap_err().code, Code::NotFound);

    // An answer that we do not take.
    driver.on_create(target("c", "k"), Some(&long)).await.unwrap();
    let running = serve(driver, None, ServerLimits::default()).await;
    let wide = Client::new(&Endpoint::new(running.address.clone(), Mode::Value)).unwrap();
    assert_eq!(wide.get_value(target("c", ""), 1).await.unwrap().as_ref(), Some(&long), "32 MiB by itself");
    let endpoint = Endpoint { limits, ..Endpoint::new(running.address.clone(), Mode::Value) };
    let failure = Client::new(&endpoint).unwrap().get_value(target("c", ""), 1).await.unwrap_err();
    assert_eq!(failure.code, Code::Internal, "{failure}");
}

#[tokio::test]
async fn a_request_that_comes_after_its_deadline_is_not_done() {
    use crate::fields::Field;
    let driver = file();
    let running = serve(driver.clone(), None, ServerLimits::default()).await;
    // A recorded request of ours, whose time is over.
    let peer = Peer::start([Reply::Message(Vec::new())]).await;
    client(&peer.address)
        .on_create(Target { within: Duration::from_secs(1), ..target("late", "k") }, Some(&document("1")))
        .await
        .unwrap();
    let seen = peer.only();
    assert!(
        crate::fields::read(&seen.message)
            .iter()
            .any(|(number, field)| *number == 101 && matches!(field, Field::Number(_)))
    );
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let answer = replay(&running.address, &seen.message).await;
    assert_eq!(answer.as_deref(), Some("4"), "DEADLINE_EXCEEDED");
    assert_eq!(driver.get_value(target("late", ""), 1).await.unwrap_err().code, Code::NotFound);
}

/// Sends the bytes of a message to OnCreate and tells the code.
async fn replay(address: &str, message: &[u8]) -> Option<String> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let executor = hyper_util::rt::TokioExecutor::new();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [&[0], length.as_slice(), message].concat();
    let request = hyper::Request::post(format!("http://{address}{CREATE}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(http_body_util::Full::new(::bytes::Bytes::from(body)));
    let answer = sender.send_request(request.unwrap()).await.unwrap();
    answer.headers().get("grpc-status").map(|code| code.to_str().unwrap().to_owned())
}
