//! Exec plugins of a kubeconfig: a program that prints an ExecCredential.
//!
//! <https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins>

use std::process::Stdio;
use std::time::Duration;

use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;

use super::identity::Identity;
use crate::config::Secret;

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<Secret>,
    client_certificate_data: Option<String>,
    client_key_data: Option<Secret>,
}

/// Runs the plugin. What it prints never becomes part of an error: it is a credential.
pub async fn run(plugin: &ExecConfig, deadline: Duration) -> Result<Identity, String> {
    let name = plugin.command.as_deref().ok_or("the exec plugin has no command")?;
    let interactive = plugin.interactive_mode != Some(ExecInteractiveMode::Never);
    let request = json!({
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": { "interactive": interactive, "cluster": plugin.cluster.as_ref().filter(|_| plugin.provide_cluster_info) },
    });
    let mut command = Command::new(name);
    command.args(plugin.args.iter().flatten()).env("KUBERNETES_EXEC_INFO", request.to_string()).kill_on_drop(true);
    for variable in plugin.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    for variable in plugin.drop_env.iter().flatten() {
        command.env_remove(variable);
    }
    // The plugin talks to the person through stderr, and asks through stdin if it may.
    command.stdin(if interactive { Stdio::inherit() } else { Stdio::null() }).stderr(Stdio::inherit());

    let output = tokio::time::timeout(deadline, command.output());
    let output = output.await.map_err(|_| format!("the exec plugin {name} has not ended within {deadline:?}"))?;
    let output = output.map_err(|error| format!("failed to run the exec plugin {name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("the exec plugin {name} failed ({})", output.status));
    }
    let status = serde_json::from_slice::<ExecCredential>(&output.stdout).ok().and_then(|answer| answer.status);
    let status = status.ok_or_else(|| format!("the exec plugin {name} printed no ExecCredential with a status"))?;
    let certificate = status.client_certificate_data.zip(status.client_key_data);
    Ok(Identity {
        header: status.token.and_then(|token| Identity::bearer(token.expose()).header),
        certificate: certificate.map(|(chain, key)| Secret::new(format!("{chain}\n{}", key.expose()))),
    })
}
