//! The cluster that `kubernetes://` and `configmap://` are in.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::flags::ClusterFlags;
use crate::cli::failure::{Exit, Failure};
use crate::client::default_kubeconfig;
use crate::config::Environment;

/// A client for the context, or the current one.
pub async fn connect(
    flags: &ClusterFlags,
    context: Option<&str>,
    environment: &Environment,
    timeout: Duration,
) -> Result<kube::Client, Failure> {
    let named =
        flags.source_kubeconfig.clone().or_else(|| environment.non_empty("KUBE_CONFIG_PATH").map(PathBuf::from));
    let path = named.or_else(|| default_kubeconfig(environment)).ok_or_else(|| {
        Failure::usage("there is no kubeconfig for the source", "name one with --source-kubeconfig or KUBECONFIG")
    })?;
    let unusable = |error: KubeconfigError| {
        // What kube says of a file that it cannot parse quotes it, and it may hold a token.
        let fault = match error {
            KubeconfigError::Parse(_) => "is not a kubeconfig".to_owned(),
            other => other.to_string(),
        };
        Failure::usage(
            format!("the kubeconfig {}: {fault}", path.display()),
            "check --source-kubeconfig and its context",
        )
    };
    let kubeconfig = Kubeconfig::read_from(&path).map_err(unusable)?;
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unusable)?;
    (config.connect_timeout, config.read_timeout) = (Some(timeout), Some(timeout));
    (config.write_timeout, config.default_retry) = (Some(timeout), false);
    kube::Client::try_from(config).map_err(|_| {
        let message = format!("the kubeconfig {} gives no usable client", path.display());
        Failure::usage(message, "check the user and the cluster of its context")
    })
}

/// What an answer of the API server means for a command.
pub fn failure(doing: &str, place: &str, error: &kube::Error) -> Failure {
    let (exit, said) = match error {
        kube::Error::Api(status) => {
            let exit = match status.code {
                401 | 403 => Exit::Denied,
                404 => Exit::NotFound,
                409 => Exit::Conflict,
                429 | 502..=504 => Exit::Unavailable,
                _ => Exit::Failed,
            };
            (exit, status.message.clone())
        }
        other => (Exit::Unavailable, other.to_string()),
    };
    let said = crate::cli::output::plain(&said);
    let hint = match exit {
        Exit::Denied => "check --source-kubeconfig; --no-source-lock copies what may only be read",
        _ => "check the place, and --source-kubeconfig",
    };
    Failure::new(exit, format!("failed to {doing} {place}: {said}"), hint)
}
