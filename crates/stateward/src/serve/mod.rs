//! `stateward serve`: the HTTP server, on embedded defaults or beside a cluster.
//!
//! The one door is [`run`]. It opens what the server stands on (data directory, database, audit log, gate), in an
//! order in which each part needs only earlier ones, then serves until it is told to stop.

mod audit_lease;
mod authorities;
mod aws;
pub(crate) mod cluster;
pub(crate) mod configmap_backend;
pub(crate) mod data_dir;
mod explorer;
mod first_token;
pub(crate) mod hub;
mod keys;
pub(crate) mod layers;
mod leftover;
pub(crate) mod listener;
mod metrics;
mod ready;
mod routes;
mod s3;
mod states;
pub(crate) mod tls;

use std::future::Future;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use access::audit::{self, Audit};
use access::http::Door;
use access::{Authorizer, Gate, TokenAuthority, TokenStore, TokenText};
use anyhow::{Context, Result, anyhow, bail};
use db::Db;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::cli::failure::{Exit, Failure};
use crate::config::{Environment, Invalid, Settings, database, lists};
use audit_lease::AuditLease;
use authorities::AuthoritySource;
use cluster::Cluster;
use data_dir::DataDir;
use layers::{Around, Hosts};
use listener::{Limits, Listener};
use metrics::Metrics;
use ready::Readiness;
use routes::App;

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(settings: Settings, environment: &Environment) -> Result<()> {
    let data = DataDir::open(&settings.data_dir)?;
    let metrics = Metrics::new();
    let ready = Readiness::default();

    let db = open_database(&settings).await?;
    let readable = db.clone();
    ready.add("database", move || {
        let db = readable.clone();
        async move { db.ping().await.map_err(|error| error.to_string()) }
    });

    let audit = open_audit(&settings, &db, &metrics).await?;
    let writable = audit.clone();
    ready.add("audit", move || std::future::ready(writable.health()));

    let cluster = Cluster::connect(&settings, environment).await?;
    let source = AuthoritySource::new(&settings, cluster.as_ref());
    let gate = build_gate(&settings, &source, &db, cluster.as_ref(), &metrics).await?;
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(source.clone().follow(gate.clone()));
    if let Some(cluster) = &cluster {
        let api = cluster.clone();
        ready.add("cluster", move || api.clone().reachable());
        let lease = AuditLease::new(cluster.clone(), audit.clone());
        let agreeing = lease.clone();
        ready.add("audit lease", move || std::future::ready(agreeing.health()));
        tasks.spawn(lease.follow(settings.audit.lease_every));
    }

    let s3 = s3::open(&settings.s3, environment, &ready).await?;
    let keyring = keys::open(&settings, cluster.as_ref()).await?;
    let counters = metrics.register(::states::metrics::Metrics::register);
    let states = states::open(&settings, &db, cluster.as_ref(), s3, keyring.clone(), counters)?;
    tasks.spawn(states::sweep(states.clone(), settings.states.sweep_every));
    tasks.spawn(states::keep_up(states.clone()));

    let stop = watch::Sender::new(false);
    let explorer = if settings.explorer.enabled {
        // On the heap: what serves is large enough without it.
        Some(Box::pin(explorer::open(&settings, &db, cluster.as_ref(), keyring.clone(), &metrics)).await?)
    } else {
        None
    };
    let hub = Box::pin(hub::open(&settings, &db, keyring)).await?;
    let resting = hub.clone();
    if let Some(hub) = hub.clone() {
        tasks.spawn(async move { hub.run().await });
    }

    let tls = tls::configure(&settings, source.client_certificates())?;
    let socket = bind(settings.listen).await?;
    let address = socket.local_addr()?;
    let tokens = TokenStore::new(db.clone());
    if cluster.is_none() {
        first_token::ensure(&tokens, &data, &audit).await?;
    }

    let door = Door::new(gate, audit.clone());
    let app = App {
        tokens: cluster.is_none().then_some(tokens),
        ready,
        metrics: metrics.clone(),
        states,
        explorer: explorer
            .as_ref()
            .map(|explorer| explorer::http(explorer, &settings, cluster.as_ref(), stop.subscribe())),
        hub: hub.map(|hub| hub::http(hub, &settings.hub, stop.subscribe())).transpose()?,
    };
    let around = |hosts| Around {
        door: door.clone(),
        metrics: metrics.clone(),
        hosts: Arc::new(hosts),
        idle_body_time: settings.limits.idle_body_time,
    };
    let loopback = address.ip().is_loopback();
    let allowed_hosts = lists::hosts(&settings)?;
    let hosts = if loopback { Hosts::Only(allowed_hosts.clone()) } else { Hosts::Any };
    let limits = Limits {
        header_time: settings.limits.header_time,
        connections: settings.limits.connections,
        streams: listener::H2_STREAMS,
        grace: settings.shutdown_grace,
    };
    let (config, scheme) = match tls {
        Some((config, certificates)) => {
            tasks.spawn(certificates.follow());
            (Some(config), "https")
        }
        None => (None, "http"),
    };
    let body_bytes = usize::try_from(settings.limits.body_bytes).unwrap_or(usize::MAX);
    let main =
        Listener { socket, tls: config.clone(), routes: routes::main(app.clone(), around(hosts), body_bytes), limits };
    let mut listeners = vec![main];
    say(&format!("Stateward is at {scheme}://{address}/"));

    if let Some(listen) = settings.states.compat_listen {
        let compat = states::compatible(app.states.clone())?;
        let socket = bind(listen).await?;
        say(&format!("States in ConfigMaps are at {scheme}://{}/", socket.local_addr()?));
        let hosts = if listen.ip().is_loopback() { Hosts::Only(allowed_hosts) } else { Hosts::Any };
        listeners.push(Listener { socket, tls: config, routes: routes::compatible(compat, around(hosts)), limits });
    }

    if let Some(listen) = settings.metrics_listen {
        if !listen.ip().is_loopback() {
            bail!("metrics_listen is {listen}, but that port asks nobody who they are: use a loopback address");
        }
        let socket = bind(listen).await?;
        say(&format!("Metrics are at http://{}/metrics", socket.local_addr()?));
        let routes = routes::metrics_only(app, around(Hosts::Only(Vec::new())));
        listeners.push(Listener { socket, tls: None, routes, limits });
    }

    let ended = serve(listeners, stop).await;
    // Within the same time as requests: whoever stops this server waits no longer than that.
    if let (Some(hub), Ok(Ended::InOrder { since })) = (resting, &ended)
        && !hub.rest(settings.shutdown_grace.saturating_sub(since.elapsed())).await
    {
        tracing::warn!("something is still open with storage backends; the next start goes on with it");
    }
    tasks.shutdown().await;
    if let Some(explorer) = explorer {
        explorer.close().await;
    }
    audit.close().await;
    db.close().await;
    tracing::info!("stopped");
    ended.map(|_| ())
}

/// How serving came to its end.
#[derive(Debug)]
enum Ended {
    InOrder { since: Instant },
    AtOnce,
}

async fn serve(listeners: Vec<Listener>, stop: watch::Sender<bool>) -> Result<Ended> {
    let mut signals = stop_signal()?;
    let mut running = tokio::task::JoinSet::new();
    for listener in listeners {
        running.spawn(listener.run(stop.subscribe()));
    }
    let served = tokio::select! {
        () = signals => Ok(()),
        // Nobody told it to: a process with nothing behind its address must not look as if it lived.
        Some(ended) = running.join_next() => {
            let fault = ended.err().map_or_else(|| "it returned".to_owned(), |error| error.to_string());
            Err(anyhow!("a listener ended before the server was told to stop: {fault}"))
        }
    };
    tracing::info!("stopping: letting requests end");
    stop.send_replace(true);
    let since = Instant::now();
    // A second signal is a person who does not want to wait.
    signals = stop_signal()?;
    tokio::select! {
        () = async { while running.join_next().await.is_some() {} } => served.map(|()| Ended::InOrder { since }),
        () = signals => {
            tracing::warn!("stopping at once");
            served.map(|()| Ended::AtOnce)
        }
    }
}

/// Ends with SIGTERM or SIGINT.
pub(crate) fn stop_signal() -> Result<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(Box::pin(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }))
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let (exit, hint) = match error.kind() {
            ErrorKind::AddrInUse => (Exit::Conflict, "another server is there: stop it, or choose another address"),
            _ => (Exit::Failed, "choose an address that this machine has, and a port that this user may take"),
        };
        Failure::new(exit, format!("failed to listen on {address}: {error}"), hint).into()
    })
}

/// The database that the settings name: SQLite in the data directory unless they say otherwise.
pub(crate) fn database_config(settings: &Settings) -> Result<db::Config> {
    Ok(database::read(settings).map_err(|problem| Invalid(vec![problem]))?)
}

async fn open_database(settings: &Settings) -> Result<Db> {
    let db = Db::open(database_config(settings)?).await.context("failed to open the database")?;
    db.migrate(access::MIGRATIONS).await.context("failed to migrate the database")?;
    db.migrate(&[::states::MIGRATIONS, ::explorer::service::MIGRATIONS, ::hub::MIGRATIONS])
        .await
        .context("failed to migrate the database")?;
    Ok(db)
}

/// Where the audit log of these settings is.
pub(crate) fn audit_config(settings: &Settings) -> audit::Config {
    let directory = settings.data_dir.join("audit");
    let key_file = settings.audit.key_file.clone().unwrap_or_else(|| settings.data_dir.join("audit.key"));
    let mut config = audit::Config::new(directory, key_file);
    config.limits.rotate_bytes = settings.audit.rotate_bytes;
    config.limits.rotate_after = settings.audit.rotate_after;
    config.limits.keep_for = Some(settings.audit.keep);
    config
}

/// Makes an admin token without asking anybody, for whoever has the data directory and no token: audited like any other.
pub(crate) async fn rescue_token(settings: &Settings, name: String) -> Result<TokenText> {
    let _data = DataDir::open(&settings.data_dir)?;
    let db = open_database(settings).await?;
    let audit = open_audit(settings, &db, &Metrics::new()).await?;
    let token = first_token::rescue(&TokenStore::new(db.clone()), &audit, name).await;
    audit.close().await;
    db.close().await;
    token
}

/// A log that should be here and is not. In a database in the data directory every log counts; others may be shared, and
/// remember which log lives where.
pub(crate) async fn missing_log(settings: &Settings, db: &Db, instance: Option<&str>) -> Result<Option<String>> {
    let failed = "failed to look for other audit logs";
    if settings.database.url.is_some() {
        let expected = audit::should_be_in(db, &audit_config(settings).directory).await.context(failed)?;
        return Ok(expected.filter(|log| Some(log.as_str()) != instance));
    }
    Ok(audit::other_logs(db, instance).await.context(failed)?.into_iter().next())
}

async fn open_audit(settings: &Settings, db: &Db, metrics: &Metrics) -> Result<Audit> {
    let audit = Audit::open(audit_config(settings), db.clone()).await.context("failed to open the audit log")?;
    if let Some(log) = missing_log(settings, db, Some(audit.instance())).await? {
        bail!(
            "the audit log was tampered with: the database remembers a log {log} that is not in the data directory; \
             `stateward audit verify` shows it, `stateward audit accept` begins a new one"
        );
    }
    metrics.register(|registry| access::metrics::register_audit(registry, &audit));
    Ok(audit)
}

async fn build_gate(
    settings: &Settings,
    source: &AuthoritySource,
    db: &Db,
    cluster: Option<&Cluster>,
    metrics: &Metrics,
) -> Result<Gate> {
    let access = &settings.access;
    let (tokens, authorizer) = if let Some(cluster) = cluster {
        let audiences = access.audiences.clone();
        let tokens = TokenAuthority::Review { client: cluster.client(), audiences };
        (tokens, Authorizer::Review { client: cluster.client() })
    } else {
        let tokens = TokenAuthority::Static(TokenStore::new(db.clone()));
        (tokens, Authorizer::Roles(lists::bindings(settings)?))
    };
    let counters = metrics.register(access::metrics::Metrics::register);
    Ok(Gate::new(tokens, authorizer, source.load().await?, gate_settings(settings), counters)?)
}

fn gate_settings(settings: &Settings) -> access::Settings {
    let access = &settings.access;
    access::Settings {
        authentication_ttl: access.authentication_ttl,
        allow_ttl: access.allow_ttl,
        deny_ttl: access.deny_ttl,
        cache_entries: access.cache_entries,
        review_deadline: access.review_deadline,
        reviews: access.reviews,
        new_tokens: u32::try_from(access.new_tokens).unwrap_or(u32::MAX),
        token_bytes: usize::try_from(access.token_bytes).unwrap_or(usize::MAX),
    }
}

/// What people are told goes to stdout: it is the answer of `serve`, while logs go to stderr. A reader that went away is
/// no reason to end.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_listener_that_ends_by_itself_ends_the_server_with_an_error() {
        let socket = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        // More than a semaphore can count: the task of the listener panics.
        let limits = Limits {
            header_time: Duration::from_secs(1),
            connections: usize::MAX,
            streams: 1,
            grace: Duration::from_secs(1),
        };
        let listener = Listener { socket, tls: None, routes: axum::Router::new(), limits };
        let served = tokio::time::timeout(Duration::from_mins(1), serve(vec![listener], watch::Sender::new(false)));
        let error = served.await.expect("it ends").unwrap_err().to_string();
        assert!(error.contains("a listener ended before"), "{error}");
    }
}
