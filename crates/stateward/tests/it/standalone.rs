//! A server without a cluster: its first token, static tokens and roles, one process per data directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testbed::process::scratch;

use crate::run::stateward;
use crate::server::{PATIENCE, Server, Start, answer, status};

async fn create(server: &Server, token: &str, body: Value) -> (u16, Value) {
    let (status, text) = answer(server.request("POST", "/api/v1/tokens").bearer_auth(token).json(&body)).await;
    (status, serde_json::from_str(&text).expect("JSON"))
}

async fn token(server: &Server, name: &str, grants: &[&str]) -> String {
    let (status, made) = create(server, &server.first_token(), json!({"name": name, "grants": grants})).await;
    assert_eq!(status, 201, "{made}");
    made["token"].as_str().expect("a token").to_owned()
}

#[tokio::test]
async fn the_first_start_leaves_one_token_that_only_the_owner_can_read() {
    let server = Start::new().serve();
    let file = server.data.join("first-token");
    assert!(server.process.log().contains(&format!("First token (for the user 'admin') is in {}", file.display())));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&server.data).unwrap().permissions().mode() & 0o777, 0o700);
    let first = server.first_token();
    assert!(!server.process.log().contains(&first), "the token is in no log");
    assert_eq!(status(server.request("GET", "/api/v1/tokens").bearer_auth(&first)).await, 200);

    // Revoked and started again: there is no second first token.
    assert_eq!(status(server.request("DELETE", "/api/v1/tokens/first").bearer_auth(&first)).await, 200);
    assert_eq!(status(server.request("GET", "/api/v1/tokens").bearer_auth(&first)).await, 401);
    let data = server.data.clone();
    drop(server);
    fs::remove_file(&file).unwrap();
    let server = Start::on(data).serve();
    assert!(!file.exists());
    assert!(!server.process.log().contains("First token"));
}

#[tokio::test]
async fn whoever_has_the_data_directory_can_always_get_back_in() {
    let server = Start::new().serve();
    let first = server.first_token();
    assert_eq!(status(server.request("DELETE", "/api/v1/tokens/first").bearer_auth(&first)).await, 200);
    let rescue = |data: &Path| stateward(&["rescue", "again", "--data-dir"]).arg(data).output().unwrap();
    let refused = rescue(&server.data);
    assert_eq!(refused.status.code(), Some(5), "not while the server runs");
    let data = server.data.clone();
    drop(server);
    let output = rescue(&data);
    assert!(output.status.success(), "{output:?}");
    let token = String::from_utf8(output.stdout).unwrap();
    let server = Start::on(data).serve();
    assert_eq!(status(server.request("GET", "/api/v1/tokens").bearer_auth(token.trim())).await, 200);
    let log = fs::read_to_string(server.data.join("audit/audit.log")).unwrap();
    assert!(log.contains("stateward rescue") && !log.contains(token.trim()), "{log}");
}

#[test]
fn a_terminal_is_shown_the_first_token_and_no_file_is_made() {
    let data = scratch("terminal").unwrap().join("data");
    let serve = format!(
        "timeout --signal=TERM 60 {} serve --listen 127.0.0.1:0 --data-dir {}",
        env!("CARGO_BIN_EXE_stateward"),
        data.display()
    );
    let log = data.with_extension("log");
    let mut command = Command::new("script");
    command.args(["--quiet", "--flush", "--return", "--command", &serve, "/dev/null"]);
    let mut process = testbed::Process::spawn("stateward on a terminal", &mut command, &log).unwrap();
    let read = || fs::read_to_string(&log).unwrap_or_default();
    process.wait_until(PATIENCE, || read().contains("Stateward is at")).unwrap();
    assert!(read().contains("First token (shown this once, for the user 'admin'): stw_"), "{}", read());
    assert!(!data.join("first-token").exists());
}

#[tokio::test]
async fn the_database_holds_hashes_and_never_a_token() {
    let server = Start::new().serve();
    let made = token(&server, "ci", &["viewer@*"]).await;
    let first = server.first_token();
    let stored = |data: &Path| -> Vec<u8> {
        // The log first: what a checkpoint takes out of it meanwhile is then in the database.
        let files = ["stateward.db-wal", "stateward.db"].map(|name| fs::read(data.join(name)).unwrap_or_default());
        files.concat()
    };
    let bytes = stored(&server.data);
    let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    for token in [&made, &first] {
        // `stw_<id>_<secret>`, and a secret may have underscores of its own.
        let secret = token.splitn(3, '_').nth(2).unwrap();
        assert_eq!(secret.len(), 43);
        assert!(!holds(token.as_bytes()) && !holds(secret.as_bytes()), "a token is in the database");
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.as_bytes());
        assert!(holds(hash.as_ref()), "its hash is");
    }
    // A right id with a wrong secret, of any length, is nobody.
    let id = &made[..made.len() - 44];
    for secret in ["x", &"x".repeat(43), &made[..made.len() - 1], ""] {
        let request = server.request("GET", "/probe/a/b").bearer_auth(format!("{id}_{secret}"));
        assert_eq!(status(request).await, 401, "{secret}");
    }
}

#[tokio::test]
async fn roles_hold_in_the_namespaces_of_their_pattern() {
    let server = Start::new().serve();
    let requests =
        [("GET", "a"), ("POST", "a"), ("UNLOCK", "a"), ("GET", "team-1"), ("POST", "team-1"), ("GET", "other")];
    let paths = ["/metrics", "/readyz?verbose", "/api/v1/tokens"];
    // Columns: the requests, then the paths.
    let table = [
        (&["admin@*"][..], "yyyyyy yyy"),
        (&["editor@*"], "yynyyy yyn"),
        (&["viewer@*"], "ynnyny yyn"),
        (&["monitor@*"], "nnnnnn yyn"),
        (&["outputs@*"], "nnnnnn nnn"),
        (&["admin@a"], "yyynnn nnn"),
        (&["editor@team-*"], "nnnyyn nnn"),
        (&["viewer@team-*"], "nnnynn nnn"),
        (&["viewer@*", "editor@a"], "yynyny yyn"),
        (&["viewer@b", "monitor@a"], "nnnnnn nnn"),
    ];
    for (row, (grants, expected)) in table.into_iter().enumerate() {
        let token = token(&server, &format!("row-{row}"), grants).await;
        let mut found = String::new();
        let mut tell = |status: u16| found.push(if status == 200 { 'y' } else { 'n' });
        for (method, namespace) in requests {
            let request = server.request(method, &format!("/probe/{namespace}/thing")).bearer_auth(&token);
            let (status, text) = answer(request).await;
            assert!(matches!(status, 200 | 403), "{text}");
            tell(status);
        }
        for path in paths {
            tell(status(server.request("GET", path).bearer_auth(&token)).await);
        }
        found.insert(requests.len(), ' ');
        assert_eq!(found, expected, "{grants:?}");
    }
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once_by_every_process_on_the_database() {
    let postgres = testbed::Postgres::shared().expect("PostgreSQL");
    let sqlite = scratch("shared").unwrap().join("shared.db");
    let database = postgres.create_database().expect("a database");
    let urls = [format!("sqlite:{}", sqlite.display()), postgres.url(&database)];
    for url in urls {
        let servers: Vec<Server> =
            (0..2).map(|_| Start::new().variable("STATEWARD_DATABASE_URL", &url).serve()).collect();
        let admin = servers[0].first_token();
        assert!(!servers[1].data.join("first-token").exists(), "one first token for one database");
        for round in 0..5 {
            let (made_by, revoked_by) = (&servers[round % 2], &servers[(round + 1) % 2]);
            let body = json!({"name": format!("round-{round}"), "grants": ["viewer@*"]});
            let (created, made) = create(made_by, &admin, body).await;
            assert_eq!(created, 201, "{made}");
            let token = made["token"].as_str().unwrap();
            for server in &servers {
                assert_eq!(status(server.request("GET", "/probe/a/b").bearer_auth(token)).await, 200);
            }
            let path = format!("/api/v1/tokens/{}", made["id"].as_str().unwrap());
            assert_eq!(status(revoked_by.request("DELETE", &path).bearer_auth(&admin)).await, 200);
            for server in &servers {
                assert_eq!(status(server.request("GET", "/probe/a/b").bearer_auth(token)).await, 401);
            }
        }
    }
}

#[tokio::test]
async fn a_database_that_goes_away_fails_closed_and_is_found_again() {
    let postgres = testbed::Postgres::start().expect("PostgreSQL");
    let database = postgres.create_database().expect("a database");
    let server = Start::new()
        .variable("STATEWARD_DATABASE_URL", &postgres.url(&database))
        .flag("--database-deadline", "2s")
        .serve();
    let token = server.first_token();
    let send = |method: &'static str| status(server.request(method, "/probe/a/b").bearer_auth(&token));
    assert_eq!((send("GET").await, send("POST").await), (200, 200));
    postgres.kill();
    for method in ["GET", "POST", "LOCK"] {
        assert_eq!(send(method).await, 503, "{method}: nobody can be known, so nobody gets in");
    }
    assert_eq!(status(server.request("GET", "/readyz")).await, 503);
    postgres.start_again().expect("PostgreSQL again");
    testbed::eventually(PATIENCE, || async { send("LOCK").await == 200 }).await;
    testbed::eventually(PATIENCE, || async { status(server.request("GET", "/readyz")).await == 200 }).await;
    let verify = stateward(&["audit", "verify", "--data-dir"])
        .arg(&server.data)
        .env("STATEWARD_DATABASE_URL", postgres.url(&database))
        .output()
        .unwrap();
    assert!(verify.status.success(), "{verify:?}");
}

#[tokio::test]
async fn wrong_tokens_are_refused_with_the_field_and_the_cure() {
    let server = Start::new().serve();
    let admin = server.first_token();
    let good = json!({"name": "good", "grants": ["viewer@*"]});
    assert_eq!(create(&server, &admin, good.clone()).await.0, 201);
    assert_eq!(create(&server, &admin, good).await.0, 409, "the name is taken");
    let cases = [
        (json!({"grants": ["viewer@*"]}), "'name' is missing"),
        (json!({"name": 5, "grants": ["viewer@*"]}), "'name' is not a text"),
        (json!({"name": "", "grants": ["viewer@*"]}), "'name' must be"),
        (json!({"name": "0123456789abcdef", "grants": ["viewer@*"]}), "look like a token id"),
        (json!({"name": "x"}), "'grants' must name at least one"),
        (json!({"name": "x", "grants": ["root@*"]}), "'grants' has an entry"),
        (json!({"name": "x", "grants": ["viewer@A"]}), "'grants' has an entry"),
        (json!({"name": "x", "grants": "viewer@*"}), "'grants' is not a list"),
        (json!({"name": "x", "grants": ["viewer@*"], "user": "system:admin"}), "must not begin with 'system:'"),
        (json!({"name": "x", "grants": ["viewer@*"], "groups": ["system:masters"]}), "must not begin with 'system:'"),
        (json!({"name": "x", "grants": ["viewer@*"], "expires_in_seconds": -1}), "'expires_in_seconds' is not a whole"),
        (json!({"name": "x", "grants": ["viewer@*"], "expires_in_seconds": 0}), "'expires' must be in the future"),
        (json!({"name": "x", "grants": ["viewer@*"], "colour": "red"}), "a field that is not known"),
        (json!(["x"]), "not a JSON object"),
    ];
    for (body, fault) in cases {
        let (status, told) = create(&server, &admin, body.clone()).await;
        let error = &told["error"];
        assert_eq!(status, 400, "{body}: {told}");
        assert!(error["message"].as_str().unwrap().contains(fault), "{body}: {told}");
        assert!(!error["hint"].as_str().unwrap().is_empty(), "{body}: {told}");
    }
    let request = server.request("POST", "/api/v1/tokens").bearer_auth(&admin).body("{\"name\": ");
    assert_eq!(status(request).await, 400);
    let large = "x".repeat(2 << 20);
    let request = server.request("POST", "/api/v1/tokens").bearer_auth(&admin).body(large);
    assert_eq!(status(request).await, 413);
    assert_eq!(status(server.request("DELETE", "/api/v1/tokens/nobody").bearer_auth(&admin)).await, 404);
    let weak = token(&server, "weak", &["viewer@*"]).await;
    for name in ["nobody", "good"] {
        let request = server.request("DELETE", &format!("/api/v1/tokens/{name}")).bearer_auth(&weak);
        assert_eq!(status(request).await, 403, "who may not revoke learns of no names: {name}");
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_is_not_found_and_the_question_is_on_record() {
    let server = Start::new().serve();
    let (admin, weak) = (server.first_token(), token(&server, "weak", &["viewer@*"]).await);
    for id in ["%00", "a%00b", "%20", "%FF", &"a".repeat(300)] {
        let path = format!("/api/v1/tokens/{id}");
        let (status, text) = answer(server.request("DELETE", &path).bearer_auth(&admin)).await;
        assert!(status == 404 || (id == "%FF" && status == 400), "{id}: {status} {text}");
        let refused = answer(server.request("DELETE", &path).bearer_auth(&weak)).await.0;
        assert!(refused == 403 || (id == "%FF" && refused == 400), "{id}: {refused}");
    }
    let lines = || {
        let log = fs::read_to_string(server.data.join("audit/audit.log")).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let about = |line: &Value| line["resource"] == "tokens" && line["verb"] == "delete";
        lines.filter(about).map(|line| line["result"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    testbed::eventually(PATIENCE, || async { lines().iter().filter(|result| *result == "denied").count() == 4 }).await;
    assert_eq!(lines().iter().filter(|result| *result == "failed: Not Found").count(), 4, "{:?}", lines());
}

#[tokio::test]
async fn a_token_is_shown_when_it_is_made_as_it_is_in_the_list() {
    let server = Start::new().serve();
    let admin = server.first_token();
    let body = json!({"name": "x", "grants": ["viewer@*"], "expires_in_seconds": 3600});
    let (_, mut made) = create(&server, &admin, body).await;
    made.as_object_mut().unwrap().remove("token");
    let (_, text) = answer(server.request("GET", "/api/v1/tokens").bearer_auth(&admin)).await;
    let list: Value = serde_json::from_str(&text).unwrap();
    let listed = list["items"].as_array().unwrap().iter().find(|item| item["name"] == "x").unwrap();
    assert_eq!(*listed, made);
}

#[tokio::test]
async fn a_token_ends_when_its_time_is_over() {
    let server = Start::new().serve();
    let body = json!({"name": "short", "grants": ["viewer@*"], "expires_in_seconds": 2});
    let (_, made) = create(&server, &server.first_token(), body).await;
    let token = made["token"].as_str().unwrap();
    let get = || status(server.request("GET", "/probe/a/b").bearer_auth(token));
    assert_eq!(get().await, 200);
    testbed::eventually(PATIENCE, || async { get().await == 401 }).await;
}

#[tokio::test]
async fn certificates_get_their_roles_from_the_configuration() {
    let authority = testbed::certificates::Authority::new("ours");
    let file = scratch("ca").unwrap().join("ca.crt");
    fs::write(&file, authority.certificate_pem()).unwrap();
    let start = Start::new().tls().flag("--tls-client-ca-file", &file);
    let server = start.flag("--access-grants", "user:jane=editor@a,group:dev=viewer@team-*").serve();
    let cases = [
        ("jane", &[][..], "POST", "a", 200),
        ("jane", &[], "POST", "b", 403),
        ("joe", &["dev"], "GET", "team-1", 200),
        ("joe", &["dev"], "POST", "team-1", 403),
        ("joe", &[], "GET", "team-1", 403),
    ];
    for (user, groups, method, namespace, expected) in cases {
        let client = server.client_with(&authority.client(user, groups));
        let request = server.request_by(&client, method, &format!("/probe/{namespace}/thing"));
        assert_eq!(status(request).await, expected, "{user} {groups:?} {method} {namespace}");
    }
}
