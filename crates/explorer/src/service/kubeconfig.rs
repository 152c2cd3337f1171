//! Kubeconfigs that somebody gives to the server: everything must be in them.
//!
//! A command, a file or a proxy in a kubeconfig would be run, read or used by the server with its own rights, for whoever gave
//! it; an identity to impersonate would be a second way to be somebody. All these are refused by name, and so is what nobody
//! here knows.

use std::time::Duration;

use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

use super::error::Error;

const LONGEST: usize = 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(5);

/// How to reach a cluster, by the current context of a kubeconfig.
pub(crate) async fn read(text: &str) -> Result<kube::Config, Error> {
    let used = used(text)?;
    let config = kube::Config::from_custom_kubeconfig(used, &KubeConfigOptions::default()).await;
    // What it says may quote a certificate or a key.
    let fault = "its certificates, key or server cannot be read: they must be base64 of PEM, and an address";
    let mut config = config.map_err(|_| Error::invalid("kubeconfig", fault))?;
    config.connect_timeout = Some(CONNECT);
    config.default_retry = false;
    // Only what the kubeconfig says counts, not the server's environment.
    config.proxy_url = None;
    Ok(config)
}

/// The same address without anything of who asks.
pub(crate) fn without_credentials(mut config: kube::Config) -> kube::Config {
    config.auth_info = AuthInfo::default();
    config
}

/// The current context with its cluster and its user, and nothing else.
fn used(text: &str) -> Result<Kubeconfig, Error> {
    let invalid = |fault: &str| Error::invalid("kubeconfig", fault);
    if text.len() > LONGEST {
        return Err(invalid("it is longer than 1 MiB: keep one context in it"));
    }
    let all = Kubeconfig::from_yaml(text).map_err(|_| invalid("it is no kubeconfig in YAML or JSON"))?;
    let current = all.current_context.filter(|name| !name.is_empty());
    let current = current.ok_or_else(|| invalid("current-context is missing: say which context is meant"))?;
    let context = all.contexts.into_iter().find(|context| context.name == current).and_then(|named| named.context);
    let context = context.ok_or_else(|| invalid("current-context names a context that is not there"))?;
    let cluster = all.clusters.into_iter().find(|named| named.name == context.cluster).and_then(|named| named.cluster);
    let cluster = cluster.ok_or_else(|| invalid("the context names a cluster that is not there"))?;
    let user = context.user.clone().unwrap_or_default();
    let auth = all.auth_infos.into_iter().find(|named| named.name == user).and_then(|named| named.auth_info);
    let auth = auth.ok_or_else(|| invalid("the context names a user that is not there"))?;
    check_cluster(&cluster)?;
    check_user(&auth)?;
    let name = || "used".to_owned();
    Ok(Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(auth), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext {
            name: name(),
            context: Some(kube::config::Context { cluster: name(), user: Some(name()), ..Default::default() }),
            ..NamedContext::default()
        }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    })
}

fn check_cluster(cluster: &Cluster) -> Result<(), Error> {
    let https = cluster.server.as_deref().is_some_and(|server| server.starts_with("https://"));
    if !https {
        return Err(refused(
            "cluster.server",
            "it must begin with https://, so that nobody between reads the credentials",
        ));
    }
    let file = "a file of the server would be read: put its content into certificate-authority-data";
    refuse_first([
        (
            cluster.insecure_skip_tls_verify == Some(true),
            "cluster.insecure-skip-tls-verify",
            "give certificate-authority-data, so that the cluster proves who it is",
        ),
        (is_set(cluster.certificate_authority.as_ref()), "cluster.certificate-authority", file),
        (is_set(cluster.proxy_url.as_ref()), "cluster.proxy-url", "clusters are reached directly: leave it out"),
    ])?;
    refuse_unknown("cluster", cluster.other.keys())
}

fn check_user(user: &AuthInfo) -> Result<(), Error> {
    let command = "a command would run in the server: use a token or a client certificate";
    let file = "a file of the server would be read: put its content in";
    let somebody = "the collector reads as itself: grant get, list and watch to its own user";
    refuse_first([
        (user.exec.is_some(), "user.exec", command),
        (user.auth_provider.is_some(), "user.auth-provider", command),
        (is_set(user.token_file.as_ref()), "user.tokenFile", file),
        (is_set(user.client_certificate.as_ref()), "user.client-certificate", file),
        (is_set(user.client_key.as_ref()), "user.client-key", file),
        (is_set(user.impersonate.as_ref()), "user.as", somebody),
        (is_set(user.impersonate_uid.as_ref()), "user.as-uid", somebody),
        (user.impersonate_groups.is_some(), "user.as-groups", somebody),
        (user.impersonate_user_extra.is_some(), "user.as-user-extra", somebody),
    ])?;
    refuse_unknown("user", user.other.keys())
}

fn is_set(value: Option<&String>) -> bool {
    value.is_some_and(|value| !value.is_empty())
}

/// Refuses the first field that is there, with what to do instead.
fn refuse_first<const N: usize>(fields: [(bool, &str, &str); N]) -> Result<(), Error> {
    let found = fields.into_iter().find(|(is_there, ..)| *is_there);
    found.map_or(Ok(()), |(_, field, cure)| Err(refused(field, cure)))
}

fn refuse_unknown<'a>(place: &str, mut others: impl Iterator<Item = &'a String>) -> Result<(), Error> {
    match others.next() {
        Some(_) => Err(refused(place, "it has a field that is not known here: leave it out")),
        None => Ok(()),
    }
}

fn refused(field: &str, cure: &str) -> Error {
    Error::invalid(format!("kubeconfig.{field}"), format!("this is not taken: {cure}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn kubeconfig(change: impl FnOnce(&mut Value, &mut Value)) -> String {
        let mut cluster = json!({"server": "https://127.0.0.1:6443"});
        let mut user = json!({"token": "canary"});
        change(&mut cluster, &mut user);
        let config = json!({
            "clusters": [{"name": "c", "cluster": cluster}, {"name": "other", "cluster": {"proxy-url": "http://x"}}],
            "users": [{"name": "u", "user": user}, {"name": "other", "user": {"exec": {"command": "x"}}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        });
        config.to_string()
    }

    #[test]
    fn what_would_run_read_or_be_somebody_else_is_refused_by_name() {
        let cluster =
            |field: &'static str, value: Value| (format!("cluster.{field}"), kubeconfig(|c, _| c[field] = value));
        let user = |field: &'static str, value: Value| (format!("user.{field}"), kubeconfig(|_, u| u[field] = value));
        let table = [
            cluster("server", json!("http://127.0.0.1")),
            cluster("insecure-skip-tls-verify", json!(true)),
            cluster("certificate-authority", json!("/etc/passwd")),
            cluster("proxy-url", json!("http://proxy")),
            user("exec", json!({"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"})),
            user("auth-provider", json!({"name": "gcp", "config": {}})),
            user("tokenFile", json!("/var/run/token")),
            user("client-certificate", json!("/etc/cert")),
            user("client-key", json!("/etc/key")),
            user("as", json!("system:admin")),
            user("as-uid", json!("1")),
            user("as-groups", json!(["system:masters"])),
            user("as-user-extra", json!({"a": ["b"]})),
        ];
        for (field, text) in table {
            let fault = used(&text).unwrap_err().to_string();
            assert!(fault.starts_with(&format!("kubeconfig.{field}: this is not taken: ")), "{field}: {fault}");
            assert!(!fault.contains("canary"), "{fault}");
        }
        for text in [kubeconfig(|c, _| c["made-up"] = json!(1)), kubeconfig(|_, u| u["made-up"] = json!(1))] {
            assert!(used(&text).unwrap_err().to_string().contains("not known here"));
        }
    }

    #[test]
    fn only_the_current_context_counts_and_a_broken_one_is_told() {
        let taken = used(&kubeconfig(|_, _| ())).unwrap();
        assert_eq!((taken.clusters.len(), taken.auth_infos.len(), taken.contexts.len()), (1, 1, 1));
        let table = [
            ("{", "no kubeconfig"),
            ("{}", "current-context is missing"),
            (r#"{"current-context": "x"}"#, "a context that is not there"),
            (r#"{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}]}"#, "a cluster that"),
        ];
        for (text, fault) in table {
            let found = used(text).unwrap_err().to_string();
            assert!(found.contains(fault), "{found}");
        }
        let long = format!("{}{}", kubeconfig(|_, _| ()), " ".repeat(LONGEST));
        assert!(used(&long).unwrap_err().to_string().contains("1 MiB"));
    }

    #[tokio::test]
    async fn credentials_stay_out_of_errors_and_of_addresses() {
        let broken = kubeconfig(|_, u| u["client-certificate-data"] = json!("canary"));
        let config = read(&broken).await;
        assert!(config.is_ok(), "the certificate is looked at when a client is made of it");
        let bad = kubeconfig(|c, _| c["certificate-authority-data"] = json!("canary"));
        assert!(!read(&bad).await.unwrap_err().to_string().contains("canary"));
        let address = without_credentials(read(&kubeconfig(|_, _| ())).await.unwrap());
        assert!(address.auth_info.token.is_none());
    }
}
