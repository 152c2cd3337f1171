//! etcd, kube-apiserver and kube-controller-manager: their files, their arguments, and the order they start in.
//!
//! Everything here blocks; [`super::Cluster`] calls it from a thread that may.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::Kubeconfig;
use super::part::Part;
use super::static_tokens;
use crate::certificates::{self, Authority};
use crate::process;

/// The user that the testbed's own requests come from.
pub const ADMIN: &str = "testbed-admin";
/// What a front proxy's certificate must be named for the API server to believe its headers.
pub const FRONT_PROXY_NAME: &str = "front-proxy-client";
/// The audience of this project; tokens for the API server itself have the issuer as their audience.
pub const AUDIENCE: &str = "stateward";

/// Whether etcd waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Disk {
    /// As in production: what is answered is on disk.
    Synced,
    /// Faster; nothing here outlives the machine.
    #[default]
    Unsynced,
}

/// What a control plane has that others have not.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) disk: Disk,
    /// The address of an authorizer before RBAC, and what its failure means.
    pub(super) webhook: Option<(String, Failure)>,
}

/// What it means that a webhook fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Deny,
    /// The next authorizer decides.
    NoOpinion,
}

/// The parts are declared in the order in which they are dropped, that is, stopped.
#[derive(Debug)]
pub(super) struct ControlPlane {
    pub(super) controller_manager: Arc<Part>,
    pub(super) api_server: Part,
    pub(super) etcd: Part,
    etcd_name: String,
    pub(super) etcd_url: String,
    pub(super) url: String,
    pub(super) authority: Authority,
    pub(super) front_proxy_authority: Authority,
    pub(super) service_account_key: KeyPair,
    pub(super) admin: Kubeconfig,
    pub(super) directory: Directory,
}

/// Removed when dropped, so that private clusters do not fill the disk until the run ends.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl ControlPlane {
    /// A fresh control plane, ready for requests.
    pub(super) fn start(plan: &Plan) -> Result<ControlPlane> {
        for _attempt in 0..5 {
            let plane = ControlPlane::prepare(plan)?;
            match plane.start_all() {
                Err(_clash) if plane.met_a_port_clash() => {}
                outcome => return outcome.map(|()| plane),
            }
        }
        bail!("no free ports for a control plane in five attempts")
    }

    fn prepare(plan: &Plan) -> Result<ControlPlane> {
        let directory = Directory(process::scratch("cluster")?);
        let [etcd_port, peer_port, port] = [process::free_port()?, process::free_port()?, process::free_port()?];
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let url = format!("https://127.0.0.1:{port}");

        let authority = Authority::new("testbed-cluster");
        let front_proxy_authority = Authority::new("testbed-front-proxy");
        let service_account_key = KeyPair::generate()?;
        let admin = authority.client(ADMIN, &["system:masters"]);
        let admin = Kubeconfig::for_certificate(&url, authority.certificate_pem(), &admin);
        let manager = authority.client("system:kube-controller-manager", &[]);
        let manager = Kubeconfig::for_certificate(&url, authority.certificate_pem(), &manager);

        let file = |name: &str| directory.path(name).display().to_string();
        let write = |name: &str, content: &str| certificates::write(&directory.path(name), content);
        write("ca.crt", authority.certificate_pem())?;
        write("ca.key", &authority.key_pem())?;
        write("front-proxy-ca.crt", front_proxy_authority.certificate_pem())?;
        write("service-account.key", &service_account_key.serialize_pem())?;
        write("service-account.pub", &service_account_key.public_key_pem())?;
        write("tokens.csv", &static_tokens::file())?;
        write("audit-policy.json", AUDIT_POLICY)?;
        let authorization = match &plan.webhook {
            None => "--authorization-mode=RBAC".to_owned(),
            Some((address, failure)) => {
                write("webhook.kubeconfig", &webhook_kubeconfig(address))?;
                write("authorization.json", &authorizers(&file("webhook.kubeconfig"), *failure))?;
                format!("--authorization-config={}", file("authorization.json"))
            }
        };
        write("admin.kubeconfig", &admin.yaml())?;
        write("controller-manager.kubeconfig", &manager.yaml())?;
        let names = ["127.0.0.1", "10.0.0.1", "localhost", "kubernetes.default.svc"];
        authority.server(&names).write(directory.root(), "server")?;
        front_proxy_authority.client(FRONT_PROXY_NAME, &[]).write(directory.root(), "aggregator")?;

        let name = super::unique("etcd");
        let mut etcd = vec![
            format!("--name={name}"),
            format!("--data-dir={}", file("etcd")),
            "--log-level=warn".to_owned(),
            format!("--listen-client-urls={etcd_url}"),
            format!("--advertise-client-urls={etcd_url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster={name}={peer_url}"),
            // What tests overwrite stays until the API server compacts it, minutes later: the default of 2 GiB can be too little.
            format!("--quota-backend-bytes={}", 6_u64 << 30),
        ];
        if plan.disk == Disk::Unsynced {
            etcd.push("--unsafe-no-fsync".to_owned());
        }
        let api_server = [
            format!("--etcd-servers={etcd_url}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--token-auth-file={}", file("tokens.csv")),
            authorization,
            "--allow-privileged=true".to_owned(),
            format!("--service-account-key-file={}", file("service-account.pub")),
            format!("--service-account-signing-key-file={}", file("service-account.key")),
            format!("--service-account-issuer={url}"),
            format!("--api-audiences={url},{AUDIENCE}"),
            format!("--requestheader-client-ca-file={}", file("front-proxy-ca.crt")),
            format!("--requestheader-allowed-names={FRONT_PROXY_NAME}"),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            format!("--proxy-client-cert-file={}", file("aggregator.crt")),
            format!("--proxy-client-key-file={}", file("aggregator.key")),
            format!("--audit-policy-file={}", file("audit-policy.json")),
            format!("--audit-log-path={}", file("audit.log")),
            // Rotation would hide lines from the tests that count them.
            "--audit-log-maxsize=4096".to_owned(),
        ];
        let kubeconfig = file("controller-manager.kubeconfig");
        let controller_manager = [
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--service-account-private-key-file={}", file("service-account.key")),
            format!("--root-ca-file={}", file("ca.crt")),
            format!("--cluster-signing-cert-file={}", file("ca.crt")),
            format!("--cluster-signing-key-file={}", file("ca.key")),
            "--use-service-account-credentials".to_owned(),
            "--leader-elect=false".to_owned(),
            // It serves nothing that a test asks for.
            "--secure-port=0".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
            format!("--controllers={CONTROLLERS}"),
        ];
        Ok(ControlPlane {
            controller_manager: Arc::new(Part::new(
                "kube-controller-manager",
                controller_manager.into(),
                directory.path("controller-manager.log"),
            )),
            api_server: Part::new("kube-apiserver", api_server.into(), directory.path("api-server.log")),
            etcd: Part::new("etcd", etcd, directory.path("etcd.log")),
            etcd_name: name,
            etcd_url,
            url,
            authority,
            front_proxy_authority,
            service_account_key,
            admin,
            directory,
        })
    }

    fn start_all(&self) -> Result<()> {
        self.start_etcd()?;
        self.start_api_server()?;
        self.start_controller_manager()?;
        // It gives up when the API server or etcd goes away while it starts: seen 0.2 s after its start.
        Part::supervise(&self.controller_manager);
        Ok(())
    }

    /// Ready means that the etcd which answers is this one: another run may have taken the port in the last moment.
    pub(super) fn start_etcd(&self) -> Result<()> {
        let waiter = Waiter::new()?;
        let members = format!("{}/v3/cluster/member/list", self.etcd_url);
        let client = reqwest::Client::new();
        let is_this_one = || async {
            let answer = client.post(&members).json(&json!({})).send().await?.error_for_status()?;
            let answer: Value = answer.json().await?;
            Ok(answer["members"][0]["name"] == self.etcd_name.as_str())
        };
        self.etcd.start(|| waiter.asks(is_this_one()))
    }

    pub(super) fn start_api_server(&self) -> Result<()> {
        let waiter = Waiter::new()?;
        let client = waiter.runtime.block_on(async { self.admin.client() });
        self.api_server.start(|| waiter.asks(is_ready(&client)))
    }

    /// Does not wait: its controllers are at work seconds later, and the tests that need them wait for their effect.
    pub(super) fn start_controller_manager(&self) -> Result<()> {
        self.controller_manager.start(|| true)
    }

    fn met_a_port_clash(&self) -> bool {
        [&self.etcd, &self.api_server].iter().any(|part| part.log().contains("address already in use"))
    }
}

fn webhook_kubeconfig(address: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "webhook", "cluster": {"server": address}}],
        "users": [{"name": "api-server", "user": {}}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "api-server"}}],
        "current-context": "webhook",
    });
    config.to_string()
}

/// The webhook is asked about some users only, so that the control plane itself does not depend on it.
fn authorizers(kubeconfig: &str, failure: Failure) -> String {
    let config = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": [
            {
                "type": "Webhook",
                "name": "judge",
                "webhook": {
                    "timeout": "3s",
                    "authorizedTTL": "1ms",
                    "unauthorizedTTL": "1ms",
                    "subjectAccessReviewVersion": "v1",
                    "matchConditionSubjectAccessReviewVersion": "v1",
                    "failurePolicy": match failure { Failure::Deny => "Deny", Failure::NoOpinion => "NoOpinion" },
                    "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": kubeconfig},
                    "matchConditions": [{"expression": "request.user.startsWith('judged-')"}],
                },
            },
            {"type": "RBAC", "name": "rbac"},
        ],
    });
    config.to_string()
}

/// Besides answering, the API server must have made what every cluster has: it does so moments after `/readyz`.
async fn is_ready(client: &kube::Client) -> Result<bool> {
    let ready = client.request_text(http::Request::get("/readyz").body(Vec::new())?).await? == "ok";
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let published: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    Ok(ready
        && namespaces.get_opt("default").await?.is_some()
        && published.get_opt("extension-apiserver-authentication").await?.is_some())
}

/// Asks over the network from a thread that blocks.
struct Waiter {
    runtime: tokio::runtime::Runtime,
}

impl Waiter {
    fn new() -> Result<Waiter> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Waiter { runtime: runtime.context("failed to start a runtime")? })
    }

    /// An error counts as no: the program is not there yet.
    fn asks(&self, question: impl Future<Output = Result<bool>>) -> bool {
        let limit = Duration::from_secs(5);
        let answer = self.runtime.block_on(async { tokio::time::timeout(limit, question).await });
        matches!(answer, Ok(Ok(true)))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Its supervisor may hold the last reference for a moment.
        self.controller_manager.stop();
    }
}

impl Directory {
    pub(super) fn root(&self) -> &Path {
        &self.0
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What cannot be removed now, the reaper removes at the end.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const CONTROLLERS: &str = "namespace-controller,serviceaccount-controller,serviceaccount-token-controller,\
    garbage-collector-controller,root-ca-certificate-publisher-controller,clusterrole-aggregation-controller";

/// Everything that tests may ask about; the control plane's own traffic would only drown it.
const AUDIT_POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "omitStages": ["RequestReceived"],
  "rules": [
    {"level": "None", "users": ["system:apiserver", "system:kube-controller-manager"]},
    {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
    {"level": "Metadata"}
  ]
}
"#;
