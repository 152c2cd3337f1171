//! Drivers: where values of records and secrets really live.
//!
//! The one door is [`Driver`]. A driver is a place in this process, such as [`drivers`] has them, or somebody else's behind
//! the gRPC protocol `storage_backend`: [`Client`] is a driver, and [`Server`] serves one.
//!
//! What must never be here: a value or a context in a log, an error or a Debug text; a call without a deadline; an answer
//! that says less than is known of whether a change took place.

mod client;
mod driver;
pub mod drivers;
mod error;
mod json;
mod pem;
mod serve;
mod wire;

pub use client::{Client, ClientTls, Encoding, Endpoint, Limits};
pub use driver::{Answer, Code, Document, Driver, Failure, Mode, Target, Update};
pub use error::Error;
pub use pem::Pem;
pub use serve::{Server, ServerLimits, ServerTls, Serving};
