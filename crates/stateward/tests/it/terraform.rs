//! The clients themselves, over TLS: what people do with a state, from init to destroy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use serde_json::Value;
use testbed::process::scratch;

use crate::compat::beside_cluster;
use crate::server::{PATIENCE, Server, Start, answer, status};

/// Every client that must work; a missing one fails the test.
fn clients() -> Vec<PathBuf> {
    vec![testbed::peer("tofu").expect("tofu"), PathBuf::from("/usr/local/bin/terraform")]
}

/// A working directory with a configuration that keeps its state on the server.
pub(crate) struct Workspace {
    client: PathBuf,
    pub directory: PathBuf,
}

impl Workspace {
    pub(crate) fn new(client: &Path, server: &Server, token: &str, path: &str) -> Workspace {
        let (address, ca) = (format!("{}{path}", server.url), fs::read_to_string(authority(server)).unwrap());
        let backend = format!(
            "terraform {{\n  backend \"http\" {{\n    address = \"{address}\"\n    lock_address = \"{address}\"\n    \
             unlock_address = \"{address}\"\n    username = \"anybody\"\n    password = \"{token}\"\n    \
             client_ca_certificate_pem = <<PEM\n{ca}PEM\n  }}\n}}\n"
        );
        Workspace::with_backend(client, &backend)
    }

    /// One that keeps its state in Kubernetes by itself, past the server.
    async fn stock(client: &Path, namespace: &str, suffix: &str) -> Workspace {
        let kubeconfig = testbed::Cluster::shared().await.admin_kubeconfig();
        let backend = format!(
            "terraform {{\n  backend \"kubernetes\" {{\n    secret_suffix = \"{suffix}\"\n    \
             namespace = \"{namespace}\"\n    config_path = \"{}\"\n  }}\n}}\n",
            kubeconfig.display()
        );
        Workspace::with_backend(client, &backend)
    }

    fn with_backend(client: &Path, backend: &str) -> Workspace {
        let directory = scratch("workspace").unwrap();
        fs::write(directory.join("backend.tf"), backend).unwrap();
        let workspace = Workspace { client: client.to_owned(), directory };
        workspace.configure("one", "");
        workspace
    }

    /// An apply that has the lock, and ends when the file is there that is returned.
    async fn busy(&self, input: &str) -> (Child, PathBuf) {
        let (gate, begun) = (self.directory.join("go-on"), self.directory.join("begun"));
        let wait = format!("until [ -e {} ]; do sleep 0.1; done", gate.display());
        let script = format!("touch {}; {wait}", begun.display());
        self.configure(input, &format!("  provisioner \"local-exec\" {{\n    command = \"{script}\"\n  }}\n"));
        let applying = self.spawn(&["apply", "-auto-approve"]);
        testbed::eventually(PATIENCE, || async { begun.exists() }).await;
        (applying, gate)
    }

    /// A resource that needs no provider, and an output; `provisioner` may keep an apply busy.
    pub(crate) fn configure(&self, input: &str, provisioner: &str) {
        let text = format!(
            "resource \"terraform_data\" \"it\" {{\n  input = \"{input}\"\n  triggers_replace = \"{input}\"\n{provisioner}}}\n\
             output \"it\" {{\n  value = terraform_data.it.output\n}}\n"
        );
        fs::write(self.directory.join("main.tf"), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.client);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.directory)
            .env("CHECKPOINT_DISABLE", "1")
            .current_dir(&self.directory)
            .args(arguments)
            .args(["-no-color"].iter().filter(|_| takes_color(arguments)));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("run the client")
    }

    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{} {arguments:?}: {}", self.client.display(), text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[track_caller]
    pub(crate) fn fails(&self, arguments: &[&str], with: &str) {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{} {arguments:?}: {}", self.client.display(), text(&output));
        let told = text(&output);
        assert!(told.contains(with), "{} {arguments:?}: no {with:?} in {told}", self.client.display());
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run the client")
    }
}

fn takes_color(arguments: &[&str]) -> bool {
    !matches!(arguments, ["state" | "output" | "force-unlock", ..])
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn authority(server: &Server) -> PathBuf {
    server.data.join("tls/self-signed.crt")
}

pub(crate) fn server() -> (Server, String) {
    let server = Start::new().tls().serve();
    let token = server.first_token();
    (server, token)
}

#[tokio::test]
async fn every_store_carries_a_workspace_through_its_life() {
    let client = testbed::peer("tofu").expect("tofu");
    let postgres = testbed::Postgres::shared().expect("PostgreSQL");
    let url = postgres.url(&postgres.create_database().expect("a database"));
    let server = Start::new().tls().variable("STATEWARD_DATABASE_URL", &url).serve();
    let token = server.first_token();
    life(&client, &server, &token, "/state/team-a/postgres").await;

    let routes = |start: Start| start.flag("--states-routes", "secret-*=secret,*=configmap");
    let (server, token, namespace) = beside_cluster("secret", routes).await;
    life(&client, &server, &token, &format!("/state/{namespace}/app")).await;
    let secrets: Api<Secret> = Api::namespaced(testbed::Cluster::shared().await.client(), &namespace);
    assert!(secrets.get("app").await.expect("the state is a Secret").data.unwrap().contains_key("tfstate"));

    let (server, token, namespace) = beside_cluster("states", routes).await;
    life(&client, &server, &token, &format!("/state/{namespace}/app")).await;
    let cluster = testbed::Cluster::shared().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let map = maps.get("app").await.expect("the state is a ConfigMap");
    assert!(map.binary_data.unwrap()["tfstate"].0.starts_with(&[0x1f, 0x8b]), "gzip, as the original writes it");

    let (server, token, namespace) =
        beside_cluster("stock", |start| start.flag("--states-routes", "*=kubernetes")).await;
    life(&client, &server, &token, &format!("/state/{namespace}/app")).await;

    let bucket = testbed::Weed::shared().expect("weed").create_bucket().expect("a bucket");
    let (server, token) = beside_bucket(&bucket);
    life(&client, &server, &token, "/state/team-a/app").await;
    let (status, text) = answer(server.request("GET", "/readyz?verbose").bearer_auth(&token)).await;
    assert!(status == 200 && text.contains("[+] s3 ok"), "{text}");
    let kept = state(&server, &token, "/state/team-a/app").await;
    drop(server);
    let (other, token) = beside_bucket(&bucket);
    assert_eq!(state(&other, &token, "/state/team-a/app").await, kept, "the state is in the bucket");
}

/// A server of its own that keeps all states in a bucket.
fn beside_bucket(bucket: &str) -> (Server, String) {
    let weed = testbed::Weed::shared().expect("weed");
    let server = Start::new()
        .tls()
        .flag("--states-routes", "*=s3")
        .flag("--s3-bucket", bucket)
        .flag("--s3-endpoint", weed.url())
        .flag("--s3-access-key-id", testbed::Weed::ACCESS_KEY_ID)
        .variable("STATEWARD_S3_ALLOW_HTTP", "true")
        .variable("STATEWARD_S3_SECRET_ACCESS_KEY", testbed::Weed::SECRET_ACCESS_KEY)
        .serve();
    let token = server.first_token();
    (server, token)
}

async fn state(server: &Server, token: &str, path: &str) -> Value {
    let (status, text) = answer(server.request("GET", path).bearer_auth(token)).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).expect("a state")
}

#[tokio::test]
async fn a_workspace_lives_from_init_to_destroy() {
    let (server, token) = server();
    for (number, client) in clients().iter().enumerate() {
        life(client, &server, &token, &format!("/state/team-a/life-{number}")).await;
    }
}

/// Everything that people do with a state when nobody disturbs them.
async fn life(client: &Path, server: &Server, token: &str, path: &str) {
    let workspace = Workspace::new(client, server, token, path);
    workspace.ok(&["init"]);
    assert_eq!(status(server.request("GET", path).bearer_auth(token)).await, 404);
    workspace.ok(&["plan"]);
    workspace.ok(&["apply", "-auto-approve"]);
    let first = state(server, token, path).await;
    assert_eq!(first["outputs"]["it"]["value"], "one");
    assert!(workspace.ok(&["apply", "-auto-approve"]).contains("No changes"));
    assert_eq!(state(server, token, path).await, first, "nothing changed, nothing was written");
    workspace.configure("two", "");
    workspace.ok(&["apply", "-auto-approve"]);
    let pulled: Value = serde_json::from_str(&workspace.ok(&["state", "pull"])).unwrap();
    assert_eq!(pulled["outputs"]["it"]["value"], "two");

    // Pushed with the same serial it is the next one; an old one only with force, and then it counts.
    let file = workspace.directory.join("pushed.tfstate");
    fs::write(&file, first.to_string()).unwrap();
    let file = file.to_str().unwrap();
    workspace.fails(&["state", "push", file], "serial");
    let other = first.to_string().replace(first["lineage"].as_str().unwrap(), "another-lineage");
    fs::write(file, other).unwrap();
    workspace.fails(&["state", "push", file], "lineage");
    workspace.ok(&["state", "push", "-force", file]);
    assert_eq!(state(server, token, path).await["lineage"], "another-lineage");

    workspace.ok(&["destroy", "-auto-approve"]);
    assert_eq!(state(server, token, path).await["resources"], Value::Array(Vec::new()));
}

#[tokio::test]
async fn of_two_applies_one_waits_or_fails_with_the_real_holder() {
    let (server, token) = server();
    for (number, client) in clients().iter().enumerate() {
        let path = format!("/state/team-a/locked-{number}");
        let holder = Workspace::new(client, &server, &token, &path);
        let other = Workspace::new(client, &server, &token, &path);
        holder.ok(&["init"]);
        other.ok(&["init"]);
        let (mut applying, gate) = holder.busy("held").await;

        let info = held_by(&server, &token, &path).await;
        assert_eq!(info["Operation"], "OperationTypeApply");
        let id = info["ID"].as_str().unwrap();
        other.fails(&["apply", "-auto-approve"], id);
        let waiting = other.spawn(&["apply", "-auto-approve", "-lock-timeout=60s"]);
        fs::write(&gate, "").unwrap();
        assert!(applying.wait().unwrap().success());
        let waited = waiting.wait_with_output().unwrap();
        assert!(waited.status.success(), "{}", text(&waited));
        assert_eq!(state(&server, &token, &path).await["outputs"]["it"]["value"], "one", "the later one won");
    }
}

#[tokio::test]
async fn a_broken_lock_is_free_and_its_holder_cannot_write_any_more() {
    let (server, token) = server();
    for (number, client) in clients().iter().enumerate() {
        let path = format!("/state/team-a/forced-{number}");
        let workspace = Workspace::new(client, &server, &token, &path);
        workspace.ok(&["init"]);
        workspace.ok(&["apply", "-auto-approve"]);
        let info = r#"{"ID":"00000000-0000-0000-0000-00000000000a","Operation":"stuck","Who":"gone@host"}"#;
        let lock = server.request("LOCK", &path).bearer_auth(&token).body(info);
        assert_eq!(status(lock).await, 200);
        workspace.fails(&["plan"], "00000000-0000-0000-0000-00000000000a");
        workspace.ok(&["force-unlock", "-force", "00000000-0000-0000-0000-00000000000a"]);
        workspace.ok(&["plan"]);
        let late = format!("{path}?ID=00000000-0000-0000-0000-00000000000a");
        let (status, body) = answer(server.request("POST", &late).bearer_auth(&token).body("{}")).await;
        assert_eq!(status, 423, "{body}");
        assert!(body.contains("\"ID\""), "{body}");
        workspace.configure("after", "");
        workspace.ok(&["apply", "-auto-approve"]);
    }
}

#[tokio::test]
async fn the_store_kubernetes_and_the_backend_of_that_name_share_states_and_locks() {
    let routes = |start: Start| start.flag("--states-routes", "*=kubernetes");
    let (server, token, namespace) = beside_cluster("stock", routes).await;
    for (number, client) in clients().iter().enumerate() {
        let (suffix, path) = (format!("app{number}"), format!("/state/{namespace}/app{number}"));
        let stock = Workspace::stock(client, &namespace, &suffix).await;
        let ours = Workspace::new(client, &server, &token, &path);
        let value = async || state(&server, &token, &path).await["outputs"]["it"]["value"].clone();

        // Each goes on where the other stopped.
        stock.ok(&["init"]);
        stock.ok(&["apply", "-auto-approve"]);
        assert_eq!(value().await, "one");
        ours.ok(&["init"]);
        assert!(ours.ok(&["apply", "-auto-approve"]).contains("No changes"));
        ours.configure("two", "");
        ours.ok(&["apply", "-auto-approve"]);
        assert!(stock.ok(&["output"]).contains("two"));
        stock.configure("three", "");
        stock.ok(&["apply", "-auto-approve"]);
        assert_eq!(value().await, "three");

        // Each minds the other's lock, and names its holder.
        let (mut applying, gate) = stock.busy("stock").await;
        let held = held_by(&server, &token, &path).await;
        assert_eq!(held["Operation"], "OperationTypeApply");
        ours.fails(&["plan"], held["ID"].as_str().unwrap());
        fs::write(gate, "").unwrap();
        assert!(applying.wait().unwrap().success());
        assert_eq!(value().await, "stock");
        let (mut applying, gate) = ours.busy("ours").await;
        let held = held_by(&server, &token, &path).await;
        let id = held["ID"].as_str().unwrap();
        stock.fails(&["plan"], id);

        // Broken by the stock client: the server's client does not write any more.
        stock.ok(&["force-unlock", "-force", id]);
        let late = format!("{path}?ID={id}");
        let before = value().await;
        assert_eq!(status(server.request("POST", &late).bearer_auth(&token).body("{}")).await, 423);
        fs::write(gate, "").unwrap();
        assert!(!applying.wait().unwrap().success(), "it could not save its state");
        assert_eq!(value().await, before);
        stock.configure("four", "");
        stock.ok(&["apply", "-auto-approve"]);
        assert_eq!(value().await, "four");

        // Other workspaces have names of their own.
        stock.ok(&["workspace", "new", "prod"]);
        stock.ok(&["apply", "-auto-approve"]);
        let prod = state(&server, &token, &format!("/state/{namespace}/prod.{suffix}")).await;
        assert_eq!(prod["outputs"]["it"]["value"], "four");
    }
}

/// The LockInfo that a second LOCK is refused with.
async fn held_by(server: &Server, token: &str, path: &str) -> Value {
    let probe = r#"{"ID":"00000000-0000-0000-0000-0000000000ff"}"#;
    let (status, body) = answer(server.request("LOCK", path).bearer_auth(token).body(probe)).await;
    assert_eq!(status, 423, "{body}");
    serde_json::from_str(&body).expect("a LockInfo")
}
