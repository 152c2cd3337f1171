//! The explorer of this server: what it collects, from where, and how it is asked.

use anyhow::{Context, Result};
use db::Db;
use explorer::Explorer;
use explorer::http::{Http, Transport};
use explorer::index;
use explorer::service::{Authorizer, Local, Metrics, Options, Sealing, Secrets, Settings as Service, collector};
use keys::Keyring;
use tokio::sync::watch;

use super::cluster::Cluster;
use super::metrics;
use crate::config::explored;
use crate::config::settings::{self, Settings};

/// Opens the explorer over the cluster that the server belongs to, if any, and those that were added.
pub(crate) async fn open(
    settings: &Settings,
    db: &Db,
    cluster: Option<&Cluster>,
    keyring: Keyring,
    metrics: &metrics::Metrics,
) -> Result<Explorer> {
    let set = &settings.explorer;
    let sealing = match &set.encryption_key {
        Some(key) => Sealing::Named { keyring, key: key.clone() },
        None => Sealing::File(settings.data_dir.join("clusters.key")),
    };
    let collector = cluster.map(|cluster| collector(cluster.config())).transpose();
    let collector = collector.context("failed to make a client for the collector")?;
    let local = cluster.zip(collector.clone()).map(|(cluster, client)| local(set, cluster, client));
    let secrets = cluster.zip(collector).map(|(cluster, client)| {
        let namespace = cluster.namespace().to_owned();
        Secrets { client, namespace }
    });
    let options = Options {
        copy: settings.data_dir.join("explorer.db"),
        db: db.clone(),
        sealing,
        local,
        secrets,
        kinds: explored::kinds(set),
        settings: Service {
            row_verbs: set.row_verbs.clone(),
            rbac_max_age: set.rbac_max_age,
            cleaner_every: Some(set.clean_every),
            index: index::Settings {
                page: set.page_rows,
                words: set.words,
                changes: set.changes,
                ..index::Settings::default()
            },
            ..Service::default()
        },
        metrics: metrics.register(Metrics::register),
    };
    Explorer::open(options).await.context("failed to open the explorer")
}

/// The explorer as callers meet it.
pub(crate) fn http(
    explorer: &Explorer,
    settings: &Settings,
    cluster: Option<&Cluster>,
    stop: watch::Receiver<bool>,
) -> Http {
    let transport = if settings.tls.is_on() { Transport::Tls } else { Transport::Plain };
    let set = &settings.explorer;
    let settings = explorer::http::Settings {
        local: cluster.map(|_| set.cluster_name.clone()),
        row_verbs: set.row_verbs.clone(),
        followers: set.followers,
        transport,
        stop,
    };
    Http::new(explorer.clone(), settings)
}

fn local(set: &settings::Explorer, cluster: &Cluster, client: kube::Client) -> Local {
    Local {
        name: set.cluster_name.clone(),
        client,
        address: cluster.config(),
        authorizer: match set.authorizer {
            settings::Authorizer::Rbac => Authorizer::Rbac,
            settings::Authorizer::Review => Authorizer::Review,
        },
        tokens: explored::token_users(set),
    }
}
