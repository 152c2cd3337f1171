//! Real programs to test against: a Kubernetes control plane, databases, proxies, and ways to disturb them.
//!
//! The doors are [`Cluster`] (a control plane), one type per peer ([`Postgres`], [`Toxiproxy`]), [`faults`] (an HTTP
//! proxy that misbehaves on purpose) and [`scale`] (how much a heavy test does). Everything that is started here is
//! stopped again, also after a panic or a killed test run: see [`process`].
//!
//! A dev-dependency only: nothing of it may end up in the product. A peer that is not there is an error that names the
//! command that brings it; no test skips.

pub mod process;

mod peers;
mod postgres;
mod scale;
mod toxiproxy;

pub use peers::{peer, peers_root};
pub use postgres::Postgres;
pub use process::Process;
pub use scale::{Scale, scale, seed};
pub use toxiproxy::{Direction, Proxy, Toxiproxy};
