//! A Vault of one's own: the real program on a fresh data directory and port.
//!
//! The door is [`Vault`]. It keeps its data in files and is initialised and unsealed like one in production, so that
//! tests may stop, kill or seal it and find everything again; in its dev mode a restart would forget the keys.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Certificate, Client, Method};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::certificates::Authority;
use crate::cluster::{Cluster, Scope, role, subject};
use crate::peers::peer;
use crate::process::{Process, free_port, scratch};

const PATIENCE: Duration = Duration::from_mins(1);

/// A running server; ended when dropped.
#[derive(Clone)]
pub struct Vault(Arc<Server>);

struct Server {
    directory: PathBuf,
    port: u16,
    scheme: &'static str,
    process: Mutex<Option<Process>>,
    root_token: OnceCell<String>,
    unseal_key: OnceCell<String>,
}

/// What an AppRole shows.
#[derive(Clone)]
pub struct AppRole {
    pub role_id: String,
    pub secret_id: String,
}

impl Vault {
    /// Starts a server without TLS.
    pub async fn start() -> Result<Vault> {
        Vault::new("http").await
    }

    /// Starts a server with a certificate for 127.0.0.1, signed by [`Vault::ca_file`].
    pub async fn start_with_tls() -> Result<Vault> {
        Vault::new("https").await
    }

    /// One server for all tests of this process, which keep apart by mounts of their own. Do not disturb it.
    pub async fn shared() -> Result<&'static Vault> {
        static SHARED: OnceCell<Vault> = OnceCell::const_new();
        SHARED.get_or_try_init(Vault::start).await
    }

    /// Where it listens: `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.0.port)
    }

    pub fn url(&self) -> String {
        format!("{}://{}", self.0.scheme, self.address())
    }

    /// The authority that signed the certificate of [`Vault::start_with_tls`].
    pub fn ca_file(&self) -> PathBuf {
        self.0.directory.join("ca.pem")
    }

    pub fn root_token(&self) -> &str {
        self.0.root_token.get().map_or("", String::as_str)
    }

    /// Asks as root, past everything under test; `path` is what follows `/v1/`.
    pub async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
        let mut client = Client::builder().no_proxy().timeout(Duration::from_secs(20));
        if self.0.scheme == "https" {
            client = client.tls_certs_only([Certificate::from_pem(&fs::read(self.ca_file())?)?]);
        }
        let url = format!("{}/v1/{path}", self.url());
        let request = client.build()?.request(method.clone(), url).header("X-Vault-Token", self.root_token());
        let request = body.into_iter().fold(request, |request, body| request.json(&body));
        let answer = request.send().await.with_context(|| format!("vault: {method} {path}"))?;
        let status = answer.status();
        let text = answer.text().await?;
        ensure!(status.is_success(), "vault: {method} {path}: {status} {text}");
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Changes something as root.
    pub async fn write(&self, path: &str, body: Value) -> Result<Value> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// A transit engine at `mount`, which must be free.
    pub async fn enable_transit(&self, mount: &str) -> Result<()> {
        self.write(&format!("sys/mounts/{mount}"), json!({ "type": "transit" })).await.map(drop)
    }

    /// A key of a transit engine; `options` are those of its creation, such as `{"type": "aes256-gcm96"}`.
    pub async fn transit_key(&self, mount: &str, key: &str, options: Value) -> Result<()> {
        self.write(&format!("{mount}/keys/{key}"), options).await.map(drop)
    }

    /// A policy in Vault's own language.
    pub async fn policy(&self, name: &str, text: &str) -> Result<()> {
        self.ask(Method::PUT, &format!("sys/policies/acl/{name}"), Some(json!({ "policy": text }))).await.map(drop)
    }

    /// A token with these policies and no more.
    pub async fn token(&self, policies: &[&str]) -> Result<String> {
        let wanted = json!({ "policies": policies, "no_parent": true, "no_default_policy": true, "ttl": "1h" });
        text(&self.write("auth/token/create", wanted).await?, "/auth/client_token")
    }

    /// Ends a token at once.
    pub async fn revoke(&self, token: &str) -> Result<()> {
        self.write("auth/token/revoke", json!({ "token": token })).await.map(drop)
    }

    /// An AppRole at the mount `mount`, which is enabled for it; its tokens live for `ttl`, such as `1h`.
    pub async fn app_role(&self, mount: &str, role: &str, policies: &[&str], ttl: &str) -> Result<AppRole> {
        self.write(&format!("sys/auth/{mount}"), json!({ "type": "approle" })).await?;
        let path = format!("auth/{mount}/role/{role}");
        self.write(&path, json!({ "token_policies": policies, "token_ttl": ttl })).await?;
        let role_id = text(&self.ask(Method::GET, &format!("{path}/role-id"), None).await?, "/data/role_id")?;
        let secret_id = text(&self.write(&format!("{path}/secret-id"), json!({})).await?, "/data/secret_id")?;
        Ok(AppRole { role_id, secret_id })
    }

    /// Kubernetes auth at `mount`, with TokenReviews by a cluster.
    pub async fn kubernetes_auth(&self, mount: &str, cluster: &Cluster) -> Result<()> {
        let namespace = cluster.namespace("vault").await;
        cluster.service_account(&namespace, "reviewer").await;
        let account = [subject::service_account(&namespace, "reviewer")];
        cluster.bind(Scope::Cluster, role::cluster("system:auth-delegator"), &account).await;
        let reviewer = cluster.token_request(&namespace, "reviewer", &[], 3600).await;
        self.write(&format!("sys/auth/{mount}"), json!({ "type": "kubernetes" })).await?;
        let config = json!({
            "kubernetes_host": cluster.url(),
            "kubernetes_ca_cert": cluster.client_ca().certificate_pem(),
            "token_reviewer_jwt": reviewer,
            "disable_local_ca_jwt": true,
        });
        self.write(&format!("auth/{mount}/config"), config).await.map(drop)
    }

    /// A role of Kubernetes auth for one ServiceAccount; its tokens live for `ttl`, such as `1h`.
    pub async fn kubernetes_role(
        &self,
        mount: &str,
        role: &str,
        (namespace, account): (&str, &str),
        policies: &[&str],
        ttl: &str,
    ) -> Result<()> {
        let wanted = json!({
            "bound_service_account_names": [account],
            "bound_service_account_namespaces": [namespace],
            "token_policies": policies,
            "token_ttl": ttl,
        });
        self.write(&format!("auth/{mount}/role/{role}"), wanted).await.map(drop)
    }

    /// Forgets the key of its data until [`Vault::unseal`].
    pub async fn seal(&self) -> Result<()> {
        self.ask(Method::PUT, "sys/seal", None).await.map(drop)
    }

    pub async fn unseal(&self) -> Result<()> {
        let key = self.0.unseal_key.get().context("it is not initialised")?;
        self.ask(Method::PUT, "sys/unseal", Some(json!({ "key": key }))).await?;
        self.until_ready().await
    }

    /// An orderly stop. Does nothing when it is not running.
    pub fn stop(&self) -> Result<()> {
        if let Some(mut process) = self.process().take() {
            process.stop(PATIENCE)?;
        }
        Ok(())
    }

    /// `kill -9`.
    pub fn kill(&self) {
        if let Some(mut process) = self.process().take() {
            process.kill();
        }
    }

    /// Starts it on the same data and port after a stop or a kill, and unseals it.
    pub async fn start_again(&self) -> Result<()> {
        self.spawn().await?;
        self.unseal().await
    }

    pub async fn restart(&self) -> Result<()> {
        self.stop()?;
        self.start_again().await
    }

    async fn new(scheme: &'static str) -> Result<Vault> {
        let directory = scratch("vault")?;
        let vault = Vault(Arc::new(Server {
            directory,
            port: free_port()?,
            scheme,
            process: Mutex::default(),
            root_token: OnceCell::new(),
            unseal_key: OnceCell::new(),
        }));
        vault.configure()?;
        vault.spawn().await?;
        let wanted = json!({ "secret_shares": 1, "secret_threshold": 1 });
        let made = vault.ask(Method::PUT, "sys/init", Some(wanted)).await?;
        vault.0.root_token.set(text(&made, "/root_token")?)?;
        vault.0.unseal_key.set(text(&made, "/keys/0")?)?;
        vault.unseal().await?;
        Ok(vault)
    }

    fn configure(&self) -> Result<()> {
        let directory = self.0.directory.display();
        let tls = if self.0.scheme == "https" {
            let authority = Authority::new("vault-ca");
            fs::write(self.ca_file(), authority.certificate_pem())?;
            authority.server(&["127.0.0.1", "localhost"]).write(&self.0.directory, "server")?;
            format!("tls_cert_file = \"{directory}/server.crt\"\n  tls_key_file = \"{directory}/server.key\"")
        } else {
            "tls_disable = true".to_owned()
        };
        let text = format!(
            "disable_mlock = true\napi_addr = \"{}\"\nstorage \"file\" {{\n  path = \"{directory}/data\"\n}}\n\
             listener \"tcp\" {{\n  address = \"{}\"\n  {tls}\n}}\n",
            self.url(),
            self.address()
        );
        Ok(fs::write(self.0.directory.join("vault.hcl"), text)?)
    }

    /// Returns when it listens.
    async fn spawn(&self) -> Result<()> {
        let vault = self.clone();
        let spawned = tokio::task::spawn_blocking(move || {
            let mut process = vault.process();
            if process.is_some() {
                return Ok(());
            }
            let directory = &vault.0.directory;
            let mut command = Command::new(peer("vault")?);
            command.arg("server").arg(format!("-config={}", directory.join("vault.hcl").display()));
            command.env("HOME", directory).current_dir(directory);
            let mut started = Process::spawn("vault", &mut command, &directory.join("log"))?;
            let address = vault.address();
            started.wait_until(PATIENCE, || std::net::TcpStream::connect(&address).is_ok())?;
            *process = Some(started);
            Ok(())
        });
        spawned.await?
    }

    /// After unsealing it takes a moment to become active.
    async fn until_ready(&self) -> Result<()> {
        let asked = || self.ask(Method::GET, "sys/health", None);
        let mut attempts = 0;
        while let Err(error) = asked().await {
            attempts += 1;
            ensure!(attempts < 600, "vault did not become active: {error:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.0.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(answer: &Value, pointer: &str) -> Result<String> {
    let found = answer.pointer(pointer).and_then(Value::as_str);
    found.map(str::to_owned).with_context(|| format!("vault answered without {pointer}"))
}

impl fmt::Debug for Vault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Vault").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl fmt::Debug for AppRole {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AppRole(hidden)")
    }
}
