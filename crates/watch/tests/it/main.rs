//! The one integration test target of this crate: a module per subject.
//!
//! Everything is against real API servers. A test's consumer keeps a [`mirror::Mirror`] of what it was told; in the end
//! the mirror and the cluster must be equal, and no event may have come in a wrong order.
#![expect(clippy::print_stdout, reason = "figures are shown")]

mod consumer;
mod mirror;
mod objects;

mod absent;
mod compaction;
mod crash;
mod drops;
mod fetch;
mod filter;
mod loss;
mod namespace;
mod network;
mod permission;
mod queue;
mod recreate;
mod removal;
mod restart;
mod secrets;
mod soak;
mod storage;
