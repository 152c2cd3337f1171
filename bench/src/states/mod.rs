//! What the benchmarks of states share: payloads, servers with a store each, and clients that speak as Terraform does.

mod client;
mod payload;
mod place;
mod stored;

pub(crate) use client::{Http, Peer};
pub(crate) use payload::Payload;
pub(crate) use place::{Place, Programs, Store};
