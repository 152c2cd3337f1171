//! The cluster that the server belongs to, if any.

use std::path::Path;
use std::time::Duration;

use access::audit::{self, Head};
use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::client::SERVICE_ACCOUNT;
use crate::config::settings::InCluster;
use crate::config::{Environment, Settings};

const CONNECT: Duration = Duration::from_secs(5);

/// A client for the cluster, and the namespace that is ours.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: kube::Client,
    config: kube::Config,
    namespace: String,
    deadline: Duration,
}

impl Cluster {
    /// Connects by the given kubeconfig or, inside a cluster, by the ServiceAccount; `None` standalone.
    pub(crate) async fn connect(settings: &Settings, environment: &Environment) -> Result<Option<Cluster>> {
        let Some(config) = configuration(settings, environment).await? else { return Ok(None) };
        Cluster::with(config, settings).map(Some)
    }

    /// Connects by the kubeconfig that `field` names or, without one, by the ServiceAccount.
    pub(crate) async fn connect_by(
        field: &str,
        kubeconfig: Option<&Path>,
        settings: &Settings,
        environment: &Environment,
    ) -> Result<Cluster> {
        let config = match kubeconfig {
            Some(path) => of_kubeconfig(field, path, &KubeConfigOptions::default()).await?,
            None if environment.is_in_pod() => kube::Config::incluster().context("failed to find the cluster")?,
            None => bail!("{field} is not given, and there is no ServiceAccount at {SERVICE_ACCOUNT} in its place"),
        };
        Cluster::with(config, settings)
    }

    fn with(mut config: kube::Config, settings: &Settings) -> Result<Cluster> {
        config.connect_timeout = Some(CONNECT);
        // The default retries every method for minutes, with writes that may have taken place: each caller has its own
        // deadline and its own, short, policy instead.
        config.default_retry = false;
        let namespace = settings.cluster.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = kube::Client::try_from(config.clone()).context("failed to make a client for the cluster")?;
        Ok(Cluster { client, config, namespace, deadline: settings.access.review_deadline })
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// How it is reached, with credentials: for those who take the address and drop the rest.
    pub(crate) fn config(&self) -> kube::Config {
        self.config.clone()
    }

    /// The namespace that is ours.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) async fn reachable(self) -> Result<(), String> {
        match tokio::time::timeout(self.deadline, self.client.apiserver_version()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err("the API server does not answer".to_owned()),
            Err(_) => Err("the API server does not answer in time".to_owned()),
        }
    }

    /// The head of an audit log, as its Lease has it.
    pub(crate) async fn audit_head(&self, instance: &str) -> Result<Option<Head>> {
        Ok(audit::read_head_from_lease(self.client.clone(), &self.namespace, instance).await?)
    }
}

async fn configuration(settings: &Settings, environment: &Environment) -> Result<Option<kube::Config>> {
    if let Some(path) = &settings.cluster.kubeconfig {
        let options = KubeConfigOptions { context: settings.cluster.context.clone(), ..Default::default() };
        return of_kubeconfig("cluster.kubeconfig", path, &options).await.map(Some);
    }
    match (settings.cluster.in_cluster, environment.is_in_pod()) {
        (InCluster::On, false) => {
            bail!(
                "cluster.in_cluster is on, but there is no ServiceAccount at {SERVICE_ACCOUNT}: set it to auto or off"
            )
        }
        (InCluster::On | InCluster::Auto, true) => {
            Ok(Some(kube::Config::incluster().context("failed to find the cluster")?))
        }
        (InCluster::Off, _) | (InCluster::Auto, false) => Ok(None),
    }
}

async fn of_kubeconfig(field: &str, path: &Path, options: &KubeConfigOptions) -> Result<kube::Config> {
    let failed = || format!("failed to read {field} {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(failed)?;
    kube::Config::from_custom_kubeconfig(kubeconfig, options).await.with_context(failed)
}
