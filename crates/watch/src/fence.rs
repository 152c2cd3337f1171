//! The fence around a stream: after a removal, nothing that was in flight takes effect.
//!
//! The consumer enters before it applies events and stays inside until they are applied; a removal closes the fence,
//! which waits for those inside, and only then deletes. So every event is applied before the removal, or never.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, RwLock};

/// Of one stream. Clones are the same fence.
#[derive(Clone, Debug)]
pub struct Fence {
    open: Arc<RwLock<bool>>,
}

/// While this lives, no removal of the stream takes place. Whoever holds one must not remove the stream, nor enter the
/// same fence again, or waits for ever.
#[derive(Debug)]
pub struct Admission {
    _open: OwnedRwLockReadGuard<bool>,
}

impl Fence {
    pub(crate) fn new() -> Fence {
        Fence { open: Arc::new(RwLock::new(true)) }
    }

    /// `None` when the stream was removed: what was handed out and not applied yet must not be applied any more.
    pub async fn enter(&self) -> Option<Admission> {
        let open = Arc::clone(&self.open).read_owned().await;
        (*open).then_some(Admission { _open: open })
    }

    pub(crate) async fn close(&self) {
        *self.open.write().await = false;
    }
}
