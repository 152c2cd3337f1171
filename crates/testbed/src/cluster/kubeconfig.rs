//! Who talks to which API server, as a value, a file or a client.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::certificates::{self, Pair};

/// A kubeconfig with one cluster, one user and one context.
#[derive(Clone)]
pub struct Kubeconfig {
    server: String,
    authority_pem: String,
    credentials: Credentials,
}

#[derive(Clone)]
enum Credentials {
    Token(String),
    Certificate(Pair),
}

impl Kubeconfig {
    pub(super) fn for_token(server: &str, authority_pem: &str, token: &str) -> Kubeconfig {
        Kubeconfig {
            server: server.to_owned(),
            authority_pem: authority_pem.to_owned(),
            credentials: Credentials::Token(token.to_owned()),
        }
    }

    pub(super) fn for_certificate(server: &str, authority_pem: &str, pair: &Pair) -> Kubeconfig {
        Kubeconfig {
            server: server.to_owned(),
            authority_pem: authority_pem.to_owned(),
            credentials: Credentials::Certificate(pair.clone()),
        }
    }

    /// The same identity at another address, for example that of a proxy in front of the API server. TLS is still
    /// checked against the cluster's authority when the address is an https one.
    #[must_use]
    pub fn with_server(mut self, url: &str) -> Kubeconfig {
        url.clone_into(&mut self.server);
        self
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    /// The file's text. JSON is YAML too, and needs no quoting rules.
    pub fn yaml(&self) -> String {
        let mut cluster = json!({"server": self.server});
        if self.server.starts_with("https:") {
            cluster["certificate-authority-data"] = BASE64_STANDARD.encode(&self.authority_pem).into();
        }
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "testbed", "cluster": cluster}],
            "users": [{"name": "user", "user": self.user()}],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user"}}],
            "current-context": "testbed",
        });
        format!("{config:#}\n")
    }

    /// A file with it, which goes when the test run ends.
    pub fn write(&self) -> PathBuf {
        let path = crate::process::scratch("kubeconfig").expect("make a directory").join("kubeconfig");
        certificates::write(&path, &self.yaml()).expect("write the kubeconfig");
        path
    }

    /// A configuration for `kube`, which only tests may make from anything but the product's own settings.
    pub fn config(&self) -> kube::Config {
        let mut config = kube::Config::new(self.server.parse().expect("a server address"));
        let authority = CertificateDer::from_pem_slice(self.authority_pem.as_bytes()).expect("a certificate");
        config.root_cert = Some(vec![authority.to_vec()]);
        config.auth_info = serde_json::from_value(self.user()).expect("a user of a kubeconfig");
        config
    }

    /// A client for the runtime that it is made in: it does not work in another test's.
    pub fn client(&self) -> kube::Client {
        kube::Client::try_from(self.config()).expect("make a client")
    }

    /// One that tells of faults when they happen, as the product's does: it neither asks again nor waits long.
    pub fn plain_client(&self) -> kube::Client {
        let mut config = self.config();
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        kube::Client::try_from(config).expect("make a client")
    }

    fn user(&self) -> Value {
        match &self.credentials {
            Credentials::Token(token) => json!({"token": token}),
            Credentials::Certificate(pair) => json!({
                "client-certificate-data": BASE64_STANDARD.encode(&pair.certificate_pem),
                "client-key-data": BASE64_STANDARD.encode(&pair.key_pem),
            }),
        }
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Kubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}
