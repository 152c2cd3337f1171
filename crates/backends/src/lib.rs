//! Drivers: where values of records and secrets really live.
//!
//! The one door is [`Driver`]. A driver is a place in this process, such as [`drivers`] has them, or somebody else's behind
//! the gRPC protocol `storage_backend`.
//!
//! What must never be here: a value or a context in a log, an error or a Debug text; a call without a deadline; an answer
//! that says less than is known of whether a change took place.

mod driver;

pub use driver::{Answer, Code, Document, Driver, Failure, Mode, Target, Update};
