//! A real `stateward configmap-backend` process for one test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::{Certificate, Client, ClientBuilder, Method, RequestBuilder};
use testbed::process::{Process, free_port, scratch};
use testbed::{Cluster, Scope, rule, subject};

use crate::server::PATIENCE;

pub const NAME: &str = "tf-kubernetes-configmap-backend";
pub const EVERYTHING: &[&str] = &["get", "list", "create", "update", "patch", "delete"];

/// How a backend is started: in a directory of its own, on a free port of 127.0.0.1.
pub struct Launch {
    pub directory: PathBuf,
    command: Command,
}

/// A running backend; killed when dropped.
pub struct Backend {
    pub process: Process,
    pub url: String,
    pub directory: PathBuf,
}

impl Launch {
    /// With no kubeconfig at all.
    pub fn bare() -> Launch {
        let directory = scratch("backend").expect("a scratch directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_stateward"));
        command.env_clear().env("STATEWARD_DATA_DIR", directory.join("data")).current_dir(&directory);
        command.arg("configmap-backend").arg(format!("--secure-port={}", free_port().expect("a port")));
        Launch { directory, command }.flag("--bind-address", "127.0.0.1")
    }

    /// With one identity for everything.
    pub async fn new() -> Launch {
        Launch::bare().cluster(&identity().await.1)
    }

    /// With this kubeconfig for everything.
    pub fn cluster(self, kubeconfig: &Path) -> Launch {
        let flags = ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"];
        flags.into_iter().fold(self, |launch, flag| launch.flag(flag, kubeconfig))
    }

    pub fn flag(mut self, name: &str, value: impl AsRef<OsStr>) -> Launch {
        let mut flag = std::ffi::OsString::from(format!("{name}="));
        flag.push(value);
        self.command.arg(flag);
        self
    }

    pub fn switch(mut self, name: &str) -> Launch {
        self.command.arg(name);
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Launch {
        self.command.env(name, value);
        self
    }

    pub fn without_variable(mut self, name: &str) -> Launch {
        self.command.env_remove(name);
        self
    }

    /// Runs another program with the arguments so far.
    pub fn through(mut self, program: &Path, before: &[&str]) -> Launch {
        let mut command = Command::new(program);
        command.env_clear().current_dir(&self.directory).args(before).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        self.command = command;
        self
    }

    pub fn spawn(mut self) -> Process {
        let log = self.log();
        Process::spawn("configmap-backend", &mut self.command, &log).expect("start the backend")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Starts it and waits until it says where it is.
    pub fn start(self) -> Backend {
        let (log, directory) = (self.log(), self.directory.clone());
        let _ = std::fs::remove_file(&log);
        let mut process = self.spawn();
        process.wait_until(PATIENCE, || address(&log).is_some()).expect("a backend that is ready");
        let url = address(&log).expect("a line with the address");
        Backend { process, url, directory }
    }

    /// Runs it to its end, which must not be a good one: its exit code and all that it said.
    pub fn fails(self) -> (i32, String) {
        let mut process = self.spawn();
        let code = process.wait(PATIENCE).expect("an end").code().expect("an exit code");
        assert_ne!(code, 0, "{}", process.log());
        (code, process.log())
    }
}

fn address(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("States in ConfigMaps are at "));
    line.map(|url| url.trim_end_matches('/').to_owned())
}

impl Backend {
    pub fn certificate(&self) -> PathBuf {
        self.directory.join(NAME).join("certificates").join(format!("{NAME}.crt"))
    }

    /// A client that trusts the certificate that the backend made.
    pub fn client_builder(&self) -> ClientBuilder {
        let pem = std::fs::read(self.certificate()).expect("a certificate");
        let root = Certificate::from_pem(&pem).expect("a certificate");
        Client::builder().timeout(PATIENCE).no_proxy().tls_certs_only([root])
    }

    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        self.request_by(&self.client_builder().build().expect("a client"), method, path)
    }

    pub fn request_by(&self, client: &Client, method: &str, path: &str) -> RequestBuilder {
        client.request(Method::from_bytes(method.as_bytes()).expect("a method"), format!("{}{path}", self.url))
    }

    pub fn address(&self) -> &str {
        self.url.split_once("://").expect("a scheme").1
    }
}

/// A ServiceAccount that may review, read the published authorities, and work on every ConfigMap: its name to the API
/// server and its kubeconfig.
pub async fn identity() -> (String, PathBuf) {
    let cluster = Cluster::shared().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let name = delegator.username.rsplit(':').next().expect("a name");
    let account = [subject::service_account(&delegator.namespace, name)];
    cluster.grant(Scope::Cluster, &account, &[rule(EVERYTHING, &[""], &["configmaps"])]).await;
    (delegator.username, delegator.kubeconfig.write())
}
