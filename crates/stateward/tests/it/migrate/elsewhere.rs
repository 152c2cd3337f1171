//! Files, other http backends, another Stateward.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use testbed::process::scratch;

use crate::run::Run;
use crate::server::{PATIENCE, Start, answer};
use crate::state_commands::{Person, a_state, file_with, lock_of};

const STATE: &str = "team-a/app";

/// A working directory of tofu with any backend.
pub(super) struct Workspace {
    client: PathBuf,
    pub directory: PathBuf,
}

impl Workspace {
    pub fn new(client: &Path, backend: &str) -> Workspace {
        let directory = scratch("workspace").unwrap();
        fs::write(directory.join("backend.tf"), format!("terraform {{\n{backend}\n}}\n")).unwrap();
        Workspace { client: client.to_owned(), directory }
    }

    pub fn configure(&self, text: &str) {
        fs::write(self.directory.join("main.tf"), text).unwrap();
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.client);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", &self.directory).env("CHECKPOINT_DISABLE", "1");
        command.current_dir(&self.directory).args(arguments);
        command
    }

    /// Applies a resource that waits for a file; the client has its lock when this returns.
    pub async fn busy_apply(&self) -> Busy {
        let (begun, gate) = (self.directory.join("begun"), self.directory.join("gate"));
        let script = format!("touch {}; until [ -e {} ]; do sleep 0.1; done", begun.display(), gate.display());
        let provisioner = format!("  provisioner \"local-exec\" {{\n    command = \"{script}\"\n  }}\n");
        let slow = format!("resource \"terraform_data\" \"slow\" {{\n{provisioner}}}\n");
        self.configure(&format!("{}{slow}", resource("one")));
        let mut command = self.command(&["apply", "-auto-approve"]);
        let applying = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        testbed::eventually(PATIENCE, || async { begun.exists() }).await;
        Busy { applying, gate }
    }

    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }
}

/// An apply that does not end by itself, and holds its lock.
pub(super) struct Busy {
    applying: Child,
    gate: PathBuf,
}

impl Busy {
    pub fn end(mut self) {
        fs::write(&self.gate, "").unwrap();
        assert!(self.applying.wait().unwrap().success());
    }
}

/// Arguments, and those that all of them have.
fn together<'a>(common: &[&'a str], own: &[&'a str]) -> Vec<&'a str> {
    [own, common].concat()
}

/// A resource that needs no provider.
pub(super) fn resource(input: &str) -> String {
    format!("resource \"terraform_data\" \"it\" {{\n  input = \"{input}\"\n}}\n")
}

#[tokio::test]
async fn a_file_of_the_local_backend_is_locked_and_copied() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    let tofu = testbed::peer("tofu").expect("tofu");
    let workspace = Workspace::new(&tofu, "  backend \"local\" {}");
    let file = workspace.directory.join("terraform.tfstate");
    let path = file.to_str().unwrap();
    workspace.configure(&resource("one"));
    workspace.ok(&["init"]);
    workspace.ok(&["apply", "-auto-approve"]);

    // While tofu has it, it is not copied, and the real holder is named.
    let busy = workspace.busy_apply().await;
    me.fails(8, "OperationTypeApply", &["migrate", STATE, "--from", path]);
    busy.end();

    // While it is copied, tofu cannot have it.
    let mut slow = me.command(&["migrate", STATE, "--from", path]);
    slow.env("STATEWARD_FAILPOINTS", "migrate.both_locked=delay(4000)");
    let copying = std::thread::spawn(move || Run::of(&mut slow));
    testbed::eventually(PATIENCE, || async { lock_of(&me, STATE).is_some() }).await;
    let refused = workspace.run(&["apply", "-auto-approve"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("lock"), "{said}");
    me.fails(8, "migration", &["push", STATE, path]);
    let out = copying.join().unwrap().ok();
    assert!(out.contains("copied"), "{out}");
    assert_eq!(me.ok(&["pull", STATE]), fs::read_to_string(&file).unwrap());
    assert_eq!(lock_of(&me, STATE), None);
    assert!(me.ok(&["migrate", STATE, "--from", path]).contains("already there"));
    workspace.ok(&["plan"]);

    // Newer bytes of the same lineage follow; unrelated ones are refused.
    workspace.configure(&resource("two"));
    workspace.ok(&["apply", "-auto-approve"]);
    assert!(me.ok(&["migrate", STATE, "--from", path]).contains("copied"));
    me.fails(5, "lineage", &["migrate", STATE, "--from", &file_with(&a_state(9, "x"))]);
    me.ok(&["migrate", STATE, "--from", &file_with(&a_state(9, "x")), "--force"]);
    assert_eq!(me.ok(&["pull", STATE]), a_state(9, "x"));
    me.fails(3, "failed to open", &["migrate", STATE, "--from", "/nowhere/state"]);
    me.fails(1, "is not a state", &["migrate", STATE, "--from", &file_with("nonsense")]);
    me.fails(2, "ftp", &["migrate", STATE, "--from", "ftp://a/b"]);
    me.fails(2, "not clear", &["migrate", STATE]);
    me.fails(2, "not clear", &["migrate", "--from", path]);
}

#[tokio::test]
async fn another_stateward_is_left_with_a_tombstone() {
    let (old, new) = (Start::new().serve(), Start::new().serve());
    let (there, here) = (Person::first(&old), Person::first(&new));
    let address = format!("{}/state/team-x/net", old.url);
    let variables = [("TF_HTTP_USERNAME", "anybody"), ("TF_HTTP_PASSWORD", there.token.as_str())];
    let migrate = |more: &[&str]| {
        let arguments = [&["migrate", STATE, "--from", &address][..], more].concat();
        Run::of(here.command(&arguments).envs(variables))
    };
    migrate(&[]).fails(3, "there is no state");
    there.ok(&["push", "team-x/net", &file_with(&a_state(5, "five"))]);
    Run::of(&mut here.command(&["migrate", STATE, "--from", &address])).fails(4, "TF_HTTP_PASSWORD");

    let held = there.ok(&["lock", "team-x/net", "--reason", "busy"]).trim().to_owned();
    migrate(&[]).fails(8, "busy");
    assert_eq!(there.run(&["unlock", "team-x/net", &held]).code, Some(0));
    assert!(migrate(&["--keep-source"]).ok().contains("copied"));
    assert_eq!(there.ok(&["pull", "team-x/net"]), a_state(5, "five"), "kept as it was");

    for unlocked in [&["--no-source-lock"][..], &["--style", "unlocked"]] {
        let run = migrate(unlocked);
        assert!(run.code == Some(0) && run.out.contains("already there"), "{run:#?}");
        assert_eq!(there.ok(&["pull", "team-x/net"]), a_state(5, "five"), "only the holder of its lock moves it");
    }

    // Both are locked while it is copied.
    let arguments = ["migrate", STATE, "--from", &address];
    let mut slow = here.command(&arguments);
    slow.envs(variables).env("STATEWARD_FAILPOINTS", "migrate.verified=delay(3000)");
    let copying = std::thread::spawn(move || Run::of(&mut slow));
    testbed::eventually(PATIENCE, || async { lock_of(&here, STATE).is_some() }).await;
    assert!(lock_of(&there, "team-x/net").is_some());
    there.fails(8, "migration", &["push", "team-x/net", &file_with(&a_state(6, "six"))]);
    assert!(copying.join().unwrap().ok().contains("already there"));
    assert_eq!((lock_of(&here, STATE), lock_of(&there, "team-x/net")), (None, None));

    let new_place = format!("{}/state/{STATE}", new.url);
    there.fails(5, &new_place, &["pull", "team-x/net"]);
    let (status, text) = answer(old.request("GET", "/state/team-x/net").bearer_auth(&there.token)).await;
    assert!(status == 409 && text.contains(&new_place), "{status} {text}");
    assert!(there.ok(&["show", "team-x/net"]).contains(&new_place));
    assert!(migrate(&[]).ok().contains("already moved"));
    let elsewhere = Run::of(here.command(&["migrate", "team-a/b", "--from", &address]).envs(variables));
    elsewhere.fails(5, &new_place);
    there.ok(&["restore", "team-x/net"]);
    assert_eq!(there.ok(&["pull", "team-x/net"]), a_state(5, "five"));
}

#[test]
fn states_go_out_into_files_and_other_backends() {
    let (old, new) = (Start::new().serve(), Start::new().serve());
    let (here, there) = (Person::first(&old), Person::first(&new));
    here.ok(&["push", STATE, &file_with(&a_state(3, "three"))]);
    let file = scratch("out").unwrap().join("out.tfstate");
    let path = file.to_str().unwrap();
    here.ok_with_notes(&["migrate", STATE, "--to", path, "--no-source-lock"]);
    assert_eq!(here.ok(&["pull", STATE]), a_state(3, "three"), "kept as it was");
    assert_eq!(fs::read_to_string(&file).unwrap(), a_state(3, "three"));
    assert!(here.ok(&["migrate", STATE, "--to", path, "--keep-source"]).contains("already there"));
    fs::write(&file, a_state(4, "four")).unwrap();
    here.fails(5, "newer", &["migrate", STATE, "--to", path]);
    assert_eq!(fs::read_to_string(&file).unwrap(), a_state(4, "four"));

    let address = format!("{}/state/team-b/app", new.url);
    let out = ["migrate", STATE, "--to", &address, "--lock-address", &address, "--update-method", "PUT"];
    let variables = [("TF_HTTP_USERNAME", "anybody"), ("TF_HTTP_PASSWORD", there.token.as_str())];
    assert!(Run::of(here.command(&out).envs(variables)).ok().contains("copied"));
    assert_eq!(there.ok(&["pull", "team-b/app"]), a_state(3, "three"));
    assert_eq!(lock_of(&there, "team-b/app"), None);
    here.fails(5, &address, &["pull", STATE]);
}

impl Person {
    /// Like `ok`, for what also says something on stderr.
    #[track_caller]
    pub(super) fn ok_with_notes(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, Some(0), "{run:#?}");
        run.out
    }
}

/// A backend of which nothing is known but that it answers LOCK so; what it was asked.
fn refusing(status: StatusCode, body: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    serving(Vec::new(), move |seen: &mut Vec<String>, parts, _| {
        seen.push(parts.method.to_string());
        match parts.method.as_str() {
            "LOCK" => (status, body).into_response(),
            "GET" => a_state(2, "two").into_response(),
            _ => StatusCode::OK.into_response(),
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_refused_is_not_released() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    me.ok(&["push", STATE, &file_with(&a_state(1, "one"))]);
    let table = [
        (StatusCode::LOCKED, "", 8, "423"),
        (StatusCode::LOCKED, "taken", 8, "423"),
        (StatusCode::CONFLICT, "", 5, "409"),
        (StatusCode::CONFLICT, "{}", 5, "409"),
        (StatusCode::FORBIDDEN, "", 4, "403"),
        (StatusCode::UNAUTHORIZED, "", 4, "401"),
        (StatusCode::INTERNAL_SERVER_ERROR, "", 1, "500"),
    ];
    for (status, body, code, told) in table {
        for direction in ["--from", "--to"] {
            let (url, seen) = refusing(status, body);
            me.fails(code, told, &["migrate", STATE, direction, &url, "--keep-source"]);
            let seen = seen.lock().unwrap().join(" ");
            assert!(seen.contains("LOCK") && !seen.contains("UNLOCK"), "{status} {body} {direction}: {seen}");
            assert_eq!(lock_of(&me, STATE), None, "{status} {direction}");
        }
    }
    // Nobody knows what became of one without an answer.
    let (url, seen) = refusing(StatusCode::BAD_GATEWAY, "");
    me.fails(6, "502", &["migrate", STATE, "--to", &url]);
    assert!(seen.lock().unwrap().join(" ").contains("UNLOCK"));
}

/// What GitLab does with a state, from its documentation: locked by POST and DELETE below the address, 409 with the
/// holder's LockInfo, also for the ID that holds it; Basic credentials.
#[derive(Default)]
struct Gitlab {
    state: Option<String>,
    lock: Option<Value>,
    seen: Vec<String>,
}

fn gitlab() -> (String, Arc<Mutex<Gitlab>>) {
    let (url, shared) = serving(Gitlab::default(), answer_as_gitlab);
    (format!("{url}/api/v4/projects/1/terraform/state/app"), shared)
}

/// A server that answers so, and what it keeps.
fn serving<K: Send + 'static>(
    kept: K,
    answer: impl Fn(&mut K, &Parts, String) -> Response + Clone + Send + Sync + 'static,
) -> (String, Arc<Mutex<K>>) {
    let shared = Arc::new(Mutex::new(kept));
    let kept = shared.clone();
    let router = Router::new().fallback(move |request: Request| {
        let (kept, answer) = (kept.clone(), answer.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            answer(&mut kept.lock().unwrap(), &parts, String::from_utf8(body.to_vec()).unwrap())
        }
    });
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, shared)
}

fn answer_as_gitlab(kept: &mut Gitlab, parts: &Parts, body: String) -> Response {
    // user:token
    if parts.headers.get("authorization").is_none_or(|value| value != "Basic dXNlcjp0b2tlbg==") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    kept.seen.push(format!("{} {}", parts.method, parts.uri));
    let id = parts.uri.query().and_then(|query| query.strip_prefix("ID="));
    match (parts.method.as_str(), parts.uri.path().ends_with("/lock")) {
        ("POST", true) => {
            if let Some(held) = &kept.lock {
                return (StatusCode::CONFLICT, held.to_string()).into_response();
            }
            kept.lock = Some(serde_json::from_str(&body).unwrap());
            StatusCode::OK.into_response()
        }
        // Its own unlock compares the IDs; that of others does not, so a client must not rely on it.
        ("DELETE", true) => {
            kept.lock = None;
            StatusCode::OK.into_response()
        }
        ("GET", false) => match &kept.state {
            Some(state) => state.clone().into_response(),
            None => StatusCode::NO_CONTENT.into_response(),
        },
        ("POST", false) => match &kept.lock {
            Some(held) if held["ID"].as_str() != id => (StatusCode::CONFLICT, held.to_string()).into_response(),
            _ => {
                kept.state = Some(body);
                StatusCode::OK.into_response()
            }
        },
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_in_the_style_of_gitlab_is_locked_in_its_own_way() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    let (url, gitlab) = gitlab();
    let password = scratch("password").unwrap().join("password");
    fs::write(&password, "token\n").unwrap();
    let credentials = ["--username", "user", "--password-file", password.to_str().unwrap(), "--style", "gitlab"];
    me.fails(3, "there is no state", &together(&credentials, &["migrate", STATE, "--from", &url]));
    assert!(gitlab.lock().unwrap().lock.is_none(), "released after a failure");

    me.ok(&["push", STATE, &file_with(&a_state(1, "one"))]);
    assert!(me.ok(&together(&credentials, &["migrate", STATE, "--to", &url, "--keep-source"])).contains("copied"));
    assert_eq!(gitlab.lock().unwrap().state.as_deref(), Some(a_state(1, "one").as_str()));
    let held = json!({"ID": "theirs", "Who": "ann@laptop", "Operation": "apply", "Info": ""});
    gitlab.lock().unwrap().lock = Some(held);
    gitlab.lock().unwrap().state = Some(a_state(2, "two"));
    me.fails(8, "locked by ann@laptop", &together(&credentials, &["migrate", STATE, "--from", &url]));
    assert_eq!(gitlab.lock().unwrap().lock.as_ref().unwrap()["ID"], "theirs", "not ours to release");
    gitlab.lock().unwrap().lock = None;

    // The lock of a run that was killed is found again, although this server does not take the same ID twice.
    let crashed = Run::of(
        me.command(&together(&credentials, &["migrate", STATE, "--from", &url]))
            .env("STATEWARD_FAILPOINTS", "migrate.both_locked=crash"),
    );
    assert!(crashed.code.is_none() && gitlab.lock().unwrap().lock.is_some(), "{crashed:?}");
    assert!(me.ok(&together(&credentials, &["migrate", STATE, "--from", &url])).contains("copied"));
    assert!(gitlab.lock().unwrap().lock.is_none());
    assert_eq!(me.ok(&["pull", STATE]), a_state(2, "two"));
    let seen = gitlab.lock().unwrap().seen.join("\n");
    assert!(seen.contains("POST /api/v4/projects/1/terraform/state/app?ID="), "{seen}");

    // Nor is a lock of others released at the place that a state has moved to.
    gitlab.lock().unwrap().state = None;
    let away = together(&credentials, &["migrate", STATE, "--to", &url]);
    assert!(me.ok(&away).contains("copied"));
    gitlab.lock().unwrap().lock = Some(json!({"ID": "theirs", "Who": "ann@laptop", "Operation": "apply", "Info": ""}));
    assert!(me.ok(&away).contains("already moved"));
    assert_eq!(gitlab.lock().unwrap().lock.as_ref().unwrap()["ID"], "theirs");

    me.fails(4, "answered 401", &["migrate", STATE, "--from", &url, "--style", "gitlab"]);
    me.fails(2, "in clear", &together(&credentials, &["migrate", STATE, "--from", "http://192.0.2.1/state"]));
    me.fails(2, "user or password", &["migrate", STATE, "--from", "http://u:secret@127.0.0.1/state"]);
}
