//! Kubernetes watches that report every deletion, across relists and downtime.
//!
//! The one door is [`follow`]: one stream per (cluster, kind) of [`Event::Applied`] and [`Event::Deleted`], whose events
//! are acknowledged one by one. What makes deletions certain is the durable set of known keys ([`Keys`], in a `Db`): a
//! key is in it before its first `Applied` is handed out, and goes only after the consumer acknowledged its `Deleted`.
//! Whatever was down when an object went, the next complete list lacks it and the set still has it. Events that were
//! not acknowledged come again, after a restart or after they were dropped, so handlers must be idempotent.
//!
//! The rules are in `ledger`, pure: what each list, event and fetch means for what is known. `api` makes the calls,
//! each with a deadline, with the verbs get, list and watch alone; `actor` is the one task of a stream, which owns its
//! ledger and never waits for its consumer except for room in the queue.
//!
//! What must never happen here: a deletion because of a failed call or a part of a list; an object handed out whose key
//! is not durable; an old event after a newer one of the same object; the data of a Secret in an event.

mod clean;
mod counters;
mod error;
mod event;
mod health;
mod source;

mod fault;
mod ledger;

mod api;
mod fence;
mod keys;
mod queue;

mod actor;
mod follow;

#[doc(hidden)]
pub mod failpoints;

pub use counters::Figures;
pub use error::Error;
pub use event::{Deleted, Event, Key, Uid};
pub use fence::{Admission, Fence};
pub use follow::{Delivery, Fetched, Follower, Handle, follow};
pub use health::{Health, Why};
pub use keys::{Keys, Kind, MIGRATIONS, Scope, StreamName};
pub use source::{AfterLoss, Content, Filter, Guard, Settings, Source};
