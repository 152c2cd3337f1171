//! What one client may take: every limit answers with the name of its setting, and nothing is stored.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use testbed::{AUDIENCE, Cluster, Direction, Toxiproxy, eventually};

use crate::bad_input::gzip;
use crate::server::{PATIENCE, Server, Start, answer, status};
use crate::states::{a_state, info, user};

const PATH: &str = "/state/team-a/app";

/// A state of at least this many bytes.
fn a_state_of(bytes: usize) -> String {
    format!("{{\"version\": 4, \"filler\": \"{}\"}}", "x".repeat(bytes))
}

#[tokio::test]
async fn a_token_and_a_lock_info_may_be_so_long_and_no_longer() {
    let server = Start::new().flag("--access-token-bytes", "200").flag("--states-lock-info-bytes", "1KiB").serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    let (status, text) = answer(server.request("GET", PATH).bearer_auth("x".repeat(201))).await;
    assert!(status == 401 && text.contains("access.token_bytes"), "{status} {text}");
    let (status, text) = answer(server.request("GET", PATH).bearer_auth("x".repeat(200))).await;
    assert!(status == 401 && !text.contains("access.token_bytes"), "{status} {text}");
    for method in ["LOCK", "UNLOCK"] {
        let long = info("a").replace("\"apply\"", &format!("\"{}\"", "x".repeat(1000)));
        let (status, text) = ann.send(method, PATH, long).await;
        assert!(status == 413 && text.contains("states.lock_info_bytes"), "{status} {text}");
    }
    assert_eq!(ann.does("LOCK", PATH, info("a")).await, 200);
}

/// Begins an upload and sends so much of it.
fn begin(server: &Server, token: &str, bytes: usize) -> TcpStream {
    let mut upload = TcpStream::connect(server.address()).expect("a connection");
    let body = a_state_of(2 << 20);
    let head = format!(
        "POST /state/team-a/slow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    upload.write_all(head.as_bytes()).expect("sent");
    upload.write_all(&body.as_bytes()[..bytes]).expect("sent");
    upload
}

/// Whether so many uploads have a place, as the metrics say.
pub(crate) async fn uploads(server: &Server, count: usize) -> bool {
    let text = async { server.client().get(server.metrics_url()).send().await?.text().await };
    text.await.is_ok_and(|text| text.contains(&format!("stateward_states_uploads {count}\n")))
}

#[tokio::test]
async fn large_uploads_have_so_many_places_and_small_ones_need_none() {
    let start = Start::new().flag("--states-uploads", "1").flag("--states-upload-rate", "0");
    let server = start.flag("--metrics-listen", "127.0.0.1:0").serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    let slow_and_small: Vec<TcpStream> = (0..8).map(|_| begin(&server, &ann.token, 1000)).collect();
    assert_eq!(ann.does("POST", PATH, a_state_of(1 << 20)).await, 200, "eight that have sent little take no place");
    let slow_and_large = begin(&server, &ann.token, 1 << 20);
    eventually(PATIENCE, || uploads(&server, 1)).await;
    let post = || server.request("POST", PATH).bearer_auth(&ann.token);
    // Little gzip can be much to unpack, however much it is in the end.
    let packed = gzip(|out| out.write_all(a_state(1).as_bytes()).expect("memory"));
    let packed = post().header("content-encoding", "gzip").body(packed).send();
    let (large, packed) = tokio::join!(post().body(a_state_of(1 << 20)).send(), packed);
    for refused in [large, packed] {
        let refused = refused.expect("an answer");
        assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        let text = refused.text().await.expect("a text");
        assert!(text.contains("states.uploads"), "{text}");
    }
    assert_eq!(ann.does("POST", PATH, a_state(1)).await, 200, "a small one");
    drop(slow_and_large);
    eventually(PATIENCE, || async { ann.does("POST", PATH, a_state_of(1 << 20)).await == 200 }).await;
    drop(slow_and_small);
}

#[tokio::test]
async fn a_slow_upload_gives_its_place_to_one_that_waits() {
    let start = Start::new().flag("--states-uploads", "2").flag("--metrics-listen", "127.0.0.1:0");
    let server = start.serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    // They begin as fast as others do.
    let mut slow: Vec<TcpStream> = (0..2).map(|_| begin(&server, &ann.token, 1 << 20)).collect();
    eventually(PATIENCE, || uploads(&server, 2)).await;
    for _ in 0..3 {
        assert_eq!(ann.does("POST", PATH, a_state_of(1 << 20)).await, 200);
    }
    // One was enough: the other may go on.
    eventually(PATIENCE, || uploads(&server, 1)).await;
    let mut ended = Vec::new();
    for upload in &mut slow {
        upload.set_nonblocking(true).expect("a socket");
        let mut answer = [0; 4096];
        ended.extend(
            upload.read(&mut answer).ok().map(|length| String::from_utf8_lossy(&answer[..length]).into_owned()),
        );
    }
    let [answer] = ended.as_slice() else { panic!("{ended:?}") };
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("states.upload_rate"), "{answer}");
}

/// A state that does not compress to nothing.
fn noise(bytes: usize, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let text: String = std::iter::repeat_with(|| random.alphanumeric()).take(bytes).collect();
    format!("{{\"version\": 4, \"serial\": {seed}, \"filler\": \"{text}\"}}")
}

#[tokio::test]
async fn a_state_takes_so_much_of_its_store_with_its_history() {
    let server = Start::new().flag("--states-stored-bytes", "400KiB").serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    let (status, text) = ann.send("POST", PATH, noise(1 << 20, 1)).await;
    assert!(status == 413 && text.contains("states.stored_bytes"), "{status} {text}");
    assert_eq!(ann.does("GET", PATH, "").await, 404);
    let mut written = 0;
    let refused = loop {
        let (status, text) = ann.send("POST", PATH, noise(100 << 10, written)).await;
        match status {
            200 => written += 1,
            _ => break (status, text),
        }
        assert!(written < 20, "two megabytes of noise in 400 KiB");
    };
    assert!(refused.0 == 413 && refused.1.contains("states.stored_bytes"), "{refused:?}");
    assert!(written >= 2, "{written}");
    assert_eq!(ann.send("GET", PATH, "").await.1, noise(100 << 10, written - 1));

    let (server, token, namespace) = crate::compat::beside_cluster("limits", |start| {
        start.flag("--states-routes", "*=configmap").flag("--states-cluster-bytes", "1MiB")
    })
    .await;
    let path = format!("/state/{namespace}/app");
    let (status, text) = answer(server.request("POST", &path).bearer_auth(token).body(noise(3 << 20, 1))).await;
    assert!(status == 413 && text.contains("states.cluster_bytes"), "{status} {text}");
}

#[tokio::test]
async fn one_address_may_present_so_many_unknown_tokens_and_known_ones_are_not_held_up() {
    let server = Start::new().flag("--access-new-tokens", "20").serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    assert_eq!(ann.does("POST", PATH, a_state(1)).await, 200);
    let client = server.client();
    let guess = |number: usize| {
        let request = server.request_by(&client, "GET", PATH).bearer_auth(format!("stw_0123456789abcdef_{number}"));
        async move {
            let response = request.send().await.expect("an answer");
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let text = response.text().await.expect("a text");
            if status == 429 {
                assert_eq!(headers["retry-after"], "1");
                assert!(text.contains("access.new_tokens") && !text.contains("0123456789abcdef"), "{text}");
            }
            status
        }
    };
    let known = |_| status(server.request_by(&client, "GET", PATH).bearer_auth(&ann.token));
    // All at once: however slow the machine, they do not come one after another at the rate that is allowed.
    let (guesses, known) =
        tokio::join!(futures::future::join_all((0..300).map(guess)), futures::future::join_all((0..50).map(known)));
    assert_eq!(known, vec![200; 50]);
    assert!(guesses.iter().all(|status| matches!(status, 401 | 429)), "{guesses:?}");
    assert!(guesses.contains(&401) && guesses.contains(&429), "{guesses:?}");
    // The rate comes back.
    eventually(PATIENCE, || async { guess(1000).await == 401 }).await;
}

#[tokio::test]
async fn good_tokens_of_one_address_are_let_in_at_once_also_beside_bad_ones() {
    let server = Start::new().flag("--access-new-tokens", "10").serve();
    let mut tokens = Vec::new();
    for number in 0..60 {
        tokens.push(user(&server, &format!("user-{number}"), &["viewer@*"]).await.token);
    }
    let client = server.client();
    let flood = (0..200).map(|number| {
        let token = format!("stw_{number:016x}_{}", "a".repeat(43));
        status(server.request_by(&client, "GET", PATH).bearer_auth(token))
    });
    let good = tokens.iter().map(|token| status(server.request_by(&client, "GET", PATH).bearer_auth(token)));
    let (refused, good) = tokio::join!(futures::future::join_all(flood), futures::future::join_all(good));
    assert_eq!(good, vec![404; 60], "nobody who is known is turned away");
    assert!(refused.contains(&429), "{refused:?}");

    // The lines of the log tell how many had none, and which were too many.
    testbed::eventually(PATIENCE, || async {
        status(server.request_by(&client, "GET", PATH).bearer_auth("stw_0123456789abcdef_x")).await;
        let log = std::fs::read_to_string(server.data.join("audit/audit.log")).unwrap_or_default();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let lines: Vec<_> = lines.filter(|line| line["verb"] == "authenticate").collect();
        let left_out: u64 = lines.iter().filter_map(|line| line["more"]["left_out"].as_u64()).sum();
        left_out > 0 && lines.iter().any(|line| line["result"] == "failed: busy")
    })
    .await;
}

#[tokio::test]
async fn so_many_tokens_are_reviewed_at_once_and_more_are_refused() {
    let cluster = Cluster::shared().await;
    let toxiproxy = Toxiproxy::start().expect("toxiproxy");
    let way = toxiproxy.proxy(cluster.url().trim_start_matches("https://")).await.expect("a proxy");
    let delegator = cluster.service_account_with_auth_delegator().await;
    let kubeconfig = delegator.kubeconfig.clone().with_server(&format!("https://{}", way.address));
    let start = Start::new().cluster(&kubeconfig).flag("--access-audiences", AUDIENCE).flag("--access-reviews", "2");
    // Long enough for all six to arrive while two of them wait for the API server.
    let server = start.flag("--access-review-deadline", "20s").serve();
    let client = server.client();
    let present = |number: usize| answer(server.request_by(&client, "GET", PATH).bearer_auth(format!("t{number}")));
    assert_eq!(present(0).await.0, 401);

    // The API server says nothing for now, so that no review ends before the last of these is there.
    way.timeout(Direction::Downstream).await.expect("toxiproxy");
    let answers = futures::future::join_all((1..=6).map(present)).await;
    let refused = answers.iter().filter(|(status, text)| *status == 429 && text.contains("access.reviews")).count();
    let unanswered = answers.iter().filter(|(status, _)| *status == 503).count();
    assert_eq!((refused, unanswered), (4, 2), "{answers:?}");
    way.heal().await.expect("toxiproxy");
    eventually(PATIENCE, || async { present(7).await.0 == 401 }).await;
}
