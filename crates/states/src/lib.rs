//! The Terraform/OpenTofu HTTP state backend: lock, version, compress, on several stores.
//!
//! The doors are [`States`] (the engine, one [`State`] per namespace and name) and [`http`] (the protocol that the
//! clients speak). In reading order: the rules of locks ([`lock`]), the document that every change swaps ([`head`]),
//! what a place to keep states must do ([`store`]), the engine above all stores, and the protocol.
//!
//! What must never be here: a state parsed into a tree or held whole in memory, a byte of a state in a log or an error,
//! a write that is not a compare-and-swap, or a lock rule outside of [`lock`].

pub mod lock;
pub mod lock_info;

pub mod codec;

mod bytes_text;
pub mod head;
mod key;
mod packing;
mod uploads;

pub mod store;

mod engine;
mod error;
pub mod metrics;

pub mod http;

#[doc(hidden)]
pub mod failpoints;

pub use engine::{
    Differences, Force, ForcedUnlock, Outputs, Reading, ResourcePage, ResourceQuery, RolledBack, Sealing, Settings,
    State, States, StoredBytes, Stores, Times, Unlocked, Written,
};
pub use error::Error;
pub use key::{BadKey, Key};
pub use store::MIGRATIONS;
