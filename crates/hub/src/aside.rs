//! Work of the processor alone that may take long.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does it while others take the tasks of this thread, where there are others.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}
