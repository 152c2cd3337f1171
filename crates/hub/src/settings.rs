//! How a hub behaves.

use std::time::Duration;

use crate::storage::{AllowedUrls, PolicyRule};

#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of records that name none, and of the built-in one.
    pub namespace: String,
    /// The named key that seals values and contexts.
    pub encryption_key: String,
    /// Whether records must be of Types that are known here.
    pub require_types: bool,
    /// Which backend keeps records that name none; the most specific rule counts.
    pub policy: Vec<PolicyRule>,
    /// Where backends may be.
    pub allowed_urls: AllowedUrls,
    pub times: Times,
    /// How many changes are kept in the feed at most.
    pub changes: u64,
}

/// How long things may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// One call that changes something at a backend, with its repetitions.
    pub call: Duration,
    /// One value that is read from a backend.
    pub read: Duration,
    /// The question who holds a record, and whether a backend answers at all.
    pub lock_question: Duration,
    /// How much longer than its calls a change may take before others take it over.
    pub margin: Duration,
    /// How long after its limit a call may still land at a backend.
    pub grace: Duration,
    /// How often the journal is looked after.
    pub recover_every: Duration,
    /// How often the hub's data keys are wrapped by the newest version of the named key, if they are not yet.
    pub rewrap_every: Duration,
    /// How long changes are kept in the feed.
    pub changes: Duration,
    /// How often changes by other processes are asked for.
    pub poll: Duration,
}

impl Settings {
    /// With everything else as it is by default.
    pub fn new(namespace: impl Into<String>, encryption_key: impl Into<String>) -> Settings {
        Settings {
            namespace: namespace.into(),
            encryption_key: encryption_key.into(),
            require_types: false,
            policy: Vec::new(),
            allowed_urls: AllowedUrls::default(),
            times: Times::default(),
            changes: 500_000,
        }
    }
}

impl Times {
    /// What follows from how long a call may take: whoever is patient with backends waits longer for others, too.
    pub fn of_call(call: Duration) -> Times {
        let margin = (call / 2).max(Duration::from_secs(1));
        let grace = call.max(Duration::from_secs(1));
        Times { call, margin, grace, ..Times::default() }
    }

    /// All calls of one change together: a value may have to be read before a new version is written.
    pub(crate) fn phase(&self) -> Duration {
        self.call.saturating_mul(2)
    }
}

impl Default for Times {
    fn default() -> Times {
        Times {
            call: Duration::from_secs(10),
            read: Duration::from_secs(5),
            lock_question: Duration::from_secs(1),
            margin: Duration::from_secs(5),
            grace: Duration::from_secs(10),
            recover_every: Duration::from_secs(2),
            rewrap_every: Duration::from_secs(30),
            changes: Duration::from_secs(24 * 60 * 60),
            poll: Duration::from_secs(1),
        }
    }
}
