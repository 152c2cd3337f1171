//! The rows on disk, so that a restart is warm: a file of this process alone, also when records live elsewhere.
//!
//! The door is [`Store`], an index together with its copy. A change is in the index when a call returns, and in the copy when
//! its [`Ticket`] says so. The copy is written behind, in batches, in the order in which the index changed: at every moment it
//! is the index of some time before. Whoever follows a cluster acknowledges an event only after its ticket, so that what a
//! crash keeps out of the copy comes again; and [`Store::reconcile`] compares with the keys that are known to exist.
//!
//! Nothing but this crate reads the file, and nothing in it is needed: it can be deleted while the server is stopped.

mod batch;
mod copy;
mod load;
mod schema;
mod store;

pub use copy::{Copy, Ticket};
pub use schema::MIGRATIONS;
pub use store::Store;

/// Why the copy cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to use the copy of the explorer's rows: {0}")]
    Db(#[from] db::Error),
    #[error("the copy of the explorer's rows is closed")]
    Closed,
    #[error("failed to unpack a body: {0}")]
    Unpack(String),
}
