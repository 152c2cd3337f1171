//! A real `stateward serve` on embedded defaults, of the same build profile as this program, and a client for it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Certificate, Client};
use testbed::Process;

/// Generous: a slow machine is no failure.
const PATIENCE: Duration = Duration::from_mins(1);

/// How clients reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// HTTP/2 with prior knowledge.
    Plain,
    /// HTTP/2 by ALPN, with the server's own certificate.
    Tls,
}

/// A running server; killed when dropped. No Debug: it holds a token.
pub(crate) struct Server {
    process: Process,
    pub(crate) url: String,
    pub(crate) client: Client,
    /// The first token, which may do everything; a server beside a cluster makes none.
    pub(crate) token: Option<String>,
}

impl Server {
    /// Starts a server on the fresh directory `data` and waits until it says where it is.
    pub(crate) fn start(program: &Path, data: &Path, transport: Transport) -> Result<Server> {
        Server::start_with(program, data, transport, &[], &[])
    }

    /// The same with more settings.
    pub(crate) fn start_with(
        program: &Path,
        data: &Path,
        transport: Transport,
        flags: &[(&str, String)],
        variables: &[(&str, String)],
    ) -> Result<Server> {
        let mut command = Command::new(program);
        command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
        command.args(flags.iter().flat_map(|(name, value)| [*name, value]));
        if transport == Transport::Tls {
            command.arg("--tls-self-signed");
        }
        let log = data.with_extension("log");
        let mut process = Process::spawn("stateward", &mut command, &log)?;
        let url = || std::fs::read_to_string(&log).ok().and_then(|text| address(&text));
        process.wait_until(PATIENCE, || url().is_some())?;
        let url = url().context("the server does not say where it is")?;
        let builder = Client::builder().timeout(PATIENCE).no_proxy();
        let builder = match transport {
            Transport::Plain => builder.http2_prior_knowledge(),
            Transport::Tls => {
                let pem = std::fs::read(data.join("tls/self-signed.crt"))?;
                builder.tls_certs_only([Certificate::from_pem(&pem)?])
            }
        };
        let token = std::fs::read_to_string(data.join("first-token")).ok().map(|token| token.trim().to_owned());
        Ok(Server { process, url, client: builder.build()?, token })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

fn address(log: &str) -> Option<String> {
    let line = log.lines().find_map(|line| line.strip_prefix("Stateward is at "))?;
    Some(line.trim_end_matches('/').to_owned())
}

/// Builds the server beside this program and tells where it is. Always asks cargo, which knows in a moment if there is
/// nothing to do: a binary that happens to be there may be of other code than this.
pub(crate) fn build() -> Result<PathBuf> {
    let directory = crate::build_directory()?;
    let target = directory.parent().context("the build directory has no parent")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--package", "stateward", "--bin", "stateward"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).status();
    ensure!(status.context("failed to run cargo")?.success(), "failed to build stateward");
    let program = directory.join("stateward");
    ensure!(program.exists(), "cargo built stateward, but not at {}", program.display());
    Ok(program)
}
