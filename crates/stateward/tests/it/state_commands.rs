//! `stateward state` through the real binary against a real server: what people type, what they read, how it ends.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testbed::process::scratch;
use testbed::states::Options;

use crate::run::{Run, stateward};
use crate::server::{PATIENCE, Server, Start, answer, status};

/// The command line of somebody.
pub(crate) struct Person {
    pub url: String,
    pub token: String,
    pub authority: Option<PathBuf>,
}

impl Person {
    /// The first user of a standalone server.
    pub(crate) fn first(server: &Server) -> Person {
        Person::new(server, &server.first_token())
    }

    pub(crate) fn new(server: &Server, token: &str) -> Person {
        let authority = server.data.join("tls/self-signed.crt");
        let authority = authority.exists().then_some(authority);
        Person { url: server.url.clone(), token: token.to_owned(), authority }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stateward(&["state"]);
        command.args(arguments).env("STATEWARD_SERVER", &self.url).env("STATEWARD_TOKEN", &self.token);
        if let Some(file) = &self.authority {
            command.arg("--ca-file").arg(file);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        Run::of(&mut self.command(arguments))
    }

    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok()
    }

    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let out = self.ok(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&out).expect("JSON")
    }

    #[track_caller]
    pub(crate) fn fails(&self, code: i32, text: &str, arguments: &[&str]) {
        self.run(arguments).fails(code, text);
    }

    /// Starts it and does not wait.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs it on a terminal of its own, with this typed into it; the exit code and what was shown.
    fn on_terminal(&self, typed: &str, variables: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
        let words: Vec<String> = std::iter::once(env!("CARGO_BIN_EXE_stateward"))
            .chain(["state"])
            .chain(arguments.iter().copied())
            .map(|word| format!("'{word}'"))
            .collect();
        let mut command = Command::new("script");
        command.args(["-qec", &words.join(" "), "/dev/null"]).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(variables.iter().copied());
        command.env("STATEWARD_SERVER", &self.url).env("STATEWARD_TOKEN", &self.token).env("HOME", "/nowhere");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// A state with numbers that no JSON library keeps, a resource and outputs.
pub(crate) fn a_state(serial: u64, value: &str) -> String {
    format!(
        r#"{{
  "version": 4,
  "terraform_version": "1.12.6",
  "serial": {serial},
  "lineage": "3f1b2c4d",
  "outputs": {{
    "open": {{
      "value": "{value}",
      "type": "string"
    }},
    "price": {{
      "value": [12345678901234567890123, 1.50],
      "type": ["tuple", ["number", "number"]]
    }},
    "secret": {{
      "value": "canary-{value}",
      "type": "string",
      "sensitive": true
    }}
  }},
  "resources": [
    {{
      "mode": "managed",
      "type": "terraform_data",
      "name": "it",
      "provider": "provider[\"terraform.io/builtin/terraform\"]",
      "instances": [
        {{
          "schema_version": 0,
          "attributes": {{
            "id": "i-{value}",
            "number": 12345678901234567890123,
            "price": 1.50
          }}
        }}
      ]
    }}
  ],
  "check_results": null
}}
"#
    )
}

pub(crate) fn file_with(text: &str) -> String {
    let path = scratch("state").unwrap().join("terraform.tfstate");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The holder's ID, if the state is locked.
pub(crate) fn lock_of(person: &Person, state: &str) -> Option<String> {
    let locks = person.json(&["locks"]);
    let items = locks["items"].as_array().unwrap();
    let held = items
        .iter()
        .find(|lock| format!("{}/{}", lock["namespace"].as_str().unwrap(), lock["name"].as_str().unwrap()) == state);
    held.map(|lock| lock["id"].as_str().unwrap().to_owned())
}

const STATE: &str = "team-a/app";

#[test]
fn what_is_pushed_comes_back_byte_for_byte_and_is_shown() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    me.fails(3, "", &["pull", STATE]);
    let first = file_with(&a_state(1, "one"));
    let out = me.ok(&["push", STATE, &first]);
    assert_eq!(
        out.split_whitespace().collect::<Vec<_>>()[..7],
        ["STATE", "VERSION", "SERIAL", "SIZE", STATE, "1", "1"]
    );
    assert_eq!(me.ok(&["pull", STATE]), a_state(1, "one"));
    assert_eq!(lock_of(&me, STATE), None, "the lock of the push is gone");

    // From stdin, and into a file that only we can read.
    let mut command = me.command(&["push", STATE, "-", "-o", "json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(a_state(2, "two").as_bytes()).unwrap();
    let done: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!((&done["version"], &done["serial"]), (&json!(2), &json!("2")));
    let file = scratch("pull").unwrap().join("pulled");
    assert_eq!(me.ok(&["pull", STATE, "-f", file.to_str().unwrap()]), "");
    assert_eq!(fs::read_to_string(&file).unwrap(), a_state(2, "two"));
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&file).unwrap()) & 0o777, 0o600);
    assert_eq!(me.ok(&["pull", STATE, "--version", "1"]), a_state(1, "one"));
    me.fails(3, "", &["pull", STATE, "--version", "7"]);
    let nowhere = me.run(&["pull", STATE, "-f", "/nowhere/pulled"]);
    nowhere.fails(1, "failed to write in /nowhere");
    assert!(nowhere.err.contains("hint: check the directory"), "{nowhere:#?}");
    assert!(me.ok(&["push", STATE, file.to_str().unwrap()]).contains("unchanged"), "the same bytes make no version");

    me.ok(&["push", "team-b/other", &first]);
    let list = me.json(&["list"]);
    assert_eq!((list["total"].as_u64(), &list["items"][0]["serial"]), (Some(2), &json!("2")));
    assert_eq!(me.json(&["list", "-n", "team-b"])["items"][0]["name"], "other");
    assert_eq!(me.json(&["list", "--search", "AM-A/ap"])["total"], 1);
    let table = me.ok(&["list"]);
    assert!(table.starts_with("NAMESPACE  NAME") && table.lines().count() == 3, "{table}");
    let yaml: Value = serde_saphyr::from_str(&me.ok(&["list", "-o", "yaml"])).unwrap();
    assert_eq!(yaml, list);

    let shown = me.ok(&["show", STATE, "--resources"]);
    for expected in [
        "3f1b2c4d",
        "\"two\"",
        "terraform_data.it",
        "i-two",
        "nobody",
        "2 of 2 kept",
        "12345678901234567890123",
        "1.50",
    ] {
        assert!(shown.contains(expected), "no {expected} in {shown}");
    }
    assert!(!me.ok(&["show", STATE]).contains("RESOURCE"));
    let exact = me.ok(&["show", STATE, "-o", "json"]);
    assert!(exact.contains("12345678901234567890123") && exact.contains("1.50"), "{exact}");
    let whole = me.json(&["show", STATE, "--resources", "nothing like it"]);
    assert_eq!((&whole["resources"], &whole["outputs"][0]["name"]), (&json!([]), &json!("open")));
    let versions = me.json(&["versions", STATE]);
    assert_eq!((&versions["items"][0]["version"], &versions["items"][0]["current"]), (&json!(2), &json!(true)));
    assert!(me.ok(&["versions", STATE]).contains("2 (current)"));
}

#[tokio::test]
async fn outputs_are_shown_to_those_who_may_see_them() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    me.ok(&["push", STATE, &file_with(&a_state(1, "one"))]);
    let token = token(&server, "reader", &["viewer@*"]).await;
    let reader = Person::new(&server, &token);
    let run = reader.run(&["show", STATE]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(!run.out.contains("canary") && !run.err.contains("canary"), "{run:#?}");
    reader.fails(4, "", &["push", STATE, &file_with(&a_state(2, "two"))]);
    reader.fails(4, "", &["delete", STATE, "--yes"]);
}

async fn token(server: &Server, name: &str, grants: &[&str]) -> String {
    let body = json!({"name": name, "user": name, "grants": grants});
    let request = server.request("POST", "/api/v1/tokens").bearer_auth(server.first_token()).json(&body);
    let (status, text) = answer(request).await;
    assert_eq!(status, 201, "{text}");
    serde_json::from_str::<Value>(&text).unwrap()["token"].as_str().unwrap().to_owned()
}

#[test]
fn push_refuses_what_terraform_refuses_unless_forced() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    me.ok(&["push", STATE, &file_with(&a_state(10, "ten"))]);
    let other = a_state(11, "x").replace("3f1b2c4d", "another");
    for (text, words) in [
        (a_state(9, "nine"), "serial 10 is newer than 9"),
        (a_state(10, "other"), "other content under the same serial"),
        (other.clone(), "lineage"),
    ] {
        me.fails(5, words, &["push", STATE, &file_with(&text)]);
        assert_eq!(lock_of(&me, STATE), None, "released after a refusal");
    }
    assert_eq!(me.ok(&["pull", STATE]), a_state(10, "ten"));
    for text in [a_state(9, "nine"), other] {
        me.ok(&["push", STATE, &file_with(&text), "--force"]);
        assert_eq!(me.ok(&["pull", STATE]), text, "the serial is kept as it is");
    }
    me.fails(1, "is not a state: not JSON at byte", &["push", STATE, &file_with("{\"a\": nonsense}")]);
    me.fails(1, "is empty", &["push", STATE, &file_with("")]);
    me.fails(3, "failed to open /nowhere/file", &["push", STATE, "/nowhere/file"]);
    me.fails(2, "NAMESPACE/NAME", &["push", "app", "-"]);
}

#[tokio::test]
async fn locks_are_taken_shown_respected_and_broken_by_those_who_may() {
    let server = Start::new().flag("--states-lock-expiry", "1h").serve();
    let me = Person::first(&server);
    let file = file_with(&a_state(1, "one"));
    me.ok(&["push", STATE, &file]);
    let id = me.ok(&["lock", STATE, "--reason", "moving house"]).trim().to_owned();
    assert_eq!(lock_of(&me, STATE), Some(id.clone()));
    let table = me.ok(&["locks"]);
    assert!(table.contains("moving house") && table.contains("admin") && table.contains("LAST ACTIVE"), "{table}");
    assert!(me.ok(&["show", STATE]).contains("moving house"));
    assert_eq!(me.json(&["locks", "-n", "team-b"])["items"], json!([]));

    let newer = file_with(&a_state(2, "two"));
    let bob = Person::new(&server, &token(&server, "bob", &["editor@*"]).await);
    for person in [&me, &bob] {
        person.fails(8, &id, &["push", STATE, &newer]);
        person.fails(8, "moving house", &["lock", STATE, "--reason", "mine"]);
        person.fails(8, "locked by admin", &["rollback", STATE, "1", "--yes"]);
        person.fails(8, "", &["delete", STATE, "--yes"]);
    }
    bob.fails(4, "", &["unlock", STATE, &id]);
    bob.fails(4, "", &["unlock", STATE, "--force"]);
    me.fails(2, "", &["unlock", STATE]);
    me.fails(8, "", &["unlock", STATE, "another-id"]);
    me.fails(8, "", &["unlock", STATE, "another-id", "--force"]);
    me.ok(&["push", STATE, &newer, "--lock-id", &id]);
    assert_eq!(lock_of(&me, STATE), Some(id.clone()), "a lock that was given is not released");
    assert!(me.run(&["unlock", STATE, &id]).err.contains("team-a/app unlocked"));
    assert_eq!(lock_of(&me, STATE), None);

    let held = bob.ok(&["lock", STATE, "--reason", "his"]).trim().to_owned();
    assert_eq!(me.run(&["unlock", STATE, "--force"]).code, Some(0));
    bob.fails(8, "", &["push", STATE, &file_with(&a_state(3, "three")), "--lock-id", &held]);
}

#[test]
fn versions_are_compared_and_taken_back() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    for (serial, value) in [(1, "one"), (2, "two"), (3, "two")] {
        me.ok(&["push", STATE, &file_with(&a_state(serial, value))]);
    }
    let none = me.ok(&["diff", STATE]);
    assert!(none.contains("version 2 to 3") && none.contains("no differences"), "{none}");
    assert_eq!(me.run(&["diff", STATE, "--exit-code"]).code, Some(0));
    let run = me.run(&["diff", STATE, "1", "2", "--exit-code"]);
    assert_eq!((run.code, run.err.as_str()), (Some(9), ""), "{run:#?}");
    assert!(run.out.contains("~ terraform_data.it") && run.out.contains("output open: \"one\" -> \"two\""), "{run:#?}");
    assert!(run.out.contains("output secret (sensitive)") && !run.out.contains("canary"), "{run:#?}");
    assert!(!run.out.contains('\u{1b}'), "no colours on a pipe");
    assert_eq!(me.json(&["diff", STATE, "1", "2"])["resources"][0]["change"], "changed");
    me.fails(3, "", &["diff", STATE, "1", "9"]);

    me.fails(2, "say --yes", &["rollback", STATE, "1"]);
    let done = me.json(&["rollback", STATE, "1", "--yes"]);
    assert_eq!((&done["version"], &done["serial"]), (&json!(4), &json!("4")));
    assert_eq!(me.ok(&["pull", STATE]), a_state(1, "one").replace("\"serial\": 1,", "\"serial\": 4,"));
    me.fails(3, "", &["rollback", STATE, "77", "--yes"]);

    me.fails(2, "say --yes", &["delete", STATE]);
    assert!(me.ok(&["delete", STATE, "--yes"]).contains("deleted"));
    me.fails(3, "", &["pull", STATE]);
    assert_eq!(me.json(&["list"])["total"], 0);
    assert!(me.ok(&["list", "--deleted"]).contains("deleted"));
    me.ok(&["restore", STATE]);
    assert!(me.ok(&["pull", STATE]).contains("\"serial\": 4,"));
}

#[test]
fn a_terminal_is_asked_and_gets_colours() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    for (serial, value) in [(1, "one"), (2, "two")] {
        me.ok(&["push", STATE, &file_with(&a_state(serial, value))]);
    }
    let (code, shown) = me.on_terminal("n\n", &[], &["rollback", STATE, "1"]);
    assert!(code == Some(1) && shown.contains("[y/N]") && shown.contains("nothing was done"), "{code:?} {shown}");
    assert_eq!(me.ok(&["pull", STATE]), a_state(2, "two"));
    let (code, shown) = me.on_terminal("y\n", &[], &["rollback", STATE, "1"]);
    assert!(code == Some(0), "{code:?} {shown}");
    assert!(me.ok(&["pull", STATE]).contains("\"serial\": 3,"));

    let (_, shown) = me.on_terminal("", &[], &["diff", STATE]);
    assert!(shown.contains("\u{1b}[33m"), "{shown:?}");
    let (_, shown) = me.on_terminal("", &[("NO_COLOR", "1")], &["diff", STATE]);
    assert!(shown.contains("terraform_data.it") && !shown.contains('\u{1b}'), "{shown:?}");
    let file = file_with(&a_state(9, "nine"));
    let (code, shown) = me.on_terminal("", &[], &["migrate", "team-a/new", "--from", &file]);
    assert!(code == Some(0) && shown.contains("team-a/new: writing ["), "{code:?} {shown:?}");
}

#[test]
fn failures_end_with_the_code_that_help_promises() {
    let help = Run::of(&mut stateward(&["state", "--help"])).ok();
    assert!(help.contains("8  locked by somebody else") && help.contains("9  there are differences"), "{help}");
    let server = Start::new().serve();
    let me = Person::first(&server);
    me.fails(3, "", &["show", STATE]);
    me.fails(1, "", &["show", STATE, "--store", "none"]);
    let nobody = Person { token: "stw_no".to_owned(), ..Person::first(&server) };
    nobody.fails(4, "", &["list"]);
    let nowhere = Person { url: "http://127.0.0.1:1".to_owned(), ..Person::first(&server) };
    nowhere.fails(6, "failed to reach", &["list"]);
    nowhere.fails(6, "failed to reach", &["pull", STATE]);
    nowhere.fails(6, "failed to reach", &["push", STATE, &file_with(&a_state(1, "one"))]);
}

#[tokio::test]
async fn an_interrupted_push_releases_its_lock() {
    // The server waits in the middle of the write, so that there is something to interrupt.
    let server = Start::new().variable("STATEWARD_FAILPOINTS", "states.upload_named=delay(3000)").serve();
    let me = Person::first(&server);
    for signal in [Signal::INT, Signal::TERM] {
        let file = file_with(&String::from_utf8(testbed::states::generate(3000, 1, &Options::default())).unwrap());
        let child = me.spawn(&["push", STATE, &file]);
        testbed::eventually(PATIENCE, || async { lock_of(&me, STATE).is_some() }).await;
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{err}");
        assert!(err.contains("interrupted\nhint: "), "{err}");
        assert_eq!(lock_of(&me, STATE), None);
    }
}

#[tokio::test]
async fn large_states_pass_through_little_memory() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    let megabytes = testbed::scale().of(72, 300);
    let directory = scratch("large").unwrap();
    let (file, back) = (directory.join("state"), directory.join("back"));
    let resources = (megabytes << 20) / testbed::states::RESOURCE_BYTES;
    let mut state = testbed::states::stream(resources, testbed::seed("large"), &Options::default());
    std::io::copy(&mut state, &mut fs::File::create(&file).unwrap()).unwrap();
    let limit = 64 << 10;
    let pushed = peak(me.spawn(&["push", STATE, file.to_str().unwrap(), "--timeout", "5m"])).await;
    assert!(pushed < limit, "push of {megabytes} MB took {pushed} KiB");
    let pulled = peak(me.spawn(&["pull", STATE, "-f", back.to_str().unwrap()])).await;
    assert!(pulled < limit, "pull of {megabytes} MB took {pulled} KiB");
    assert!(same(&file, &back));
    let copied = peak(me.spawn(&["migrate", "team-a/copy", "--from", file.to_str().unwrap(), "--timeout", "5m"])).await;
    assert!(copied < limit, "migrate of {megabytes} MB took {copied} KiB");
    for file in [file, back] {
        fs::remove_file(file).unwrap();
    }
    assert_eq!(status(server.request("GET", "/healthz")).await, 200);
}

fn same(left: &Path, right: &Path) -> bool {
    let compared = Command::new("cmp").arg("-s").arg(left).arg(right).status().unwrap();
    compared.success()
}

/// The most memory that a command had, in KiB, when it has ended well.
async fn peak(mut child: Child) -> u64 {
    let path = format!("/proc/{}/status", child.id());
    let mut highest = 0;
    loop {
        let status = fs::read_to_string(&path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok());
        highest = highest.max(now.unwrap_or(0));
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success(), "{:?}", child.wait_with_output());
            assert!(highest > 0);
            return highest;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
