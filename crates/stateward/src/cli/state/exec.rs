//! `stateward state exec`: runs a command beside a proxy that puts the current token on every request.
//!
//! Clients read their password once, at their start, so that an apply which takes longer than its token lives cannot
//! save what it did. The proxy listens on loopback, for this one command: it knows a password of this run alone, serves
//! one state, and ends with the command.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use clap::Args;
use http::StatusCode;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use reqwest::Url;
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::cli::failure::{Ended, Exit, Failure};
use crate::cli::output;
use crate::client::{ClientArgs, Upstream};
use crate::config::{Environment, Secret};
use crate::serve::listener::{H2_STREAMS, Limits, Listener};

const USER: &str = "stateward";
const PATH: &str = "/state";

/// Run a command whose `http` backend always has the current token
///
/// Sets TF_HTTP_ADDRESS, TF_HTTP_LOCK_ADDRESS, TF_HTTP_UNLOCK_ADDRESS, TF_HTTP_USERNAME and TF_HTTP_PASSWORD for the
/// command, so that the configuration needs no more than `backend "http" {}`. The token is read anew for every request:
/// from --token-file, by the exec plugin of a kubeconfig, or from the ServiceAccount of the Pod. Ends with the exit code
/// of the command.
#[derive(Args)]
pub struct Exec {
    /// Namespace and name of the state on the server
    #[arg(value_name = "NAMESPACE/NAME", conflicts_with = "address")]
    state: Option<String>,
    /// Address of the state, where it is not /state/NAMESPACE/NAME of the server [env: TF_HTTP_ADDRESS]
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Exec {
    pub async fn run(self, client: ClientArgs, environment: &Environment) -> anyhow::Result<()> {
        let address = self.address(&client, environment)?;
        let upstream = Upstream::new(client, environment, address).await?;
        let mut password = [0; 32];
        aws_lc_rs::rand::fill(&mut password).context("failed to make a password")?;
        let password = Secret::new(BASE64_URL_SAFE_NO_PAD.encode(password));
        let socket = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await;
        let socket = socket.context("failed to listen on 127.0.0.1")?;
        let address = format!("http://{}{PATH}", socket.local_addr()?);
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(proxy(socket, upstream, &password).run(stopped));

        // Before the command is there: a signal must not end us in between.
        let signals = signals()?;
        let child = self.start(&address, &password)?;
        let status = wait(child, signals).await?;
        stop.send_replace(true);
        let _ = serving.await;
        match code(status) {
            0 => Ok(()),
            code => Err(Ended(code).into()),
        }
    }

    fn address(&self, client: &ClientArgs, environment: &Environment) -> Result<Url, Failure> {
        let example = "write NAMESPACE/NAME, or --address with an http or https URL";
        if let Some(state) = &self.state {
            let parts: Vec<&str> = state.split('/').collect();
            let [namespace, name] = parts.as_slice() else {
                return Err(Failure::usage(format!("'{state}' is not NAMESPACE/NAME"), example));
            };
            let mut url = client.server(environment)?;
            if let Ok(mut segments) = url.path_segments_mut() {
                segments.pop_if_empty().extend(["state", namespace, name]);
            }
            return Ok(url);
        }
        let given = self.address.as_deref().or(environment.non_empty("TF_HTTP_ADDRESS"));
        let given = given.ok_or_else(|| Failure::usage("which state is not said", example))?;
        let url = Url::parse(given).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        url.ok_or_else(|| Failure::usage("the address of the state is not an http or https URL", example))
    }

    fn start(&self, address: &str, password: &Secret) -> Result<Child, Failure> {
        let (program, arguments) = self.command.split_first().unzip();
        let program = program.cloned().unwrap_or_default();
        let mut command = Command::new(&program);
        command.args(arguments.unwrap_or_default());
        for name in ["TF_HTTP_ADDRESS", "TF_HTTP_LOCK_ADDRESS", "TF_HTTP_UNLOCK_ADDRESS"] {
            command.env(name, address);
        }
        // They are about the way to the server, which is ours now.
        for name in ["CLIENT_CA_CERTIFICATE_PEM", "CLIENT_CERTIFICATE_PEM", "CLIENT_PRIVATE_KEY_PEM"] {
            command.env_remove(format!("TF_HTTP_{name}"));
        }
        command.env("TF_HTTP_USERNAME", USER).env("TF_HTTP_PASSWORD", password.expose());
        command.spawn().map_err(|error| {
            let message = format!("failed to run {}: {error}", program.display());
            Failure::new(Exit::NotFound, message, "check the name and PATH")
        })
    }
}

/// One proxied state.
struct Proxy {
    upstream: Upstream,
    /// The only Authorization header that is answered.
    authorization: Secret,
}

fn proxy(socket: TcpListener, upstream: Upstream, password: &Secret) -> Listener {
    let credentials = BASE64_STANDARD.encode(format!("{USER}:{}", password.expose()));
    let proxy = Proxy { upstream, authorization: Secret::new(format!("Basic {credentials}")) };
    let routes = Router::new().fallback(pass_on).with_state(Arc::new(proxy));
    let limits = Limits {
        header_time: Duration::from_secs(10),
        connections: 64,
        streams: H2_STREAMS,
        grace: Duration::from_secs(5),
    };
    Listener { socket, tls: None, routes, limits }
}

async fn pass_on(State(proxy): State<Arc<Proxy>>, request: Request) -> Response {
    let shown = request.headers().get(AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
    if verify_slices_are_equal(shown, proxy.authorization.expose().as_bytes()).is_err() {
        return (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Basic realm=\"stateward state exec\"")])
            .into_response();
    }
    if request.uri().path() != PATH {
        return StatusCode::NOT_FOUND.into_response();
    }
    match proxy.upstream.forward(request).await {
        Ok(response) => response,
        Err(failure) => {
            // Clients repeat a 502 and never show its body: the reason is told here.
            output::talk(format_args!("stateward: {failure}\nhint: {}", failure.hint));
            (StatusCode::BAD_GATEWAY, failure.to_string()).into_response()
        }
    }
}

/// What others send us while the command runs. The command is told as well, unless the terminal has done so already.
fn signals() -> anyhow::Result<mpsc::UnboundedReceiver<Signal>> {
    const PASSED_ON: [Signal; 6] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
    let (sender, receiver) = mpsc::unbounded_channel();
    for each in PASSED_ON {
        let mut arriving = signal(SignalKind::from_raw(each.as_raw())).context("failed to listen for signals")?;
        let sender = sender.clone();
        tokio::spawn(async move { while arriving.recv().await.is_some() && sender.send(each).is_ok() {} });
    }
    Ok(receiver)
}

async fn wait(mut child: Child, mut signals: mpsc::UnboundedReceiver<Signal>) -> anyhow::Result<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status.context("failed to wait for the command"),
            Some(signal) = signals.recv() => {
                let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
                if let Some(pid) = pid.filter(|_| !is_from_terminal(signal)) {
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

/// Keys send their signal to the whole foreground group, the command included. To a client, a second interrupt means to
/// drop everything.
fn is_from_terminal(signal: Signal) -> bool {
    let foreground = || {
        let terminal = std::fs::File::open("/dev/tty").ok()?;
        rustix::termios::tcgetpgrp(&terminal).ok()
    };
    matches!(signal, Signal::INT | Signal::QUIT) && foreground() == Some(getpgrp())
}

/// As a shell tells it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
