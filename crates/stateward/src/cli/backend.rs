//! `stateward backend`: one storage backend as a gRPC server.
//!
//! The drivers and their flags come from the list of the crate `backends`; what is here is how each of them is served. The
//! door is [`Backend::run`].

use std::future::Future;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use backends::drivers::{DRIVERS, Kind, Options};
use backends::{Driver, Error, Pem, Server, ServerLimits, ServerTls, Serving};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::failure::{Exit, Failure};
use super::logging;
use crate::config::{Environment, Given, resolve};
use crate::serve::listener::{H2_STREAMS, Limits, Listener};
use crate::serve::{say, stop_signal};

const DEFAULT_LISTEN: &str = "127.0.0.1:50051";
const HEALTH_WITHIN: Duration = Duration::from_secs(5);

/// Serve a storage backend for the hub, over gRPC
///
/// Speaks the protocol `storage_backend` with whoever connects; beyond loopback only with clients that show a certificate of
/// the authority in --client-ca. Certificates are read again when they change. Settings of the log are those of `serve`, by
/// variable or configuration file.
#[derive(Args)]
pub struct Backend {
    #[command(subcommand)]
    chosen: Chosen,
}

/// A driver of the list, its own options, and what all have in common.
struct Chosen {
    kind: &'static Kind,
    options: Options,
    listening: Listening,
}

#[derive(Args)]
struct Listening {
    /// Where to listen; port 0 takes any that is free [env: APP_GRPC_ADDR] [default: 127.0.0.1:50051]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Certificate of the server with its intermediates, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authority whose certificates clients must show, PEM; needed to listen where others can connect
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// Answer `GET /healthz` here, over plain HTTP, for probes that have no certificate [env: APP_HEALTHZ_ADDR]
    #[arg(long, value_name = "ADDRESS")]
    health_listen: Option<String>,
}

impl Subcommand for Chosen {
    fn augment_subcommands(command: Command) -> Command {
        let command = command.subcommand_required(true).arg_required_else_help(true);
        DRIVERS.iter().fold(command, |command, kind| {
            let flags = kind.options.iter().map(|option| {
                let flag = Arg::new(option.name).long(option.name).value_name(option.placeholder).help(option.help);
                let flag = flag.value_parser(clap::value_parser!(std::ffi::OsString));
                match option.default {
                    Some(default) => flag.default_value(default),
                    None => flag.required(true),
                }
            });
            let about = format!("{}\n\n{}", kind.about, kind.more);
            let driver = Command::new(kind.name).about(kind.about).long_about(about).args(flags);
            command.subcommand(Listening::augment_args(driver))
        })
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Chosen::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        DRIVERS.iter().any(|kind| kind.name == name)
    }
}

impl FromArgMatches for Chosen {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Chosen, clap::Error> {
        let chosen = matches.subcommand();
        let known = chosen.and_then(|(name, flags)| Some((DRIVERS.iter().find(|kind| kind.name == name)?, flags)));
        let (kind, flags) = known.ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingSubcommand))?;
        let given = kind.options.iter().filter_map(|option| {
            let value = flags.get_one::<std::ffi::OsString>(option.name)?;
            Some((option.name, value.clone()))
        });
        Ok(Chosen { kind, options: given.collect(), listening: Listening::from_arg_matches(flags)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Chosen::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Backend {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let Chosen { kind, options, listening } = self.chosen;
        let mut resolution = resolve(&Given::default(), environment);
        let warnings = std::mem::take(&mut resolution.warnings);
        let settings = resolution.settings()?;
        logging::start(&settings.log, environment)?;
        logging::warn_of(&warnings);

        let default = Some(DEFAULT_LISTEN);
        let listen = address("--listen", listening.listen.as_deref(), environment, "APP_GRPC_ADDR", default)?;
        let health = listening.health_listen.as_deref();
        let health = address("--health-listen", health, environment, "APP_HEALTHZ_ADDR", None)?;
        let tls = listening.tls_cert.zip(listening.tls_key).map(|(certificate, key)| ServerTls {
            certificate: Pem::File(certificate),
            key: Pem::File(key),
            client_authority: listening.client_ca.map(Pem::File),
        });

        let limits = ServerLimits { grace: settings.shutdown_grace, ..ServerLimits::default() };
        let listen = listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let serving = Serving { listen, tls, limits };
        // Before the driver makes anything.
        serving.check().map_err(|error| explained(&error))?;
        let driver = (kind.open)(&options).map_err(|error| explained(&error))?;
        let server = Server::bind(driver.clone(), serving).await.map_err(|error| explained(&error))?;
        let stop = watch::Sender::new(false);
        let mut tasks = tokio::task::JoinSet::new();
        if let Some(health) = health {
            let limits = Limits {
                header_time: settings.limits.header_time,
                connections: settings.limits.connections,
                streams: H2_STREAMS,
                grace: settings.shutdown_grace,
            };
            tasks.spawn(probe(driver, health, limits).await?.run(stop.subscribe()));
        }
        let signals = stop_signal()?;
        say(&format!("The storage backend {} is at {}", kind.name, server.address()));
        server.run(stopping(signals)).await;
        stop.send_replace(true);
        tasks.join_all().await;
        tracing::info!("stopped");
        Ok(())
    }
}

async fn stopping(signals: impl Future<Output = ()>) {
    signals.await;
    tracing::info!("stopping: letting calls end");
}

/// The flag, else the original's variable, else the default. As there, no host means every one.
fn address(
    flag: &'static str,
    given: Option<&str>,
    environment: &Environment,
    variable: &'static str,
    default: Option<&str>,
) -> Result<Option<SocketAddr>, Failure> {
    let (name, text) = match (given, environment.non_empty(variable)) {
        (None, Some(text)) => (variable, text),
        (given, _) => match given.or(default) {
            Some(text) => (flag, text),
            None => return Ok(None),
        },
    };
    let whole = match (text.strip_prefix(':'), text.strip_prefix("localhost:")) {
        (Some(port), _) => format!("0.0.0.0:{port}"),
        (None, Some(port)) => format!("127.0.0.1:{port}"),
        (None, None) => text.to_owned(),
    };
    let wrong = |_| Failure::usage(format!("{name}: '{text}' is not an address"), "write one such as 127.0.0.1:50051");
    whole.parse().map(Some).map_err(wrong)
}

/// A listener that tells whether the driver serves, and nothing else.
async fn probe(driver: Arc<dyn Driver>, listen: SocketAddr, limits: Limits) -> anyhow::Result<Listener> {
    let socket =
        TcpListener::bind(listen).await.map_err(|source| explained(&Error::Listen { address: listen, source }))?;
    let answer = move || {
        let driver = driver.clone();
        async move {
            match driver.health(HEALTH_WITHIN).await {
                Ok(()) => (StatusCode::OK, "ok\n"),
                Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "not serving\n"),
            }
        }
    };
    say(&format!("Its health is at http://{}/healthz", socket.local_addr()?));
    Ok(Listener { socket, tls: None, routes: Router::new().route("/healthz", get(answer)), limits })
}

fn explained(error: &Error) -> Failure {
    let hint = match error {
        Error::Exposed(_) => "give --tls-cert, --tls-key and --client-ca, or --listen 127.0.0.1:50051",
        Error::Tls(_) => "--tls-cert, --tls-key and --client-ca are PEM files; the key belongs to the certificate",
        Error::Listen { .. } => "choose another address with --listen or --health-listen",
        _ => "`stateward backend DRIVER --help` tells what the driver needs",
    };
    let exit = match error {
        Error::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse => Exit::Conflict,
        Error::Listen { .. } | Error::Directory { .. } => Exit::Failed,
        _ => Exit::Usage,
    };
    let message = match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    Failure::new(exit, message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_from_the_flag_the_originals_variable_or_the_default() {
        let read = |given: Option<&str>, variable: &str, default: Option<&str>| {
            let environment = [("APP_GRPC_ADDR", variable)].into_iter().collect();
            let address = address("--listen", given, &environment, "APP_GRPC_ADDR", default);
            address.map(|address| address.map(|address| address.to_string())).map_err(|failure| failure.message)
        };
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(read(None, "", Some(DEFAULT_LISTEN)), some("127.0.0.1:50051"));
        assert_eq!(read(None, ":8082", Some(DEFAULT_LISTEN)), some("0.0.0.0:8082"), "as in Go");
        assert_eq!(read(Some("localhost:1"), ":8082", None), some("127.0.0.1:1"));
        assert_eq!(read(Some("[::1]:1"), "", None), some("[::1]:1"));
        assert_eq!(read(None, "", None), Ok(None));
        assert_eq!(read(Some("nonsense"), "", None), Err("--listen: 'nonsense' is not an address".to_owned()));
        assert_eq!(read(None, "x", None), Err("APP_GRPC_ADDR: 'x' is not an address".to_owned()));
    }
}
