//! What can be told about a stored state without giving it away: its outputs, its resources, what changed.
//!
//! Everything here reads a state as it is restored, in passes over a [`Source`], and holds names; values only of
//! outputs. A state
//! that OpenTofu encrypted on the client is refused: there is nothing to read.

mod diff;
mod index;
mod outputs;
mod resources;
mod serial;
mod values;
mod walk;

pub use diff::{Change, Diff, OutputChange, ResourceChange, diff};
pub use outputs::{Sensitive, outputs};
pub use resources::{Resource, resources};
pub use serial::with_serial;
pub use values::{Output, Value, output_list};

use std::io;

use thiserror::Error;

use super::fault::BadState;

/// Writes one restored state from its beginning each time it is called; some questions take two passes.
pub type Source<'a> = dyn FnMut(&mut dyn io::Write) -> io::Result<()> + 'a;

/// Why a stored state cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    #[error("the state was encrypted by the client")]
    Encrypted,
    #[error("the state has no serial, or none that is a whole number")]
    NoSerial,
    /// It was valid when it came in, so this is a version from elsewhere.
    #[error("what is stored is not a state")]
    NotAState(#[source] BadState),
    #[error("failed to restore the state")]
    Source(#[source] io::Error),
    #[error("failed to hand on what was read")]
    Output(#[source] io::Error),
}
