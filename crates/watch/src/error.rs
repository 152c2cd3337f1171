//! Why a call of the consumer failed. What goes wrong inside a stream is its [`crate::Health`], not an error.

use crate::Why;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key set cannot be read or written.
    #[error("failed to keep the set of known objects: {0}")]
    Keys(#[from] db::Error),

    /// The stream was removed, with its kind or its cluster, or somebody follows it anew.
    #[error("the stream was removed, or is followed anew by somebody else")]
    Removed,

    /// The API server could not be asked; nothing follows from that about the object.
    #[error("failed to fetch the object: {0}")]
    Fetch(Why),
}
