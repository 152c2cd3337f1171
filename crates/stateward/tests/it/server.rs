//! A real `stateward serve` process for one test, and a client for it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, Identity, Method, RequestBuilder};
use testbed::Kubeconfig;
use testbed::certificates::Pair;
use testbed::process::{Process, scratch};

/// Generous: a slow machine is no failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How a server is started.
pub struct Start {
    pub data: PathBuf,
    listen: String,
    command: Command,
}

/// A running server; killed when dropped.
pub struct Server {
    pub process: Process,
    pub url: String,
    pub data: PathBuf,
}

impl Start {
    /// On embedded defaults, a fresh data directory and a port of the kernel's choice.
    pub fn new() -> Start {
        let data = scratch("serve").expect("a scratch directory").join("data");
        Start::on(data)
    }

    /// On a data directory that may have been used before.
    pub fn on(data: PathBuf) -> Start {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stateward"));
        command.env_clear().arg("serve").arg("--data-dir").arg(&data);
        Start { data, listen: "127.0.0.1:0".to_owned(), command }
    }

    pub fn listen(mut self, address: impl Into<String>) -> Start {
        self.listen = address.into();
        self
    }

    pub fn flag(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Start {
        self.command.arg(name).arg(value);
        self
    }

    pub fn switch(mut self, name: &str) -> Start {
        self.command.arg(name);
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Start {
        self.command.env(name, value);
        self
    }

    /// Beside a cluster, with the identity of this kubeconfig. Nothing is collected of it: all these tests make objects in one
    /// cluster, and every server would follow those of all others.
    pub fn cluster(self, kubeconfig: &Kubeconfig) -> Start {
        self.flag("--cluster-kubeconfig", kubeconfig.write()).variable("STATEWARD_EXPLORER_ENABLED", "false")
    }

    /// Beside a cluster whose objects of these kinds are collected.
    pub fn collecting(self, kubeconfig: &Kubeconfig, kinds: &str) -> Start {
        let start = self.cluster(kubeconfig).variable("STATEWARD_EXPLORER_ENABLED", "true");
        start.flag("--explorer-kinds", kinds)
    }

    /// With a certificate of its own making.
    pub fn tls(self) -> Start {
        self.switch("--tls-self-signed")
    }

    /// Starts the process without waiting for it.
    pub fn spawn(mut self) -> Process {
        let log = self.log();
        self.command.args(["--listen", self.listen.as_str()]);
        Process::spawn("stateward", &mut self.command, &log).expect("start stateward")
    }

    fn log(&self) -> PathBuf {
        self.data.with_extension("log")
    }

    /// Starts the server and waits until it says where it is.
    pub fn serve(self) -> Server {
        self.try_serve().expect("a server that is ready")
    }

    /// The same, for a start that may fail because what the server needs is away.
    pub fn try_serve(self) -> anyhow::Result<Server> {
        let (log, data) = (self.log(), self.data.clone());
        // A log of an earlier process on the same directory must not be taken for this one's.
        let _ = std::fs::remove_file(&log);
        let mut process = self.spawn();
        let read = || std::fs::read_to_string(&log).unwrap_or_default();
        let url = |text: &str| text.lines().find_map(|line| line.strip_prefix("Stateward is at ")).map(str::to_owned);
        process.wait_until(PATIENCE, || url(&read()).is_some())?;
        let url = url(&read()).expect("a line with the address").trim_end_matches('/').to_owned();
        Ok(Server { process, url, data })
    }
}

impl Server {
    /// The first token of a standalone server.
    pub fn first_token(&self) -> String {
        std::fs::read_to_string(self.data.join("first-token")).expect("a first token").trim().to_owned()
    }

    /// The address of the separate port for metrics.
    pub fn metrics_url(&self) -> String {
        let log = self.process.log();
        let line = log.lines().find_map(|line| line.strip_prefix("Metrics are at "));
        line.expect("a line with the address").to_owned()
    }

    /// The address without its scheme.
    pub fn address(&self) -> &str {
        self.url.split_once("://").expect("a scheme").1
    }

    /// A client that trusts this server's own certificate, if it has one.
    pub fn client_builder(&self) -> ClientBuilder {
        let builder = Client::builder().timeout(PATIENCE).no_proxy();
        match std::fs::read(self.data.join("tls/self-signed.crt")) {
            Ok(pem) => builder.tls_certs_only([Certificate::from_pem(&pem).expect("a certificate")]),
            Err(_) => builder,
        }
    }

    pub fn client(&self) -> Client {
        self.client_builder().build().expect("a client")
    }

    /// A client that presents a certificate.
    pub fn client_with(&self, pair: &Pair) -> Client {
        let pem = format!("{}{}", pair.certificate_pem, pair.key_pem);
        let identity = Identity::from_pem(pem.as_bytes()).expect("an identity");
        self.client_builder().identity(identity).build().expect("a client")
    }

    /// A request for `path` with a client of its own.
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        self.request_by(&self.client(), method, path)
    }

    pub fn request_by(&self, client: &Client, method: &str, path: &str) -> RequestBuilder {
        client.request(Method::from_bytes(method.as_bytes()).expect("a method"), format!("{}{path}", self.url))
    }
}

/// The status of an answer, as a number.
pub async fn status(request: RequestBuilder) -> u16 {
    request.send().await.expect("an answer").status().as_u16()
}

/// The status and the text of an answer.
pub async fn answer(request: RequestBuilder) -> (u16, String) {
    let response = request.send().await.expect("an answer");
    (response.status().as_u16(), response.text().await.expect("a text"))
}
