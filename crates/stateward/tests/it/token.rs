//! `stateward token` and the client behind it, against a small HTTP server that notes what it gets.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::run::{Run, stateward};

/// What the server was sent.
#[derive(Clone, Debug)]
struct Seen {
    line: String,
    authorization: Option<String>,
    body: Value,
}

/// A server that answers everything alike.
struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn answering(status: u16, body: Value) -> Server {
        Server::with(move |_| (StatusCode::from_u16(status).unwrap(), axum::Json(body.clone())).into_response())
    }

    fn with(answer: impl Fn(&Seen) -> Response + Clone + Send + Sync + 'static) -> Server {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = seen.clone();
        let router = Router::new().fallback(move |request: Request| {
            let (notes, answer) = (notes.clone(), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                let text = |value: &header::HeaderValue| value.to_str().unwrap().to_owned();
                let seen = Seen {
                    line: format!("{} {}", parts.method, parts.uri),
                    authorization: parts.headers.get(header::AUTHORIZATION).map(text),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                };
                notes.lock().unwrap().push(seen.clone());
                answer(&seen)
            }
        });
        runtime.spawn(async move { axum::serve(listener, router).await });
        Server { address, seen, _runtime: runtime }
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        let server = format!("http://{}", self.address);
        Run::of(stateward(arguments).args(["--server", &server]).envs(variables.iter().copied()))
    }

    #[track_caller]
    fn one(&self) -> Seen {
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }
}

fn created() -> Value {
    json!({
        "id": "t1", "name": "ci", "user": "ci", "groups": ["g"], "grants": ["viewer@team-*"],
        "created_at": "2026-11-16T00:00:00Z", "expires_at": "2026-12-16T00:00:00Z", "token": "sw_secret"
    })
}

#[test]
fn create_prints_the_token_alone_on_stdout_and_the_facts_on_stderr() {
    let server = Server::answering(201, created());
    let arguments =
        ["token", "create", "ci", "--grant", "viewer@team-*", "--group", "g", "--expires", "30d", "--token", "mine"];
    let run = server.run(&arguments, &[]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "sw_secret\n"), "{run:#?}");
    assert!(run.err.contains("t1") && run.err.contains("2026-12-16") && !run.err.contains("sw_secret"), "{run:#?}");
    let seen = server.one();
    assert_eq!((seen.line.as_str(), seen.authorization.as_deref()), ("POST /api/v1/tokens", Some("Bearer mine")));
    let expected =
        json!({ "name": "ci", "groups": ["g"], "grants": ["viewer@team-*"], "expires_in_seconds": 2_592_000 });
    assert_eq!(seen.body, expected);
}

#[test]
fn create_gives_programs_the_whole_answer() {
    let server = Server::answering(201, created());
    let out = server.run(&["token", "create", "ci", "--grant", "viewer@*", "-o", "json", "--token", "mine"], &[]).ok();
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), created());
    let out = server.run(&["token", "create", "ci", "--grant", "viewer@*", "-o", "yaml", "--token", "mine"], &[]).ok();
    assert_eq!(serde_saphyr::from_str::<Value>(&out).unwrap(), created());
}

#[test]
fn list_is_a_table_for_people() {
    let mut token = created();
    token.as_object_mut().unwrap().remove("token");
    let server = Server::answering(200, json!({ "items": [token, { "id": "t2", "name": "root" }] }));
    let out = server.run(&["token", "list", "--token", "mine"], &[]).ok();
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["ID", "NAME", "USER", "GROUPS", "GRANTS", "CREATED", "EXPIRES"]);
    assert_eq!(lines[1], ["t1", "ci", "ci", "g", "viewer@team-*", "2026-11-16T00:00:00Z", "2026-12-16T00:00:00Z"]);
    assert_eq!((lines[2][0], lines[2].last()), ("t2", Some(&"never")));
}

#[test]
fn revoke_escapes_names_goes_on_after_a_failure_and_tells_both() {
    let server = Server::with(|seen| {
        if seen.line.ends_with("/missing") {
            let error =
                json!({ "error": { "status": 404, "message": "no token is called missing", "hint": "list them" } });
            return (StatusCode::NOT_FOUND, axum::Json(error)).into_response();
        }
        axum::Json(json!({ "id": "t1", "name": "a/b", "revoked": true })).into_response()
    });
    let run = server.run(&["token", "revoke", "missing", "a/b", "--token", "mine"], &[]);
    assert_eq!(run.code, Some(3), "{run:#?}");
    assert!(
        run.out.contains("t1") && run.err.ends_with("error: no token is called missing\nhint: list them\n"),
        "{run:#?}"
    );
    let lines: Vec<String> = server.seen.lock().unwrap().iter().map(|seen| seen.line.clone()).collect();
    assert_eq!(lines, ["DELETE /api/v1/tokens/missing", "DELETE /api/v1/tokens/a%2Fb"]);
    assert_eq!(server.run(&["token", "revoke", "..", "--token", "mine"], &[]).code, Some(2));
    assert_eq!(server.seen.lock().unwrap().len(), 2, "nothing is sent for a name that cannot be");
}

#[test]
fn refusals_become_exit_codes_with_the_words_of_the_server() {
    for (status, code) in [(400, 1), (401, 4), (403, 4), (404, 3), (409, 5), (423, 8), (429, 6), (500, 1), (503, 6)] {
        let error = json!({ "error": { "status": status, "reason": "R", "message": "the message", "hint": "the hint", "request_id": "r1" } });
        let server = Server::answering(status, error);
        let run = server.run(&["token", "list", "--token", "mine"], &[]);
        run.fails(code, "error: the message (request r1)\nhint: the hint\n");
    }
    let server = Server::answering(401, json!("nothing useful"));
    server.run(&["token", "list"], &[]).fails(4, "hint: no credential was sent");
    let server = Server::answering(200, json!({ "unexpected": true }));
    server.run(&["token", "list"], &[]).fails(1, "not one that this version understands");
}

#[test]
fn words_of_the_server_cannot_drive_the_terminal() {
    let server = Server::answering(400, json!({ "error": { "message": "\u{1b}[2Jgone", "hint": "\u{7}" } }));
    let run = server.run(&["token", "list"], &[]);
    assert!(run.code == Some(1) && !run.err.contains('\u{1b}') && !run.err.contains('\u{7}'), "{run:#?}");
}

#[test]
fn a_redirect_is_not_followed() {
    let target = Server::answering(200, json!({ "items": [] }));
    let location = format!("http://{}/", target.address);
    let server =
        Server::with(move |_| (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location.clone())]).into_response());
    server.run(&["token", "list", "--token", "mine"], &[]).fails(1, "redirects to");
    assert!(target.seen.lock().unwrap().is_empty());
}

#[test]
fn a_credential_is_not_sent_in_clear_to_another_machine() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "canary").unwrap();
    let file = file.to_str().unwrap();
    let kubeconfig = kubeconfig(directory.path(), &json!({ "token": "canary" }));
    for identity in [["--token", "canary"], ["--token-file", file], ["--kubeconfig", &kubeconfig]] {
        let mut command = stateward(&["token", "list", "--server", "http://stateward.example.com:8642"]);
        let run = Run::of(command.args(identity));
        run.fails(2, "is not sent in clear");
        assert!(!run.err.contains("canary"), "{run:#?}");
    }
    Run::of(&mut stateward(&["token", "list", "--server", "http://u:canary@127.0.0.1/"]))
        .fails(2, "holds a user or password");
    Run::of(&mut stateward(&["token", "list", "--server", "ftp://127.0.0.1/"])).fails(2, "http or https");
}

#[test]
fn a_proxy_never_gets_what_is_meant_for_loopback() {
    let proxy = Server::answering(200, json!({ "items": [] }));
    let server = Server::answering(200, json!({ "items": [] }));
    let address = format!("http://{}", proxy.address);
    server.run(&["token", "list", "--token", "mine"], &[("HTTP_PROXY", &address), ("http_proxy", &address)]).ok();
    assert_eq!((server.seen.lock().unwrap().len(), proxy.seen.lock().unwrap().len()), (1, 0));
}

#[test]
fn a_server_that_is_not_there_or_does_not_answer_ends_with_6() {
    let port = testbed::process::free_port().unwrap();
    let nobody = format!("http://127.0.0.1:{port}");
    Run::of(&mut stateward(&["token", "list", "--server", &nobody])).fails(6, "failed to reach");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    Run::of(&mut stateward(&["token", "list", "--timeout", "300ms", "--server", &url]))
        .fails(6, "allow more time with --timeout");
}

#[test]
fn the_identity_comes_from_the_first_place_that_has_one() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (flag_file, variable_file) = (write("flag", "from-flag-file\n"), write("variable", "from-variable-file\n"));
    write("first-token", "from-first-token\n");
    let data = directory.path().to_str().unwrap();
    let all =
        [("STATEWARD_TOKEN", "from-variable"), ("STATEWARD_TOKEN_FILE", &variable_file), ("STATEWARD_DATA_DIR", data)];
    let check = |arguments: &[&str], variables: &[(&str, &str)], expected: Option<&str>| {
        let server = Server::answering(200, json!({ "items": [] }));
        server.run(&[&["token", "list"], arguments].concat(), variables).ok();
        assert_eq!(server.one().authorization.as_deref(), expected, "{arguments:?} {variables:?}");
    };
    check(&["--token", "from-flag"], &all, Some("Bearer from-flag"));
    check(&["--token-file", &flag_file], &all, Some("Bearer from-flag-file"));
    check(&[], &all, Some("Bearer from-variable"));
    check(&[], &all[1..], Some("Bearer from-variable-file"));
    check(&[], &all[2..], Some("Bearer from-first-token"));
    check(&[], &[], None);
    let server = Server::answering(200, json!({ "items": [] }));
    server.run(&["token", "list", "--token", "a", "--token-file", &flag_file], &[]).fails(2, "exclude one another");
    server.run(&["token", "list", "--token-file", "/nowhere/token"], &[]).fails(2, "/nowhere/token");
    server.run(&["token", "list", "--token", "new\nline"], &[]).fails(2, "no token has");
}

fn kubeconfig(directory: &Path, user: &Value) -> String {
    let path = directory.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [{ "name": "u", "user": user }, { "name": "other", "user": { "token": "other-token" } }],
        "contexts": [
            { "name": "one", "context": { "cluster": "c", "user": "u" } },
            { "name": "two", "context": { "cluster": "c", "user": "other" } },
        ],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_kubeconfig_gives_the_identity_of_its_context() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), "file-token\n").unwrap();
    let plugin = directory.path().join("plugin");
    let script = "#!/bin/sh\ncase $KUBERNETES_EXEC_INFO in *ExecCredential*) ;; *) exit 3 ;; esac\n\
                  echo '{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"'$1-$WORD'\"}}'\n";
    std::fs::write(&plugin, script).unwrap();
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o700)).unwrap();
    let exec = json!({ "apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "args": ["exec"],
        "env": [{ "name": "WORD", "value": "token" }], "interactiveMode": "Never" });
    let table = [
        (json!({ "token": "inline-token" }), "Bearer inline-token"),
        (json!({ "tokenFile": directory.path().join("token") }), "Bearer file-token"),
        (json!({ "username": "u", "password": "p" }), "Basic dTpw"),
        (json!({ "exec": exec }), "Bearer exec-token"),
    ];
    for (user, expected) in table {
        let path = kubeconfig(directory.path(), &user);
        let server = Server::answering(200, json!({ "items": [] }));
        server.run(&["token", "list", "--kubeconfig", &path], &[("STATEWARD_TOKEN", "ignored")]).ok();
        assert_eq!(server.one().authorization.as_deref(), Some(expected), "{user}");
    }
    let path = kubeconfig(directory.path(), &json!({}));
    let server = Server::answering(200, json!({ "items": [] }));
    server.run(&["token", "list", "--context", "two"], &[("KUBECONFIG", &path)]).ok();
    assert_eq!(server.one().authorization.as_deref(), Some("Bearer other-token"));
    server.run(&["token", "list", "--kubeconfig", &path], &[]).fails(2, "has no credentials");
    server.run(&["token", "list", "--kubeconfig", &path, "--context", "three"], &[]).fails(2, "three");
    server.run(&["token", "list", "--kubeconfig", "/nowhere/config"], &[]).fails(2, "/nowhere/config");
}

#[test]
fn a_kubeconfig_that_would_be_somebody_else_is_refused() {
    let server = Server::answering(200, json!({ "tokens": [] }));
    let directory = tempfile::tempdir().unwrap();
    let fields = [
        ("as", json!("jane")),
        ("as-uid", json!("1")),
        ("as-groups", json!(["dev"])),
        ("as-user-extra", json!({ "a": ["b"] })),
    ];
    for (field, value) in fields {
        let mut user = json!({ "token": "canary" });
        user[field] = value;
        let path = kubeconfig(directory.path(), &user);
        let refused = server.run(&["token", "list", "--kubeconfig", &path], &[]);
        refused.fails(2, &format!("the user has the field '{field}'"));
    }
}

#[test]
fn a_kubeconfig_that_fails_does_not_tell_its_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = |text: &str| {
        json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", text],
            "interactiveMode": "Never", "env": [{ "name": "PASSWORD", "value": "canary" }] } })
    };
    let server = Server::answering(200, json!({ "items": [] }));
    let check = |user: &Value, fault: &str| {
        let path = kubeconfig(directory.path(), user);
        let run = server.run(&["token", "list", "--timeout", "20s", "--kubeconfig", &path], &[]);
        run.fails(2, fault);
        assert!(!run.err.contains("canary"), "{run:#?}");
    };
    check(&plugin("echo $PASSWORD; exit 1"), "the exec plugin sh failed");
    check(&plugin("echo $PASSWORD"), "printed no ExecCredential");
    check(&json!({ "token": "canary\nX-Other: 1" }), "no token has");
    check(&json!({ "client-certificate-data": "canary!", "client-key-data": "canary!" }), "is not base64");
    check(&json!({ "auth-provider": { "name": "gcp", "config": { "access-token": "canary" } } }), "auth-provider");

    let broken = directory.path().join("broken");
    std::fs::write(&broken, "users: [{ name: u, user: { token: canary\n").unwrap();
    let run = server.run(&["token", "list", "--kubeconfig", broken.to_str().unwrap()], &[]);
    run.fails(2, "is not a kubeconfig");
    assert!(!run.err.contains("canary"), "{run:#?}");
    assert!(server.seen.lock().unwrap().is_empty());
}

#[test]
fn an_exec_plugin_that_hangs_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let user = json!({ "exec": { "command": "sleep", "args": ["600"], "interactiveMode": "Never" } });
    let path = kubeconfig(directory.path(), &user);
    let server = Server::answering(200, json!({ "items": [] }));
    server.run(&["token", "list", "--timeout", "300ms", "--kubeconfig", &path], &[]).fails(2, "has not ended within");
}
