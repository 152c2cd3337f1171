//! The head of the audit log in a Lease: now and then, so that its end cannot be cut off without a trace even by somebody
//! who has the database too.
//!
//! A Lease that remembers more than the log has is never lowered: the server says so, and is not ready, until somebody has
//! looked at it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use access::audit::{Audit, LeaseError, publish_head_to_lease};

use super::cluster::Cluster;

/// The task that publishes, and what it found; a clone shares it.
#[derive(Clone)]
pub(super) struct AuditLease {
    cluster: Cluster,
    audit: Audit,
    disagrees: Arc<Mutex<Option<String>>>,
}

impl AuditLease {
    pub(super) fn new(cluster: Cluster, audit: Audit) -> AuditLease {
        AuditLease { cluster, audit, disagrees: Arc::default() }
    }

    /// Whether the Lease and the log agree, as far as it could be asked.
    pub(super) fn health(&self) -> Result<(), String> {
        self.disagrees.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }

    /// Compares at once, then publishes for ever. An API server that does not answer is asked again.
    pub(super) async fn follow(self, every: Duration) {
        loop {
            self.publish().await;
            tokio::time::sleep(every).await;
        }
    }

    async fn publish(&self) {
        let (client, namespace) = (self.cluster.client(), self.cluster.namespace());
        let (instance, head) = (self.audit.instance(), self.audit.head());
        let now = match publish_head_to_lease(client, namespace, instance, head).await {
            Ok(()) => None,
            Err(error @ (LeaseError::Ahead { .. } | LeaseError::Malformed)) => Some(error.to_string()),
            Err(error) => {
                tracing::warn!(%error, namespace, "failed to publish the head of the audit log");
                return;
            }
        };
        let mut disagrees = self.disagrees.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = now.as_ref().filter(|_| disagrees.is_none()) {
            tracing::error!(
                reason,
                namespace,
                "the Lease and the audit log disagree: look with `stateward audit verify`; when that is done, `stateward \
                 audit accept` begins a new segment"
            );
        }
        *disagrees = now;
    }
}
