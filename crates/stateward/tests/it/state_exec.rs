//! `stateward state exec`: a command whose requests always carry the current token.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use reqwest::{Client, Method};
use rustix::process::{Pid, Signal, kill_process};
use testbed::process::{Process, scratch};
use testbed::states::{Options, RESOURCE_BYTES, generate};
use testbed::{AUDIENCE, Cluster, eventually, scale};

use crate::backend::EVERYTHING;
use crate::compat::{NEW, beside_cluster, info, somebody};
use crate::run::{Run, stateward, tofu};
use crate::server::{PATIENCE, Server, Start, answer, status};

/// A server, and a directory with its CA and a token.
struct Rig {
    server: Server,
    directory: PathBuf,
}

impl Rig {
    fn new() -> Rig {
        let server = Start::new().tls().serve();
        let token = server.first_token();
        Rig::of(server, &token)
    }

    fn of(server: Server, token: &str) -> Rig {
        let directory = scratch("exec").unwrap();
        fs::write(directory.join("token"), token).unwrap();
        fs::copy(server.data.join("tls/self-signed.crt"), directory.join("ca.crt")).unwrap();
        Rig { server, directory }
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    fn exec(&self, state: &str, command: &[&str]) -> Command {
        self.exec_as(state, &["--token-file", &self.file("token")], command)
    }

    fn exec_as(&self, state: &str, identity: &[&str], command: &[&str]) -> Command {
        let mut exec = stateward(&["state", "exec", "--server", &self.server.url, state]);
        exec.args(identity).args(["--ca-file", &self.file("ca.crt"), "--"]);
        exec.args(command).env("CHECKPOINT_DISABLE", "1").current_dir(&self.directory);
        exec
    }

    /// A command that tells its environment and waits, and what it was told.
    async fn waiting(&self, state: &str) -> (Process, Proxy) {
        self.waiting_as(state, &["--token-file", &self.file("token")]).await
    }

    async fn waiting_as(&self, state: &str, identity: &[&str]) -> (Process, Proxy) {
        let file = self.directory.join(format!("environment-{}", state.replace('/', "-")));
        let script = format!("env > {0}.new; mv {0}.new {0}; exec sleep 600", file.display());
        let process = Process::spawn(
            "exec",
            &mut self.exec_as(state, identity, &["sh", "-c", &script]),
            &file.with_extension("log"),
        );
        let process = process.unwrap();
        eventually(PATIENCE, || async { file.exists() }).await;
        let text = fs::read_to_string(&file).unwrap();
        let variables: HashMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
        let get = |name: &str| variables[&format!("TF_HTTP_{name}").as_str()].to_owned();
        assert_eq!((get("ADDRESS"), get("ADDRESS")), (get("LOCK_ADDRESS"), get("UNLOCK_ADDRESS")));
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        (process, Proxy { client, address: get("ADDRESS"), user: get("USERNAME"), password: get("PASSWORD") })
    }
}

struct Proxy {
    client: Client,
    address: String,
    user: String,
    password: String,
}

impl Proxy {
    fn request(&self, method: &str, query: &str) -> reqwest::RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.client.request(method, format!("{}{query}", self.address));
        request.basic_auth(&self.user, Some(&self.password))
    }
}

#[tokio::test]
async fn only_its_own_command_gets_through() {
    let rig = Rig::new();
    let (_process, proxy) = rig.waiting("team-a/app").await;
    assert!(proxy.address.starts_with("http://127.0.0.1:"), "{}", proxy.address);
    assert!(proxy.password.len() > 40 && !rig.server.first_token().contains(&proxy.password));
    let send = |method: &str, query: &str, body: String| answer(proxy.request(method, query).body(body));
    assert_eq!(send("GET", "", String::new()).await.0, 404);
    assert_eq!(send("LOCK", "", info(Some("a"))).await, (200, String::new()));
    assert_eq!(send("LOCK", "", info(Some("b"))).await, (423, info(Some("a"))));
    assert_eq!(send("POST", "?ID=a", NEW.to_owned()).await, (200, String::new()));
    assert_eq!(send("GET", "", String::new()).await, (200, NEW.to_owned()));
    assert_eq!(send("UNLOCK", "", info(Some("a"))).await, (200, String::new()));
    let direct = rig.server.request("GET", "/state/team-a/app").bearer_auth(rig.server.first_token());
    assert_eq!(answer(direct).await, (200, NEW.to_owned()));

    let bare = || proxy.client.get(&proxy.address);
    assert_eq!(status(bare()).await, 401);
    assert_eq!(status(bare().basic_auth(&proxy.user, Some("wrong"))).await, 401);
    assert_eq!(status(bare().basic_auth("other", Some(&proxy.password))).await, 401);
    assert_eq!(status(bare().bearer_auth(rig.server.first_token())).await, 401, "not even the token itself");
    let (_second, other) = rig.waiting("team-a/other").await;
    assert_eq!(status(bare().basic_auth(&other.user, Some(&other.password))).await, 401, "each run has its own");
    let elsewhere = format!("{}/../other", proxy.address);
    let elsewhere = proxy.client.get(elsewhere).basic_auth(&proxy.user, Some(&proxy.password));
    assert_eq!(status(elsewhere).await, 404);

    // The token is the one of the moment.
    fs::write(rig.directory.join("token"), "stw_0000000000000000_revoked").unwrap();
    assert_eq!(send("GET", "", String::new()).await.0, 401);
    fs::write(rig.directory.join("token"), rig.server.first_token()).unwrap();
    assert_eq!(send("GET", "", String::new()).await.0, 200);
}

#[tokio::test]
async fn the_plugin_of_a_kubeconfig_is_asked_for_every_request() {
    let rig = Rig::new();
    let give = |token: &str| {
        let credential = serde_json::json!({"kind": "ExecCredential", "status": {"token": token}});
        fs::write(rig.directory.join("credential.json"), credential.to_string()).unwrap();
    };
    give(&rig.server.first_token());
    let exec = serde_json::json!({"command": "cat", "args": [rig.file("credential.json")], "interactiveMode": "Never"});
    let config = serde_json::json!({
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": exec}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
    });
    fs::write(rig.directory.join("kubeconfig"), config.to_string()).unwrap();
    let identity = ["--kubeconfig", &rig.file("kubeconfig")];
    let (_process, proxy) = rig.waiting_as("team-a/app", &identity).await;
    assert_eq!(status(proxy.request("GET", "")).await, 404);
    give("stw_0000000000000000_revoked");
    assert_eq!(status(proxy.request("GET", "")).await, 401);
    give(&rig.server.first_token());
    assert_eq!(status(proxy.request("GET", "")).await, 404);
}

#[tokio::test]
async fn a_server_that_is_gone_is_a_502_and_told() {
    let rig = Rig::new();
    let (process, proxy) = rig.waiting("team-a/app").await;
    drop(rig.server);
    assert_eq!(answer(proxy.request("GET", "")).await.0, 502);
    assert!(process.log().contains("failed to reach https://127.0.0.1"), "{}", process.log());
    assert!(!process.log().contains(&proxy.password), "{}", process.log());
}

#[test]
fn it_ends_as_its_command_ends() {
    let rig = Rig::new();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let run = Run::of(&mut rig.exec("team-a/app", &["sh", "-c", script]));
        assert!(run.code == Some(code) && run.out.is_empty() && run.err.is_empty(), "{script}: {run:#?}");
    }
    Run::of(&mut rig.exec("team-a/app", &["no-such-command"])).fails(3, "failed to run no-such-command");
    Run::of(&mut rig.exec("team-a", &["true"])).fails(2, "NAMESPACE/NAME");
    Run::of(&mut stateward(&["state", "exec", "--", "true"])).fails(2, "which state is not said");
    let no_token = ["state", "exec", "--address", "https://127.0.0.1:1/a/b", "--", "true"];
    Run::of(&mut stateward(&no_token)).fails(2, "there is no identity");
    let in_clear = ["state", "exec", "--address", "http://example.com/a/b", "--token", "x", "--", "true"];
    Run::of(&mut stateward(&in_clear)).fails(2, "not sent in clear");
}

#[tokio::test]
async fn signals_are_passed_on() {
    let rig = Rig::new();
    for (name, signal) in [("TERM", Signal::TERM), ("INT", Signal::INT), ("HUP", Signal::HUP)] {
        let ready = rig.directory.join(name);
        let script = format!("trap 'exit 42' {name}; touch {}; while :; do sleep 0.05; done", ready.display());
        let log = rig.directory.join(format!("{name}.log"));
        let mut command = rig.exec("team-a/app", &["sh", "-c", &script]);
        let mut process = Process::spawn("exec", &mut command, &log).unwrap();
        eventually(PATIENCE, || async { ready.exists() }).await;
        // To it alone, not to its command.
        kill_process(Pid::from_raw(i32::try_from(process.pid()).unwrap()).unwrap(), signal).unwrap();
        assert_eq!(process.wait(PATIENCE).unwrap().code(), Some(42), "{name}");
    }
}

/// The most memory that a process has used, in bytes.
fn peak(process: &Process) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[tokio::test]
async fn states_stream_through_whatever_their_size() {
    let rig = Rig::new();
    let (process, proxy) = rig.waiting("team-a/large").await;
    assert_eq!(answer(proxy.request("POST", "").body(NEW)).await.0, 200);
    let before = peak(&process);
    let size = scale().of(48 << 20, 300 << 20);
    let state = generate(size / RESOURCE_BYTES, 7, &Options::default());
    assert!(state.len() > size / 2, "{}", state.len());
    let hash = digest(&SHA256, &state);
    let request = proxy.request("POST", "").timeout(Duration::from_mins(10)).body(state);
    assert_eq!(answer(request).await, (200, String::new()));
    let back = proxy.request("GET", "").timeout(Duration::from_mins(10)).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(digest(&SHA256, &back).as_ref(), hash.as_ref());
    let grown = peak(&process).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for a state of {}", back.len());
}

/// A workspace whose apply waits for a file.
fn workspace(directory: &Path, backend: &str) -> (PathBuf, PathBuf) {
    let (begun, gate) = (directory.join("begun"), directory.join("go-on"));
    let script = format!("touch {}; until [ -e {} ]; do sleep 0.1; done", begun.display(), gate.display());
    let text = format!(
        "terraform {{\n  backend \"http\" {{\n{backend}  }}\n}}\nresource \"terraform_data\" \"it\" {{\n  input = \
         \"one\"\n  provisioner \"local-exec\" {{\n    command = \"{script}\"\n  }}\n}}\n"
    );
    fs::write(directory.join("main.tf"), text).unwrap();
    (begun, gate)
}

#[tokio::test]
async fn an_apply_may_take_longer_than_its_token_lives() {
    let cluster = Cluster::shared().await;
    let set = |start: Start| start.flag("--access-authentication-ttl", "0s");
    let (server, _, namespace) = beside_cluster("longer", set).await;
    let rig = Rig::of(server, "");
    let fresh = somebody(cluster, &namespace, "runner", EVERYTHING).await;
    // The API server forgives a minute: a token that ended a while ago is one that is about to end.
    let short = || cluster.signed_token(&namespace, "runner", &[AUDIENCE], -40);
    let is_refused = async |token: &str| {
        let get = rig.server.request("GET", &format!("/state/{namespace}/probe")).bearer_auth(token);
        status(get).await == 401
    };
    let url = rig.server.url.clone();
    let ca = fs::read_to_string(rig.directory.join("ca.crt")).unwrap();

    // With the token in the configuration, the client cannot save what it did.
    let direct = scratch("direct").unwrap();
    let token = short().await;
    let address = format!("{url}/state/{namespace}/direct");
    let backend = format!(
        "    address = \"{address}\"\n    lock_address = \"{address}\"\n    unlock_address = \"{address}\"\n    \
         retry_max = 0\n    username = \"x\"\n    password = \"{token}\"\n    client_ca_certificate_pem = \
         <<PEM\n{ca}PEM\n"
    );
    let (begun, gate) = workspace(&direct, &backend);
    let output = tofu(&direct, &["init"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = direct.join("log");
    let mut apply = Process::spawn("tofu", &mut tofu(&direct, &["apply", "-auto-approve"]), &log).unwrap();
    eventually(Duration::from_mins(2), || async { begun.exists() }).await;
    eventually(Duration::from_mins(3), || is_refused(&token)).await;
    fs::write(&gate, "").unwrap();
    assert!(!apply.wait(PATIENCE).unwrap().success(), "{}", apply.log());
    assert!(direct.join("errored.tfstate").exists(), "{}", apply.log());

    // Through the proxy, the token is replaced under way, as a kubelet does.
    let token = short().await;
    fs::write(rig.directory.join("token"), &token).unwrap();
    let (begun, gate) = workspace(&rig.directory, "");
    let state = format!("{namespace}/through");
    let tofu = testbed::peer("tofu").unwrap();
    let tofu = tofu.to_str().unwrap();
    Run::of(&mut rig.exec(&state, &[tofu, "init"])).code.filter(|code| *code == 0).expect("init succeeds");
    let log = rig.directory.join("log");
    let mut command = rig.exec(&state, &[tofu, "apply", "-auto-approve"]);
    let mut apply = Process::spawn("exec", &mut command, &log).unwrap();
    eventually(Duration::from_mins(2), || async { begun.exists() }).await;
    eventually(Duration::from_mins(3), || is_refused(&token)).await;
    fs::write(rig.directory.join("token"), &fresh).unwrap();
    fs::write(&gate, "").unwrap();
    assert!(apply.wait(PATIENCE).unwrap().success(), "{}", apply.log());
    let saved = rig.server.request("GET", &format!("/state/{state}")).bearer_auth(&fresh);
    assert!(answer(saved).await.1.contains("terraform_data"));
}
