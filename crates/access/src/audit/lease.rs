//! The head of a log as an annotation of a Lease: a witness outside the machine and the database.
//!
//! The server calls [`publish_head_to_lease`] from time to time; nothing waits for it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use tokio::time::timeout;

use super::line::Head;

/// The annotation that holds `<number>:<code>`.
pub const HEAD_ANNOTATION: &str = "stateward.dev/audit-head";

const DEADLINE: Duration = Duration::from_secs(10);
const MANAGER: &str = "stateward-audit";

/// Why the Lease could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    #[error("failed to reach the Lease of the audit head")]
    Kubernetes(#[from] kube::Error),
    #[error("the Lease of the audit head was not reached within {} s", DEADLINE.as_secs())]
    Deadline,
    #[error("the annotation {HEAD_ANNOTATION} does not hold <number>:<code>")]
    Malformed,
    /// Lines were cut off, or another log has this name. The Lease is left as it is.
    #[error("the Lease remembers line {known} of the audit log, which ends with another line {ours}")]
    Ahead { known: u64, ours: u64 },
}

/// The name of the Lease of an instance.
pub fn lease_name(instance: &str) -> String {
    format!("stateward-audit-{instance}")
}

/// Sets the annotation by server-side apply, which creates the Lease if it is not there. A head that the log does not have
/// any more is never replaced: it is what tells of the loss.
pub async fn publish_head_to_lease(
    client: Client,
    namespace: &str,
    instance: &str,
    head: Head,
) -> Result<(), LeaseError> {
    let known = read_head_from_lease(client.clone(), namespace, instance).await?;
    if let Some(known) = known.filter(|known| known.is_missing_from(head)) {
        return Err(LeaseError::Ahead { known: known.n, ours: head.n });
    }
    let name = lease_name(instance);
    let lease = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": name, "annotations": { HEAD_ANNOTATION: head.to_string() } },
        "spec": { "holderIdentity": instance },
    });
    let api = Api::<Lease>::namespaced(client, namespace);
    let parameters = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(lease);
    let patched = timeout(DEADLINE, api.patch(&name, &parameters, &patch)).await;
    patched.map_err(|_| LeaseError::Deadline)??;
    Ok(())
}

/// The head that the Lease remembers; none if there is no such Lease or annotation.
pub async fn read_head_from_lease(client: Client, namespace: &str, instance: &str) -> Result<Option<Head>, LeaseError> {
    let api = Api::<Lease>::namespaced(client, namespace);
    let lease = timeout(DEADLINE, api.get_opt(&lease_name(instance))).await.map_err(|_| LeaseError::Deadline)??;
    let text = lease.and_then(|lease| lease.metadata.annotations?.remove(HEAD_ANNOTATION));
    text.map(|text| text.parse().map_err(|_| LeaseError::Malformed)).transpose()
}
