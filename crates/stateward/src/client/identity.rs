//! Who we are to the server, from the first place that says so.

use std::path::Path;

use http::header::HeaderValue;
use reqwest::Url;

use super::{ClientArgs, is_loopback, kubeconfig};
use crate::cli::failure::Failure;
use crate::config::{Environment, Given, Secret, resolve};

/// Where a Pod finds the token of its ServiceAccount, and the authority of the API server.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Credentials; a kubeconfig may hold both.
#[derive(Debug, Default)]
pub struct Identity {
    /// The value of the Authorization header.
    pub header: Option<Secret>,
    /// Certificate chain and key, PEM.
    pub certificate: Option<Secret>,
}

impl Identity {
    /// Flags before variables before the first token of this machine.
    pub async fn find(args: &ClientArgs, environment: &Environment, server: &Url) -> Result<Identity, Failure> {
        let by_kubeconfig = args.kubeconfig.is_some() || args.context.is_some();
        let ways =
            usize::from(args.token.is_some()) + usize::from(args.token_file.is_some()) + usize::from(by_kubeconfig);
        if ways > 1 {
            return Err(Failure::usage(
                "--token, --token-file and --kubeconfig or --context exclude one another",
                "give one of them",
            ));
        }
        if let Some(token) = &args.token {
            return Ok(Identity::bearer(token.expose()));
        }
        if let Some(file) = &args.token_file {
            return token_file(file);
        }
        if by_kubeconfig {
            return kubeconfig::identity(args, environment).await;
        }
        if let Some(token) = environment.non_empty("STATEWARD_TOKEN") {
            return Ok(Identity::bearer(token));
        }
        if let Some(file) = environment.non_empty("STATEWARD_TOKEN_FILE") {
            return token_file(Path::new(file));
        }
        if is_loopback(server) {
            let data = resolve(&Given::default(), environment).path_of("data_dir");
            if let Some(file) = data.map(|data| data.join("first-token")).filter(|file| file.exists()) {
                return token_file(&file);
            }
        }
        Ok(Identity::default())
    }

    /// The same for a program that may run in a Pod: without anything else, its ServiceAccount.
    pub async fn find_or_service_account(
        args: &ClientArgs,
        environment: &Environment,
        server: &Url,
    ) -> Result<Identity, Failure> {
        let found = Identity::find(args, environment, server).await?;
        let file = Path::new(SERVICE_ACCOUNT).join("token");
        if found.is_none() && file.exists() { token_file(&file) } else { Ok(found) }
    }

    pub fn bearer(token: &str) -> Identity {
        Identity { header: Some(Secret::new(format!("Bearer {}", token.trim()))), certificate: None }
    }

    pub fn is_none(&self) -> bool {
        self.header.is_none() && self.certificate.is_none()
    }

    /// The header, marked so that nothing prints it.
    pub fn authorization(&self) -> Result<Option<HeaderValue>, Failure> {
        let Some(header) = &self.header else { return Ok(None) };
        let mut value = HeaderValue::from_str(header.expose()).map_err(|_| {
            Failure::usage("the token holds characters that no token has", "check the token or its file")
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

fn token_file(file: &Path) -> Result<Identity, Failure> {
    match std::fs::read_to_string(file) {
        Ok(token) if !token.trim().is_empty() => Ok(Identity::bearer(&token)),
        Ok(_) => Err(Failure::usage(format!("the token file {} is empty", file.display()), "write the token into it")),
        Err(error) => Err(Failure::usage(
            format!("failed to read the token file {}: {error}", file.display()),
            "check the path and the permissions",
        )),
    }
}
