//! The process: one per data directory, loopback unless there is TLS, a graceful end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;

use crate::run::{Run, stateward};
use crate::server::{PATIENCE, Start, answer, status};

#[tokio::test]
async fn a_second_process_on_the_data_directory_is_refused_until_the_first_has_ended() {
    let mut first = Start::new().serve();
    let mut second = Start::on(first.data.clone()).spawn();
    assert_eq!(second.wait(PATIENCE).unwrap().code(), Some(5), "a conflict");
    let log = second.log();
    assert!(log.contains("is in use by process") && log.contains(&first.process.pid().to_string()), "{log}");
    // Also after a kill that could clean nothing up.
    first.process.kill();
    Start::on(first.data.clone()).serve();
}

#[test]
fn listening_where_others_can_reach_it_needs_tls() {
    let mut refused = Start::new().listen("0.0.0.0:0").spawn();
    assert!(!refused.wait(PATIENCE).unwrap().success());
    assert!(refused.log().contains("tls"), "{}", refused.log());
    let server = Start::new().listen("0.0.0.0:0").tls().serve();
    assert!(server.url.starts_with("https://0.0.0.0:"), "{}", server.url);
}

#[tokio::test]
async fn a_page_that_points_its_name_at_loopback_is_turned_away() {
    let server = Start::new().flag("--allowed-hosts", "stateward.test").serve();
    let get = |host: &str| status(server.request("GET", "/healthz").header("Host", host));
    for host in ["localhost", "localhost:1234", "127.0.0.1", "127.0.0.2:80", "[::1]:80", "LOCALHOST", "stateward.test"]
    {
        assert_eq!(get(host).await, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "evil.example:8642", "127.0.0.1.nip.example", "10.0.0.1"] {
        let (status, text) = answer(server.request("GET", "/").header("Host", host)).await;
        assert_eq!(status, 421, "{host}");
        assert!(!text.contains(host), "{text}");
    }
    let mut raw = TcpStream::connect(server.address()).unwrap();
    raw.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    raw.read_to_string(&mut text).unwrap();
    assert!(text.contains(" 421 "), "no Host at all: {text}");
}

#[tokio::test]
async fn requests_under_way_end_well_before_a_stop() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Start::new().serve();
        let token = server.first_token();
        let mut request = TcpStream::connect(server.address()).unwrap();
        request.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST /probe/a/b HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 10\r\n\
             Expect: 100-continue\r\n\r\n"
        );
        request.write_all(head.as_bytes()).unwrap();
        // The word to go on comes when the handler wants the body: the request is under way.
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            let mut byte = [0];
            request.read_exact(&mut byte).unwrap();
            text.push(char::from(byte[0]));
        }
        assert!(text.starts_with("HTTP/1.1 100"), "{text}");
        request.write_all(b"12345").unwrap();
        server.process.signal(signal);
        testbed::eventually(PATIENCE, || async { server.process.log().contains("stopping: letting requests end") })
            .await;
        request.write_all(b"67890").unwrap();
        text.clear();
        request.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert!(server.process.wait(PATIENCE).unwrap().success(), "{}", server.process.log());
        assert!(server.process.log().contains("stopped"), "{}", server.process.log());
    }
}

// The client that is through has to hear the goodbye meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_has_asked_for_nothing_does_not_hold_up_a_stop() {
    for tls in [false, true] {
        let start = Start::new().flag("--limits-header-time", "300s").flag("--shutdown-grace", "300s");
        let mut server = if tls { start.tls() } else { start }.serve();
        let beginnings: [&[u8]; 3] = if tls { [b"", b"\x16", b"\x16\x03\x01\x02"] } else { [b"", b"P", b"PRI * HT"] };
        let peers = beginnings.map(|beginning| {
            let mut peer = TcpStream::connect(server.address()).unwrap();
            peer.write_all(beginning).unwrap();
            peer
        });
        // Connections are accepted in their order: the silent ones are there when a later one is answered.
        assert_eq!(status(server.request("GET", "/healthz")).await, 200);
        server.process.signal(Signal::TERM);
        assert!(server.process.wait(PATIENCE).unwrap().success(), "{}", server.process.log());
        drop(peers);
    }
}

#[tokio::test]
async fn a_server_whose_output_nobody_reads_serves_all_the_same() {
    let port = testbed::process::free_port().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let data = testbed::process::scratch("serve").unwrap().join("data");
    let mut command = stateward(&["serve", "--log-level=error", &format!("--listen=127.0.0.1:{port}"), "--data-dir"]);
    let mut child = command.arg(&data).stdout(writer).spawn().unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://127.0.0.1:{port}/healthz");
    testbed::eventually(PATIENCE, || async {
        client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success())
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_address_that_is_taken_is_a_conflict() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut refused = Start::new().listen(&address).spawn();
    assert_eq!(refused.wait(PATIENCE).unwrap().code(), Some(5), "{}", refused.log());
    assert!(refused.log().contains(&format!("failed to listen on {address}")), "{}", refused.log());
}

#[test]
fn a_database_out_of_reach_is_told_by_the_exit_code() {
    let port = testbed::process::free_port().unwrap();
    let url = format!("postgres://nobody@127.0.0.1:{port}/none");
    let mut server = Start::new().variable("STATEWARD_DATABASE_URL", &url).flag("--database-deadline", "1s").spawn();
    assert_eq!(server.wait(PATIENCE).unwrap().code(), Some(6), "{}", server.log());
    let mut backup = stateward(&["db", "backup", "/nowhere/copy", "--database-deadline=1s"]);
    Run::of(backup.env("STATEWARD_DATABASE_URL", &url)).fails(6, "failed to open the database");
}

#[test]
fn a_backup_is_made_while_the_server_runs_and_replaces_nothing() {
    let server = Start::new().serve();
    let copy = server.data.with_extension("copy");
    let backup = || Run::of(stateward(&["db", "backup"]).arg(&copy).arg("--data-dir").arg(&server.data));
    assert!(backup().ok().contains("checked"));
    backup().fails(5, "there is a file at");
}

#[test]
fn what_is_odd_in_the_configuration_is_in_the_log() {
    let server = Start::new().variable("STATEWARD_TLS_CLIENT_CA", "/ca.crt").serve();
    let log = server.process.log();
    assert!(log.contains("STATEWARD_TLS_CLIENT_CA: is not a known variable"), "{log}");
    assert!(log.contains("did you mean STATEWARD_TLS_CLIENT_CA_FILE?"), "{log}");
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_hung_up_on() {
    let server = Start::new().flag("--limits-header-time", "1s").flag("--limits-idle-body-time", "1s").serve();
    let token = server.first_token();
    let post = format!(
        "POST /probe/a/b HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 9\r\n\r\nab"
    );
    for beginning in ["", "P", "PRI * HT", "GET / HT", "GET / HTTP/1.1\r\nHost: local", &post] {
        let mut peer = TcpStream::connect(server.address()).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        peer.write_all(beginning.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let ended = peer.read_to_end(&mut answer);
        let reset = ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset);
        assert!(ended.is_ok() || reset, "still open after {beginning:?}: {ended:?}");
        let text = String::from_utf8_lossy(&answer);
        assert!(!text.starts_with("HTTP/1.1 5") && !text.starts_with("HTTP/1.1 2"), "{text}");
    }
}

#[tokio::test]
async fn the_separate_port_shows_metrics_to_loopback_without_a_token() {
    let server = Start::new().flag("--metrics-listen", "127.0.0.1:0").serve();
    let url = server.metrics_url();
    let text = server.client().get(&url).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("stateward_audit_healthy 1") && text.ends_with("# EOF\n"), "{text}");
    let ready = url.replace("/metrics", "/readyz?verbose");
    let text = server.client().get(&ready).send().await.unwrap().text().await.unwrap();
    assert_eq!(text, "[+] database ok\n[+] audit ok\n");
    let other = url.replace("/metrics", "/api/v1/tokens");
    assert_eq!(server.client().get(&other).send().await.unwrap().status().as_u16(), 404);
    let rebound = server.client().get(&url).header("Host", "evil.example");
    assert_eq!(status(rebound).await, 421);
    assert_eq!(status(server.request("GET", "/metrics")).await, 401, "the main port asks who it is");
    let mut refused = Start::new().flag("--metrics-listen", "0.0.0.0:0").spawn();
    assert!(!refused.wait(PATIENCE).unwrap().success());
}

#[tokio::test]
async fn the_status_page_and_unknown_paths_answer_without_a_token() {
    let server = Start::new().serve();
    let (status, page) = answer(server.request("GET", "/")).await;
    assert_eq!(status, 200);
    assert!(page.contains("Stateward") && page.contains("ready"), "{page}");
    let (status, text) = answer(server.request("GET", "/nowhere")).await;
    assert_eq!(status, 404);
    assert!(text.contains("\"hint\""), "{text}");
    let wrong = server.request("PROPFIND", "/api/v1/tokens").send().await.unwrap();
    assert_eq!((wrong.status().as_u16(), wrong.headers()["allow"].to_str().unwrap()), (405, "GET,HEAD,POST"));
    let probe = server.request("PROPFIND", "/probe/a/b").bearer_auth(server.first_token()).send().await.unwrap();
    let allow = probe.headers()["allow"].to_str().unwrap();
    assert_eq!((probe.status().as_u16(), allow), (405, "GET, HEAD, POST, LOCK, UNLOCK"));
    let locked = server.request("LOCK", "/probe/a/b").bearer_auth(server.first_token()).send().await.unwrap();
    assert!(!locked.headers().contains_key("allow"));
    // The caller's request id is taken if it is one, and only then.
    let id = "0192f0c1-2345-7abc-8def-0123456789ab";
    let told = server.request("GET", "/healthz").header("X-Request-Id", id).send().await.unwrap();
    assert_eq!(told.headers()["x-request-id"], id);
    let told = server.request("GET", "/healthz").header("X-Request-Id", "mine").send().await.unwrap();
    assert_ne!(told.headers()["x-request-id"], "mine");
}
