//! A Kubernetes control plane for tests: etcd, kube-apiserver and kube-controller-manager, all real.
//!
//! The door is [`Cluster`]. Its helpers panic with what went wrong: a test could do nothing better with the error. It
//! runs no kubelet and no scheduler, so that Pods are accepted and never run.

mod audit;
mod control_plane;
mod disturb;
mod grants;
mod identities;
mod kubeconfig;
mod manifests;
mod part;
mod static_tokens;

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client};

use crate::Webhook;

pub use audit::AuditEvent;
pub use control_plane::{ADMIN, AUDIENCE, FRONT_PROXY_NAME, Failure};
pub use grants::{Grant, Scope, role, rule, subject};
pub use identities::{Delegator, UserCertificate};
pub use kubeconfig::Kubeconfig;
pub use manifests::{wait_for, wait_until_gone};
pub use static_tokens::{STATIC_TOKEN_GROUP, StaticTokenUser};

use control_plane::{ControlPlane, Disk, Plan};

/// A control plane. A private one ends when it is dropped, the shared one with the test process.
#[derive(Debug)]
pub struct Cluster {
    plane: Arc<ControlPlane>,
    static_tokens: static_tokens::Pool,
}

impl Cluster {
    /// The cluster of this test process, started by the first test that asks. Tests keep apart by fresh namespaces and
    /// names; whoever stops or restarts a part takes [`Cluster::own`].
    pub async fn shared() -> &'static Cluster {
        static SHARED: LazyLock<Result<Cluster, String>> = LazyLock::new(|| Cluster::start(&Plan::default()));
        match blocking(|| SHARED.as_ref()).await {
            Ok(cluster) => cluster,
            Err(error) => panic!("failed to start the shared cluster: {error}"),
        }
    }

    /// A private cluster, about 400 MB of memory.
    pub async fn own() -> Cluster {
        Cluster::private(Plan::default()).await
    }

    /// A private cluster whose etcd waits for the disk as one in production does: for whoever measures.
    pub async fn synced() -> Cluster {
        Cluster::private(Plan { disk: Disk::Synced, ..Plan::default() }).await
    }

    /// A private cluster in which a webhook is asked before RBAC about users whose names begin with `judged-`. Its answers
    /// are not remembered; where it fails, `failure` counts.
    pub async fn judged_by(webhook: &Webhook, failure: Failure) -> Cluster {
        Cluster::private(Plan { webhook: Some((webhook.url().to_owned(), failure)), ..Plan::default() }).await
    }

    async fn private(plan: Plan) -> Cluster {
        let started = blocking(move || Cluster::start(&plan)).await;
        started.unwrap_or_else(|error| panic!("failed to start a private cluster: {error}"))
    }

    fn start(plan: &Plan) -> Result<Cluster, String> {
        let plane = ControlPlane::start(plan).map_err(|error| format!("{error:#}"))?;
        Ok(Cluster { plane: Arc::new(plane), static_tokens: static_tokens::Pool::default() })
    }

    /// The API server's address, which is also the issuer of its ServiceAccount tokens.
    pub fn url(&self) -> &str {
        &self.plane.url
    }

    /// A client of the administrator (`system:masters`), for the runtime of the calling test only. It asks again after
    /// 429, 503 and 504, as kube does by default; what must see them takes [`Kubeconfig::config`] with `default_retry`
    /// off.
    pub fn client(&self) -> Client {
        self.plane.admin.client()
    }

    /// A client of somebody else, for the runtime of the calling test only.
    pub fn client_as(&self, kubeconfig: &Kubeconfig) -> Client {
        kubeconfig.client()
    }

    /// The path of the administrator's kubeconfig.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.plane.directory.path("admin.kubeconfig")
    }

    /// A fresh namespace with a name that starts with `prefix`. It goes with the cluster: ending one takes the
    /// controller-manager at least 5 s, so a test deletes it only to see what happens then.
    pub async fn namespace(&self, prefix: &str) -> String {
        let name = unique(prefix);
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespaces: Api<Namespace> = Api::all(self.client());
        namespaces.create(&PostParams::default(), &namespace).await.expect("create a namespace");
        name
    }
}

/// A name that nothing else in this run has.
fn unique(prefix: &str) -> String {
    let id = uuid::Uuid::new_v4().simple().to_string();
    format!("{prefix}-{}", &id[..8])
}

/// Runs what blocks beside the runtime of the calling test.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => panic!("a blocking step of the testbed failed: {error}"),
    }
}
