//! A secret that is sent in the wrong place shows up nowhere; a disk that is full stops changes and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use testbed::process::scratch;
use testbed::{AUDIENCE, Cluster, SmallDisk};

use crate::server::{PATIENCE, Server, Start, status};

const CANARY: &str = "canary-4f1d6c-token";
const PASSWORD: &str = "canary-9e2b70-password";

fn leaks(text: &str) -> bool {
    text.contains(CANARY) || text.contains(PASSWORD)
}

/// Everything under a directory, as text.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()));
        }
    }
    found
}

/// Sends the canaries in every header, field, query and body that comes to mind, with and without a good token.
async fn send_everywhere(server: &Server, token: Option<&str>) {
    let both = format!("{CANARY}:{PASSWORD}");
    let headers = [
        "Authorization",
        "Proxy-Authorization",
        "Cookie",
        "User-Agent",
        "Referer",
        "Origin",
        "X-Request-Id",
        "Traceparent",
        "Tracestate",
        "Baggage",
        "X-Forwarded-For",
        "X-Forwarded-User",
        "Forwarded",
        "X-Remote-User",
        "X-Remote-Group",
        "X-Remote-Extra-Canary",
        "X-Api-Key",
        "Accept",
        "Accept-Language",
        "Content-Type",
        "If-Match",
        "If-None-Match",
        "Range",
        "Expect",
        "Host",
        "Via",
        "Content-Md5",
        "X-Vault-Token",
    ];
    let paths = [
        "/",
        "/metrics",
        "/readyz?verbose",
        "/api/v1/tokens",
        "/api/states",
        "/api/states/a/b/lock",
        "/probe/a/b",
        "/nowhere",
    ];
    let mut requests = Vec::new();
    for path in paths {
        for header in headers {
            for method in ["GET", "POST", "LOCK"] {
                let request = server.request(method, path).header(header, &both);
                requests.push(match (token, header) {
                    (Some(token), header) if header != "Authorization" => request.bearer_auth(token),
                    _ => request,
                });
            }
        }
        requests.push(server.request("GET", path).bearer_auth(CANARY));
        requests.push(server.request("POST", path).basic_auth(CANARY, Some(PASSWORD)));
        requests.push(server.request("GET", path).basic_auth(PASSWORD, Some(CANARY)));
        requests.push(server.request("GET", &format!("{path}?token={CANARY}&password={PASSWORD}")));
    }
    let field = |name: &str| json!({"name": "x", "grants": ["viewer@*"], name: both});
    let mut bodies = ["name", "user", "groups", "grants", "expires_in_seconds", "unknown"].map(field).to_vec();
    bodies.push(json!({"name": "x", "grants": [format!("viewer@{CANARY}!")]}));
    bodies.push(json!({"name": "x", "grants": ["viewer@*"], CANARY: PASSWORD}));
    bodies.push(json!({"name": "x", "grants": ["viewer@*"], "groups": [format!("system:{CANARY}")]}));
    bodies.push(json!([CANARY, PASSWORD]));
    let texts = bodies.iter().map(ToString::to_string).chain([format!("{{\"name\": \"{CANARY}"), both.clone()]);
    for text in texts {
        for path in ["/api/v1/tokens", "/api/states/a/b/rollback", "/probe/a/b"] {
            let request = server.request("POST", path).body(text.clone());
            requests.push(match token {
                Some(token) => request.bearer_auth(token),
                None => request,
            });
        }
    }
    for path in [
        format!("/probe/{CANARY}_/b"),
        format!("/probe/a/{PASSWORD}_"),
        format!("/{CANARY}"),
        format!("/api/v1/tokens/{CANARY}"),
        format!("/api/states/{CANARY}_/b"),
        format!("/api/states/a/b/versions/{CANARY}/raw"),
        format!("/api/states/a/b?store={CANARY}"),
    ] {
        for method in ["GET", "DELETE", "LOCK"] {
            let request = server.request(method, &path);
            requests.push(match token {
                Some(token) => request.bearer_auth(token),
                None => request,
            });
        }
    }
    for request in requests {
        let (client, request) = request.build_split();
        let request = request.expect("a request");
        let (what, body) = (format!("{} {}", request.method(), request.url().path()), request.body().is_some());
        // Some of these break the protocol: no answer is an answer too.
        let Ok(response) = client.execute(request).await else { continue };
        assert!(response.status().as_u16() < 500 || response.status().as_u16() == 503, "{what}: {}", response.status());
        assert!(!leaks(&format!("{:?}", response.headers())), "{what}: {:?}", response.headers());
        // Whoever stores something gets it back; a refusal repeats nothing.
        let refused = response.status().is_client_error() || response.status().is_server_error();
        let text = response.text().await.unwrap_or_default();
        assert!(!refused || !leaks(&text), "{what} (body: {body}): {text}");
    }
}

#[tokio::test]
async fn canaries_sent_everywhere_appear_nowhere() {
    let server = Start::new().variable("STATEWARD_LOG_LEVEL", "trace").flag("--metrics-listen", "127.0.0.1:0").serve();
    let token = server.first_token();
    send_everywhere(&server, Some(&token)).await;
    send_everywhere(&server, None).await;
    let metrics = server.client().get(server.metrics_url()).send().await.unwrap().text().await.unwrap();
    assert!(!leaks(&metrics), "{metrics}");
    assert_eq!(status(server.request("GET", "/readyz")).await, 200);
    let data = server.data.clone();
    let log = server.process.log();
    let leaked = log.lines().find(|line| leaks(line));
    assert_eq!(leaked, None, "the log");
    assert!(log.lines().count() > 100, "the log says what happened");
    assert!(!log.contains(&token), "nor the token that was right");
    drop(server);
    for (path, text) in files(&data) {
        // The database holds what was stored on purpose: a token that was given such a name.
        let stored = path.to_string_lossy().contains("stateward.db");
        assert!(stored || !leaks(&text), "{}", path.display());
        assert!(path.ends_with("first-token") || !text.contains(&token), "{}", path.display());
    }
}

#[tokio::test]
async fn canaries_sent_everywhere_beside_a_cluster_appear_nowhere() {
    let cluster = Cluster::shared().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let start = Start::new().cluster(&delegator.kubeconfig).tls().flag("--access-audiences", AUDIENCE);
    let server = start.variable("STATEWARD_LOG_LEVEL", "trace").flag("--metrics-listen", "127.0.0.1:0").serve();
    send_everywhere(&server, None).await;
    let metrics = server.client().get(server.metrics_url()).send().await.unwrap().text().await.unwrap();
    assert!(!leaks(&metrics), "{metrics}");
    let (data, log) = (server.data.clone(), server.process.log());
    assert_eq!(log.lines().find(|line| leaks(line)), None, "the log");
    drop(server);
    for (path, text) in files(&data) {
        assert!(!leaks(&text), "{}", path.display());
    }
}

#[tokio::test]
async fn a_full_disk_refuses_changes_while_reads_go_on() {
    let disk = SmallDisk::mount(&scratch("disk").unwrap(), "4m");
    let server = Start::on(disk.path().join("data")).serve();
    let token = server.first_token();
    let send = |method: &str| status(server.request(method, "/probe/a/b").bearer_auth(&token).body("x"));
    assert_eq!((send("POST").await, send("GET").await), (200, 200));

    disk.fill();
    // Changes go on for as long as the log has space of its own and the database takes its head.
    testbed::eventually(PATIENCE, || async { send("POST").await == 503 }).await;
    for _ in 0..5 {
        assert_eq!(send("POST").await, 503);
        assert_eq!(send("LOCK").await, 503);
        assert_eq!(send("GET").await, 200, "reads go on");
    }
    assert_eq!(status(server.request("GET", "/readyz")).await, 503);

    disk.free();
    testbed::eventually(PATIENCE, || async { send("POST").await == 200 }).await;
    testbed::eventually(PATIENCE, || async { status(server.request("GET", "/readyz")).await == 200 }).await;
    assert_eq!(send("LOCK").await, 200, "what was refused has not been done");
    let mut verify = Command::new(env!("CARGO_BIN_EXE_stateward"));
    verify.env_clear().args(["audit", "verify", "--data-dir"]).arg(&server.data);
    let output = verify.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("as it was written"), "{text}");
    drop(server);
}
