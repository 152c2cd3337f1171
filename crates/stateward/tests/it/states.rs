//! The state protocol as requests and answers: statuses, replays, permissions, bad input.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::server::{Server, Start, answer, status};

const PATH: &str = "/state/team-a/app";

pub(crate) fn info(id: &str) -> String {
    json!({"ID": id, "Operation": "apply", "Info": "", "Who": "me@host", "Version": "1", "Path": "",
           "Created": "2026-11-16T05:59:16.123456789Z"})
    .to_string()
}

pub(crate) fn a_state(serial: u64) -> String {
    format!(
        "{{\n  \"version\": 4,\n  \"serial\": {serial},\n  \"lineage\": \"l\",\n  \"big\": 12345678901234567890123,\n  \"n\": 1.50\n}}\n"
    )
}

/// A client of one user.
pub(crate) struct User<'a> {
    pub server: &'a Server,
    pub token: String,
}

impl User<'_> {
    pub(crate) async fn send(&self, method: &str, path: &str, body: impl Into<String>) -> (u16, String) {
        answer(self.server.request(method, path).bearer_auth(&self.token).body(body.into())).await
    }

    pub(crate) async fn does(&self, method: &str, path: &str, body: impl Into<String>) -> u16 {
        self.send(method, path, body).await.0
    }
}

pub(crate) async fn user<'a>(server: &'a Server, name: &str, grants: &[&str]) -> User<'a> {
    let body = json!({"name": name, "user": name, "grants": grants});
    let request = server.request("POST", "/api/v1/tokens").bearer_auth(server.first_token()).json(&body);
    let (status, text) = answer(request).await;
    assert_eq!(status, 201, "{text}");
    let made: Value = serde_json::from_str(&text).unwrap();
    User { server, token: made["token"].as_str().unwrap().to_owned() }
}

#[tokio::test]
async fn every_request_sent_twice_gets_the_same_answer() {
    let server = Start::new().serve();
    let user = user(&server, "ann", &["editor@*"]).await;
    let with_id = format!("{PATH}?ID=a");
    let sequence = [
        ("UNLOCK", PATH, info("a"), 200),
        ("LOCK", PATH, info("a"), 200),
        ("POST", with_id.as_str(), a_state(1), 200),
        ("PUT", with_id.as_str(), a_state(2), 200),
        ("UNLOCK", PATH, info("a"), 200),
        ("POST", with_id.as_str(), a_state(3), 423),
        ("POST", PATH, a_state(4), 200),
    ];
    for (method, path, body, expected) in sequence {
        for _ in 0..2 {
            assert_eq!(user.does(method, path, body.clone()).await, expected, "{method} {path}");
        }
    }
    assert_eq!(user.send("GET", PATH, "").await, (200, a_state(4)));
    // An UNLOCK that comes late, when another has locked since, changes nothing.
    assert_eq!(user.does("LOCK", PATH, info("b")).await, 200);
    assert_eq!(user.does("UNLOCK", PATH, info("a")).await, 200);
    assert_eq!(user.does("POST", PATH, a_state(5)).await, 423);
    for _ in 0..2 {
        assert_eq!(user.does("DELETE", &format!("{PATH}?ID=b"), "").await, 200);
    }
    assert_eq!(user.does("GET", PATH, "").await, 404);
}

#[tokio::test]
async fn a_conflict_shows_the_holder_as_it_was_sent() {
    let server = Start::new().serve();
    let user = user(&server, "ann", &["editor@*"]).await;
    let sent =
        "{\"who\":\"me\", \"ID\":\"a\",\n\"Created\":\"2026-11-16T05:59:16Z\", \"Extra\": 12345678901234567890123}";
    assert_eq!(user.does("LOCK", PATH, sent).await, 200);
    let with_wrong_id = format!("{PATH}?ID=b");
    for (method, path, body) in [
        ("LOCK", PATH, info("b")),
        ("UNLOCK", PATH, info("b")),
        ("POST", PATH, a_state(1)),
        ("POST", &with_wrong_id, a_state(1)),
        ("DELETE", PATH, String::new()),
    ] {
        assert_eq!(user.send(method, path, body).await, (423, sent.to_owned()), "{method} {path}");
    }
    assert_eq!(user.does("GET", PATH, "").await, 404, "nothing was written");
}

#[tokio::test]
async fn breaking_a_lock_needs_its_own_permission() {
    let server = Start::new().serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    let bob = user(&server, "bob", &["editor@*"]).await;
    let root = user(&server, "root", &["admin@*"]).await;
    for (what, body) in [("empty", String::new()), ("the right ID of another user", info("a"))] {
        assert_eq!(ann.does("LOCK", PATH, info("a")).await, 200);
        assert_eq!(bob.does("UNLOCK", PATH, body.clone()).await, 403, "{what}");
        assert_eq!(bob.does("LOCK", PATH, info("a")).await, 423, "knowing the ID makes nobody a holder");
        assert_eq!(ann.does("LOCK", PATH, info("a")).await, 200, "still hers");
        assert_eq!(root.does("UNLOCK", PATH, body.clone()).await, 200, "{what}");
        let (status, text) = ann.send("POST", &format!("{PATH}?ID=a"), a_state(1)).await;
        assert_eq!(status, 423);
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["ID"], "a");
        assert!(told["Info"].as_str().unwrap().contains("broken by root"), "{text}");
        assert_eq!(ann.does("UNLOCK", PATH, info("a")).await, 200, "her own late UNLOCK");
    }
    // An empty body on a free state breaks nothing.
    assert_eq!(bob.does("UNLOCK", PATH, "").await, 200);

    let strict = Start::new().switch("--states-forced-unlock=false").serve();
    let root = user(&strict, "root", &["admin@*"]).await;
    assert_eq!(root.does("LOCK", PATH, info("a")).await, 200);
    assert_eq!(root.does("UNLOCK", PATH, "").await, 403);
    assert_eq!(root.does("UNLOCK", PATH, info("a")).await, 200);
}

#[tokio::test]
async fn an_expired_lock_is_taken_over_by_the_next_and_its_holder_never_writes_again() {
    let server = Start::new().flag("--states-lock-expiry", "1s").serve();
    let user = user(&server, "ann", &["editor@*"]).await;
    assert_eq!(user.does("LOCK", PATH, info("a")).await, 200);
    assert_eq!(user.does("POST", PATH, a_state(1)).await, 423, "expiry releases nothing");
    testbed::eventually(crate::server::PATIENCE, || async { user.does("LOCK", PATH, info("b")).await == 200 }).await;
    assert_eq!(user.does("POST", &format!("{PATH}?ID=a"), a_state(1)).await, 423);
    assert_eq!(user.does("POST", &format!("{PATH}?ID=b"), a_state(2)).await, 200);
    assert_eq!(user.does("UNLOCK", PATH, info("b")).await, 200);
    assert_eq!(user.does("POST", &format!("{PATH}?ID=a"), a_state(3)).await, 423);
    assert_eq!(user.send("GET", PATH, "").await.1, a_state(2));
}

#[tokio::test]
async fn each_role_may_do_what_its_row_says() {
    let server = Start::new().serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    assert_eq!(ann.does("POST", PATH, a_state(1)).await, 200);
    let requests = [
        ("GET", PATH, String::new()),
        ("LOCK", PATH, info("x")),
        ("UNLOCK", PATH, info("x")),
        ("POST", PATH, a_state(2)),
        ("POST", "/state/team-a/new", a_state(2)),
        ("DELETE", "/state/team-a/new", String::new()),
    ];
    for (grants, expected) in
        [("editor@team-*", "yyyyyy"), ("viewer@*", "ynnnnn"), ("outputs@*", "nnnnnn"), ("editor@b", "nnnnnn")]
    {
        let user = user(&server, &format!("user-{}", grants.replace(['@', '*'], "-")), &[grants]).await;
        let mut found = String::new();
        for (method, path, body) in &requests {
            let status = user.does(method, path, body.clone()).await;
            assert!(matches!(status, 200 | 403), "{grants} {method} {path}: {status}");
            found.push(if status == 200 { 'y' } else { 'n' });
        }
        assert_eq!(found, expected, "{grants}");
    }
    assert_eq!(status(server.request("GET", PATH)).await, 401);
}

#[tokio::test]
async fn outputs_can_be_read_without_the_state() {
    let server = Start::new().serve();
    let ann = user(&server, "ann", &["editor@*"]).await;
    let reader = user(&server, "reader", &["outputs@*"]).await;
    let path = format!("{PATH}/outputs");
    assert_eq!(reader.does("GET", &path, "").await, 404);
    let state = json!({
        "version": 4, "terraform_version": "1.12.6", "serial": 3, "lineage": "l",
        "outputs": {
            "open": {"value": "seen", "type": "string"},
            "secret": {"value": "canary-output", "type": "string", "sensitive": true},
        },
        "resources": [{"type": "x", "instances": [{"attributes": {"password": "canary-attribute"}}]}],
    });
    assert_eq!(ann.does("POST", PATH, state.to_string()).await, 200);
    assert_eq!(reader.does("GET", PATH, "").await, 403);
    let (status, text) = reader.send("GET", &path, "").await;
    assert_eq!(status, 200, "{text}");
    assert!(!text.contains("canary"), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&document["serial"], &document["resources"]), (&json!(3), &json!([])));
    assert_eq!(document["outputs"], json!({"open": {"value": "seen", "type": "string"}}));
    let (_, text) = ann.send("GET", &path, "").await;
    assert!(text.contains("canary-output") && !text.contains("canary-attribute"), "{text}");

    let sealed = json!({"serial": 4, "lineage": "l", "meta": {}, "encrypted_data": "AAAA", "encryption_version": "v0"});
    assert_eq!(ann.does("POST", PATH, sealed.to_string()).await, 200);
    assert_eq!(ann.does("GET", &path, "").await, 409);
    assert_eq!(ann.send("GET", PATH, "").await.1, sealed.to_string());
}

#[tokio::test]
async fn bad_requests_are_told_what_is_wrong_and_store_nothing() {
    let server = Start::new().flag("--states-body-bytes", "1MiB").serve();
    let user = user(&server, "ann", &["editor@*"]).await;
    let big = format!("{{\"x\": \"{}\"}}", "y".repeat(1 << 20));
    let cases = [
        ("POST", PATH, "not json".to_owned(), 400, "JSON"),
        ("POST", PATH, String::new(), 400, ""),
        ("POST", PATH, "{\"a\": ".to_owned(), 400, ""),
        ("POST", PATH, big, 413, "states.body_bytes"),
        ("LOCK", PATH, String::new(), 400, "LockInfo"),
        ("LOCK", PATH, "{}".to_owned(), 400, "no ID"),
        ("LOCK", PATH, "{\"ID\": \"\"}".to_owned(), 400, "no ID"),
        ("LOCK", PATH, format!("{{\"ID\": \"a\", \"Info\": \"{}\"}}", "x".repeat(64 << 10)), 413, "LockInfo"),
        ("UNLOCK", PATH, "[]".to_owned(), 400, "LockInfo"),
        ("GET", "/state/Team/app", String::new(), 400, "namespace"),
        ("POST", "/state/team-a/a_b", a_state(1), 400, "name"),
        ("LOCK", "/state/team-a/a%2Fb", info("a"), 400, "name"),
        ("PATCH", PATH, String::new(), 405, "method"),
    ];
    for (method, path, body, expected, words) in cases {
        let shown = body.chars().take(20).collect::<String>();
        let (status, text) = user.send(method, path, body).await;
        assert_eq!(status, expected, "{method} {path} {shown}: {text}");
        assert!(text.contains(words), "{method} {path} {shown}: {text}");
    }
    assert_eq!(user.does("GET", PATH, "").await, 404);
    assert_eq!(user.does("POST", PATH, a_state(1)).await, 200, "nothing was left locked");

    let response = server.request("PATCH", PATH).bearer_auth(&user.token).send().await.unwrap();
    assert_eq!(response.headers()["allow"], "GET, HEAD, POST, PUT, DELETE, LOCK, UNLOCK");
    let response = server.request("LOCK", PATH).bearer_auth(&user.token).body(info("a")).send().await.unwrap();
    assert!(response.headers().get("allow").is_none());
}

#[tokio::test]
async fn content_md5_and_gzip_are_honoured() {
    use std::io::Write as _;
    let server = Start::new().flag("--states-body-bytes", "1MiB").serve();
    let user = user(&server, "ann", &["editor@*"]).await;
    let post = |md5: &str, encoding: &str, body: Vec<u8>| {
        let request = server.request("POST", PATH).bearer_auth(&user.token).header("Content-MD5", md5);
        status(request.header("Content-Encoding", encoding).body(body))
    };
    let md5 = |bytes: &[u8]| BASE64_STANDARD.encode(<md5::Md5 as md5::Digest>::digest(bytes));
    let body = a_state(1).into_bytes();
    assert_eq!(post(&md5(b"other"), "identity", body.clone()).await, 400);
    assert_eq!(post("?", "identity", body.clone()).await, 400);
    assert_eq!(user.does("GET", PATH, "").await, 404);
    assert_eq!(post(&md5(&body), "identity", body.clone()).await, 200);

    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let packed = gzip(a_state(2).as_bytes());
    assert_eq!(post(&md5(&packed), "gzip", packed.clone()).await, 200);
    assert_eq!(user.send("GET", PATH, "").await.1, a_state(2));
    let bomb = gzip(&vec![b' '; 64 << 20]);
    assert_eq!(post(&md5(&bomb), "gzip", bomb.clone()).await, 413);
    let cut = packed[..packed.len() - 9].to_vec();
    assert_eq!(post(&md5(&cut), "gzip", cut.clone()).await, 400);
    assert_eq!(post(&md5(&body), "gzip", body.clone()).await, 400);
    assert_eq!(post(&md5(&body), "br", body.clone()).await, 415);
    assert_eq!(user.send("GET", PATH, "").await.1, a_state(2));
}
