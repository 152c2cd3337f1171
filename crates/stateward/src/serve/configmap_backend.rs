//! `stateward configmap-backend`: the compatibility listener alone, with the clients and certificates of the original.
//!
//! The door is [`run`]. It differs from `serve` in what it opens: three clients of possibly three API servers, no
//! stores but ConfigMaps, no main listener.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use access::http::Door;
use access::{Authorizer, Gate, TokenAuthority};
use anyhow::{Context, Result};
use states::head::Packing;
use states::http::compat::{AllowedPath, Compat};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::authorities::AuthoritySource;
use super::cluster::Cluster;
use super::data_dir::DataDir;
use super::layers::{Around, Hosts};
use super::listener::{H2_STREAMS, Limits, Listener};
use super::metrics::Metrics;
use super::ready::Readiness;
use super::{bind, gate_settings, open_audit, open_database, routes, say, serve, states as engine, tls};
use crate::config::{Environment, Settings};

/// Everything that the command line says.
pub(crate) struct Backend {
    /// Keys that flags stand for are set already.
    pub(crate) settings: Settings,
    pub(crate) kubeconfigs: Kubeconfigs,
    pub(crate) on_lookup_failure: OnFailure,
    pub(crate) tls: tls::Wanted,
    /// Listen on every interface, of IPv4 too where IPv6 is off.
    pub(crate) all_interfaces: bool,
    pub(crate) allowed: Vec<AllowedPath>,
    pub(crate) packing: Packing,
    /// Of one h2 connection; `None` is the usual number.
    pub(crate) streams: Option<u32>,
}

/// Who is asked what; each is in-cluster if there is no file.
pub(crate) struct Kubeconfigs {
    pub(crate) core: Option<PathBuf>,
    pub(crate) authentication: Option<PathBuf>,
    pub(crate) authorization: Option<PathBuf>,
}

/// What to do when the cluster does not tell its authorities at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    End,
    GoOn,
}

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(backend: Backend, environment: &Environment) -> Result<()> {
    let Backend { settings, kubeconfigs, on_lookup_failure, tls, all_interfaces, allowed, packing, streams } = backend;
    let settings = &settings;
    let Kubeconfigs { core, authentication, authorization } = kubeconfigs;
    let core = Cluster::connect_by("--kubeconfig", core.as_deref(), settings, environment).await?;
    let field = "--authentication-kubeconfig";
    let authentication = Cluster::connect_by(field, authentication.as_deref(), settings, environment).await?;
    let field = "--authorization-kubeconfig";
    let authorization = Cluster::connect_by(field, authorization.as_deref(), settings, environment).await?;

    let _data = DataDir::open(&settings.data_dir).context("the audit log has no place: see STATEWARD_DATA_DIR")?;
    let metrics = Metrics::new();
    let db = open_database(settings).await?;
    let audit = open_audit(settings, &db, &metrics).await?;

    let source = AuthoritySource::new(settings, Some(&authentication)).for_missing_only();
    let authorities = match on_lookup_failure {
        OnFailure::GoOn => source.load().await?,
        OnFailure::End => source.load_or_fail().await.context(
            "failed to look up authentication settings in the cluster; --authentication-skip-lookup does without \
             them, --authentication-tolerate-lookup-failure starts all the same",
        )?,
    };
    let tokens =
        TokenAuthority::Review { client: authentication.client(), audiences: settings.access.audiences.clone() };
    let authorizer = Authorizer::Review { client: authorization.client() };
    let counters = metrics.register(access::metrics::Metrics::register);
    let gate = Gate::new(tokens, authorizer, authorities, gate_settings(settings), counters)?;
    let mut tasks = tokio::task::JoinSet::new();
    let clients = source.client_certificates();
    tasks.spawn(source.follow(gate.clone()));

    let keyring = super::keys::open(settings, Some(&core)).await?;
    let states = {
        let counters = metrics.register(::states::metrics::Metrics::register);
        engine::in_config_maps(settings, &core, packing, keyring, counters)?
    };
    tasks.spawn(engine::sweep(states.clone(), settings.states.sweep_every));
    tasks.spawn(engine::keep_up(states.clone()));

    let (config, certificates) = tls.configure(clients)?;
    tasks.spawn(certificates.follow());
    let socket = match bind(settings.listen).await {
        Err(_) if all_interfaces => bind_ipv4(settings.listen.port()).await?,
        bound => bound.context("choose another with --bind-address or --secure-port")?,
    };

    let ready = Readiness::default();
    ready.add("cluster", move || core.clone().reachable());
    let writable = audit.clone();
    ready.add("audit", move || std::future::ready(writable.health()));
    let around = Around {
        door: Door::new(gate, audit.clone()),
        metrics,
        hosts: Arc::new(Hosts::Any),
        idle_body_time: settings.limits.idle_body_time,
    };
    let compat = Compat::new(states.clone(), states.stores().remove(0)).allowing(allowed.clone());
    let open = |path: &str| allowed.iter().any(|allowed| allowed.matches(path));
    let routes = routes::configmap_backend(compat, around, ready, open);
    let limits = Limits {
        header_time: settings.limits.header_time,
        connections: settings.limits.connections,
        streams: streams.unwrap_or(H2_STREAMS),
        grace: settings.shutdown_grace,
    };
    say(&format!("States in ConfigMaps are at https://{}/", socket.local_addr()?));
    let listener = Listener { socket, tls: Some(config), routes, limits };
    let served = serve(vec![listener], watch::Sender::new(false)).await;
    tasks.shutdown().await;
    audit.close().await;
    db.close().await;
    tracing::info!("stopped");
    served.map(drop)
}

async fn bind_ipv4(port: u16) -> Result<TcpListener> {
    bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await
}
