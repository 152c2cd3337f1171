//! The hub as one caller may use it.
//!
//! The door is [`Guard`], made for every request: the same deeds as those of [`Hub`](crate::Hub), each limited to what the
//! caller may see and do. `sight` knows what was decided for this request, `reading`, `storage`, `types` and `watching` give
//! what may be seen, `changing` does what changes records, `acts` puts changes on record.
//!
//! What must never be here: an answer that tells a record which the caller may not get from one that is not there; a change
//! that is not an act of the caller.

mod acts;
mod changing;
mod failure;
mod reading;
mod relations;
mod sight;
mod storage;
mod types;
mod watching;

use std::sync::Arc;

use access::http::Caller;

use crate::Hub;
use sight::Sight;

pub use failure::Failure;

/// A hub and its caller. Clones share what was decided.
#[derive(Clone, Debug)]
pub struct Guard {
    hub: Hub,
    caller: Caller,
    sight: Arc<Sight>,
    limits: Limits,
}

/// What one request may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Records that a list without `first` gives at most.
    pub list: usize,
    /// Records that one mutation changes at most.
    pub batch: usize,
}

/// The group of everything that the hub asks permissions for.
pub const GROUP: &str = "hub.stateward.dev";

impl Guard {
    pub fn new(hub: Hub, caller: Caller, limits: Limits) -> Guard {
        let sight = Arc::new(Sight::new(caller.clone()));
        Guard { hub, caller, sight, limits }
    }

    /// The same caller, about whom everything is asked anew.
    #[must_use]
    pub fn anew(&self) -> Guard {
        Guard::new(self.hub.clone(), self.caller.clone(), self.limits)
    }

    pub fn hub(&self) -> &Hub {
        &self.hub
    }
}
