//! Compiled RBAC against the API server's own authorizer, and how long compiling takes.
//!
//! The tests here change what everybody may do in the cluster, so that they share a private one and take turns.

mod differential;
mod explain;
mod model;
mod oracle;
mod questions;
mod refused;
mod speed;
mod world;

use testbed::Cluster;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// The cluster, for as long as the guard is held.
async fn cluster() -> MutexGuard<'static, Cluster> {
    static CLUSTER: OnceCell<Mutex<Cluster>> = OnceCell::const_new();
    CLUSTER.get_or_init(|| async { Mutex::new(Cluster::own().await) }).await.lock().await
}
