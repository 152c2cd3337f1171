//! Real programs to test against: a Kubernetes control plane, databases, proxies, and ways to disturb them.
//!
//! The doors are [`Cluster`] (a control plane), one type per peer ([`Postgres`], [`Toxiproxy`]), [`faults`] (an HTTP
//! proxy that misbehaves on purpose) and [`scale`] (how much a heavy test does). Everything that is started here is
//! stopped again, also after a panic or a killed test run: see [`process`].
//!
//! A dev-dependency only: nothing of it may end up in the product. A peer that is not there is an error that names the
//! command that brings it; no test skips.

pub mod certificates;
pub mod process;

mod cluster;
mod eventually;
mod peers;
mod scale;

pub use cluster::{
    AUDIENCE, AuditEvent, Cluster, Delegator, FRONT_PROXY_NAME, Grant, Kubeconfig, STATIC_TOKEN_GROUP, Scope,
    StaticTokenUser, UserCertificate, role, rule, subject, wait_for, wait_until_gone,
};
pub use eventually::{Outcome, eventually};
pub use peers::{peer, peers_root};
pub use process::Process;
pub use scale::{Scale, scale, seed};
