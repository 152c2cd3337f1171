//! The clients themselves, over TLS: what people do with a state, from init to destroy, on every store.

mod failed_write;
mod life;
mod locks;
mod migration;
mod outputs;
mod stock;

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use testbed::process::scratch;

use crate::places::{Kept, Place, STORES, clients, on};
use crate::server::{PATIENCE, Server, Start, answer};

/// Tells a story on every store with each client, in a place of its own.
fn on_every_store(story: impl AsyncFn(&mut Place, &Path) + Sync) {
    on(&STORES, async |kept: Kept| {
        let mut place = Place::new(kept).await;
        for client in clients(kept) {
            story(&mut place, &client).await;
        }
    });
}

/// A name for a state that no other client uses.
fn named(story: &str, client: &Path) -> String {
    format!("{story}-{}", client.file_name().and_then(|name| name.to_str()).expect("a name"))
}

/// A working directory with a configuration.
pub(crate) struct Workspace {
    client: PathBuf,
    pub directory: PathBuf,
}

impl Workspace {
    /// One that keeps its state on a server.
    pub(crate) fn new(client: &Path, server: &Server, token: &str, path: &str) -> Workspace {
        let workspace = Workspace::local(client);
        workspace.keep_in(&format!("backend \"http\" {{\n{}}}", http(server, token, path)));
        workspace
    }

    pub(crate) fn at(place: &Place, client: &Path, name: &str) -> Workspace {
        Workspace::new(client, &place.server, &place.token, &place.path(name))
    }

    /// One that keeps its state beside its configuration.
    fn local(client: &Path) -> Workspace {
        let workspace = Workspace { client: client.to_owned(), directory: scratch("workspace").unwrap() };
        workspace.configure("one", "");
        workspace
    }

    /// From the next init on.
    fn keep_in(&self, backend: &str) {
        fs::write(self.directory.join("backend.tf"), format!("terraform {{\n{backend}\n}}\n")).unwrap();
    }

    /// An apply of this new input that has the lock, and ends when the file is there that is returned.
    async fn busy(&self, input: &str) -> (Child, PathBuf) {
        let (gate, begun) = (self.directory.join("go-on"), self.directory.join("begun"));
        let wait = format!("until [ -e {} ]; do sleep 0.1; done", gate.display());
        let script = format!("touch {}; {wait}", begun.display());
        self.configure(input, &format!("  provisioner \"local-exec\" {{\n    command = \"{script}\"\n  }}\n"));
        let applying = RefCell::new(self.spawn(&["apply", "-auto-approve"]));
        let ended = || applying.borrow_mut().try_wait().is_ok_and(|status| status.is_some());
        testbed::eventually(PATIENCE, || async { begun.exists() || ended() }).await;
        let applying = applying.into_inner();
        assert!(begun.exists(), "{}", text(&applying.wait_with_output().unwrap()));
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

/// What a backend `http` is told to read, write and lock a state.
fn http(server: &Server, token: &str, path: &str) -> String {
    let address = format!("{}{path}", server.url);
    format!("  lock_address = \"{address}\"\n  unlock_address = \"{address}\"\n{}", http_reader(server, token, path))
}

/// What a backend `http` is told to read.
fn http_reader(server: &Server, token: &str, path: &str) -> String {
    let ca = fs::read_to_string(server.data.join("tls/self-signed.crt")).unwrap();
    format!(
        "  address = \"{}{path}\"\n  username = \"anybody\"\n  password = \"{token}\"\n  \
         client_ca_certificate_pem = <<PEM\n{ca}PEM\n",
        server.url
    )
}

pub(crate) fn server() -> (Server, String) {
    let server = Start::new().tls().serve();
    let token = server.first_token();
    (server, token)
}

/// The LockInfo that a second LOCK is refused with.
async fn held_by(place: &Place, name: &str) -> Value {
    let probe = r#"{"ID":"00000000-0000-0000-0000-0000000000ff"}"#;
    let lock = place.server.request("LOCK", &place.path(name)).bearer_auth(&place.token);
    let (status, body) = answer(lock.body(probe)).await;
    assert_eq!(status, 423, "{body}");
    serde_json::from_str(&body).expect("a LockInfo")
}
