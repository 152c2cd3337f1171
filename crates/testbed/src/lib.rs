//! Real programs to test against: a Kubernetes control plane, databases, proxies, and ways to disturb them.
//!
//! The doors are [`Cluster`] (a control plane), one type per peer, [`faults`] (an HTTP proxy that misbehaves on
//! purpose), [`certificates`] and [`scale`] (how much a heavy test does). Everything that is started here is stopped
//! again, also after a panic or a killed test run: see [`process`].
//!
//! A dev-dependency only: nothing of it may end up in the product. A peer that is not there is an error that names the
//! command that brings it; no test skips.
//!
//! # A test with a cluster
//! The first test that asks starts the cluster of its process, in a few seconds; the others share it and keep apart by
//! fresh namespaces. That is why each crate has one integration target. Tests that stop, restart or compact something
//! take [`Cluster::own`].
//!
//! ```no_run
//! use std::time::Duration;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::Api;
//! use testbed::{Cluster, Scope, eventually, rule, subject};
//!
//! # async fn a_reader_may_read() {
//! let cluster = Cluster::shared().await;
//! let namespace = cluster.namespace("reader").await;
//! let user = cluster.user("rita", &["readers"]);
//! let rules = [rule(&["get", "list"], &[""], &["configmaps"])];
//! let grant = cluster.grant(Scope::Namespace(&namespace), &[subject::group("readers")], &rules).await;
//!
//! // A client belongs to the runtime of its test: make one per test, never a static one.
//! let maps: Api<ConfigMap> = Api::namespaced(cluster.client_as(user.kubeconfig()), &namespace);
//! maps.list(&Default::default()).await.expect("she may");
//!
//! // What takes time is waited for, with a generous limit; what a helper cannot do fails the test by a panic.
//! cluster.remove_binding(&grant).await;
//! eventually(Duration::from_mins(1), || async { maps.list(&Default::default()).await.is_err() }).await;
//! # }
//! ```

pub mod certificates;
pub mod faults;
pub mod linearizable;
pub mod process;
pub mod states;

mod cluster;
mod disk;
mod eventually;
mod maps;
mod on_both;
mod peers;
mod postgres;
mod scale;
mod serving;
mod toxiproxy;
mod vault;
mod webhook;
mod weed;

pub use cluster::{
    ADMIN, AUDIENCE, AuditEvent, Cluster, Delegator, FRONT_PROXY_NAME, Failure, Grant, Kubeconfig, STATIC_TOKEN_GROUP,
    Scope, StaticTokenUser, UserCertificate, role, rule, subject, wait_for, wait_until_gone,
};
pub use disk::SmallDisk;
pub use eventually::{Outcome, eventually};
pub use maps::Maps;
pub use peers::{peer, peers_root};
pub use postgres::Postgres;
pub use process::Process;
pub use scale::{Scale, scale, seed};
pub use toxiproxy::{Direction, Proxy, Toxiproxy};
pub use vault::{AppRole, Vault};
pub use webhook::{Opinion, Webhook};
pub use weed::Weed;
