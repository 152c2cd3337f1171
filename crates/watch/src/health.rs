//! How a stream is doing. Whether rows are stale is decided from this, never from the absence of events.

use std::fmt;

use jiff::Timestamp;

/// The state of a stream, in a `tokio::sync::watch` channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// A list is under way: the first one, or because changes were missed. `since` is when the cluster was last heard.
    Listing { since: Timestamp },
    /// Listed and watching, since this time; the consumer has taken in what was listed.
    Synced { since: Timestamp },
    /// Nothing is heard: what is known is stale since this time, and nothing of it is deleted.
    Lost { since: Timestamp, why: Why },
    /// The cluster does not serve the kind, since this time: everything of it was reported deleted.
    Absent { since: Timestamp },
    /// The stream has ended: its kind or its cluster was removed, or somebody follows it anew.
    Removed,
}

impl Health {
    /// Whether what was handed out can be relied on: there is nothing newer that is not on its way.
    pub fn is_fresh(&self) -> bool {
        matches!(self, Health::Synced { .. } | Health::Absent { .. })
    }
}

impl Health {
    /// Since when it is not, if so.
    pub fn lost(&self) -> Option<Timestamp> {
        match *self {
            Health::Listing { since } | Health::Lost { since, .. } => Some(since),
            Health::Synced { .. } | Health::Absent { .. } | Health::Removed => None,
        }
    }
}

/// Why a stream hears nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    Unauthorized,
    Forbidden,
    /// 429.
    Busy,
    /// 5xx.
    Failing,
    /// No connection, or no answer in time.
    Unreachable,
    /// A watch that is silent for longer than the API server can be: its connection is half open.
    Silent,
    /// 404, and it could not be confirmed that the kind is gone.
    NotServed,
    /// Another 4xx.
    Refused,
    /// An answer that is not what it should be.
    Unreadable,
    /// The set of known keys cannot be written.
    Keys,
    /// Another cluster answers.
    Replaced,
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Why::Unauthorized => "the cluster refuses the credentials: renew them",
            Why::Forbidden => "permission is missing: grant get, list and watch on the kind",
            Why::Busy => "the API server is too busy (429)",
            Why::Failing => "the API server fails (5xx)",
            Why::Unreachable => "the API server cannot be reached or does not answer in time",
            Why::Silent => "the connection of the watch is half open",
            Why::NotServed => "the API server does not serve the kind (404), which could not be confirmed yet",
            Why::Refused => "the API server refuses the request (4xx): check the selectors",
            Why::Unreadable => "the API server's answer cannot be read",
            Why::Keys => "the database of known objects cannot be written",
            Why::Replaced => "another cluster answers at its address",
        })
    }
}
