//! The user of a kubeconfig as our identity.
//!
//! Only the credentials of the context are taken; the cluster that it points to is not called. kube parses the file;
//! its own way from a user to a header is not used, because it panics on a token with a newline, has no deadline for
//! exec plugins and prints their output in errors.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::identity::Identity;
use super::{ClientArgs, exec};
use crate::cli::failure::Failure;
use crate::config::{Environment, Secret};

/// The identity of the context that the flags select.
pub async fn identity(args: &ClientArgs, environment: &Environment) -> Result<Identity, Failure> {
    let path = args.kubeconfig.clone().or_else(|| default_path(environment)).ok_or_else(|| {
        Failure::usage("there is no kubeconfig to look up the context in", "name one with --kubeconfig or KUBECONFIG")
    })?;
    let unusable = |error: KubeconfigError| refuse(&path, &safe(&error));
    let kubeconfig = Kubeconfig::read_from(&path).map_err(unusable)?;
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unusable)?;
    let identity = credentials(&path, &config.auth_info, args.timeout).await?;
    if identity.is_none() {
        return Err(refuse(&path, "the user of the context has no credentials"));
    }
    Ok(identity)
}

/// The first file of KUBECONFIG, or the usual one. Merging several files is left to kubectl: `kubectl config view`.
pub fn default_path(environment: &Environment) -> Option<PathBuf> {
    let listed = environment.non_empty("KUBECONFIG").and_then(|list| list.split(':').find(|path| !path.is_empty()));
    let usual = || environment.non_empty("HOME").map(|home| Path::new(home).join(".kube/config"));
    listed.map(PathBuf::from).or_else(usual)
}

async fn credentials(path: &Path, user: &AuthInfo, deadline: std::time::Duration) -> Result<Identity, Failure> {
    if user.auth_provider.is_some() {
        return Err(refuse(path, "the user has an auth-provider, which Kubernetes removed in 1.26"));
    }
    // Another server cannot be told to take us for somebody else, and going on as ourselves would be somebody else too.
    let named = |name: &Option<String>| name.as_ref().is_some_and(|name| !name.is_empty());
    let impersonation = [
        ("as", named(&user.impersonate)),
        ("as-uid", named(&user.impersonate_uid)),
        ("as-groups", user.impersonate_groups.is_some()),
        ("as-user-extra", user.impersonate_user_extra.is_some()),
    ];
    if let Some((field, _)) = impersonation.into_iter().find(|(_, is_there)| *is_there) {
        let fault = format!("the user has the field '{field}', but nobody can be impersonated here");
        return Err(refuse(path, &fault));
    }
    // Serialising is how kube gives the secret fields without its own secret type.
    let fields = serde_json::to_value(user).map_err(|_| refuse(path, "the user cannot be read"))?;
    let field = |name: &str| fields.get(name).and_then(serde_json::Value::as_str).filter(|text| !text.is_empty());

    let mut identity = Identity::default();
    let certificate = pem(path, field("client-certificate-data"), field("client-certificate"))?;
    let key = pem(path, field("client-key-data"), field("client-key"))?;
    if let (Some(certificate), Some(key)) = (certificate, key) {
        identity.certificate = Some(Secret::new(format!("{}\n{}", certificate.expose(), key.expose())));
    }
    if let Some(token) = field("token") {
        identity.header = Identity::bearer(token).header;
    } else if let Some(file) = field("tokenFile") {
        let token =
            std::fs::read_to_string(file).map_err(|error| refuse(path, &format!("tokenFile {file}: {error}")))?;
        identity.header = Identity::bearer(&token).header;
    } else if let (Some(name), Some(password)) = (field("username"), field("password")) {
        identity.header = Some(Secret::new(format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}")))));
    } else if let Some(plugin) = &user.exec {
        return exec::run(plugin, deadline).await.map_err(|fault| refuse(path, &fault));
    }
    Ok(identity)
}

/// PEM from inline base64, which comes first, or from a file.
fn pem(path: &Path, data: Option<&str>, file: Option<&str>) -> Result<Option<Secret>, Failure> {
    let bytes = match (data, file) {
        (Some(data), _) => {
            BASE64_STANDARD.decode(data).map_err(|_| refuse(path, "a client certificate or key is not base64"))?
        }
        (None, Some(file)) => std::fs::read(file).map_err(|error| refuse(path, &format!("{file}: {error}")))?,
        (None, None) => return Ok(None),
    };
    let text = String::from_utf8(bytes).map_err(|_| refuse(path, "a client certificate or key is not PEM"))?;
    Ok(Some(Secret::new(text)))
}

/// The error without the excerpt of the file that kube would print, which may hold a token.
fn safe(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(_) => "is not a kubeconfig".to_owned(),
        other => other.to_string(),
    }
}

fn refuse(path: &Path, fault: &str) -> Failure {
    Failure::usage(
        format!("the kubeconfig {} gives no identity: {fault}", path.display()),
        "`kubectl config view` shows its contexts and users; --token-file is another way",
    )
}
