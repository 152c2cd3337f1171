//! How handlers meet the gate.
//!
//! The server puts a [`Door`] into every request; a handler takes a [`Caller`] and asks it: [`Caller::may`] for
//! reading, [`Caller::act`] for changes. Both leave their lines in the audit log, so that no handler can forget to.
//! A refusal is a [`Problem`]: JSON that names the fault and the cure, never what was presented. [`Fields`] and
//! [`Parameters`] read small bodies and queries with the same care. [`api`] lets routes describe themselves.

pub mod api;
mod caller;
mod fields;
mod own_token;
mod parameters;
mod problem;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::audit::{self, Audit, Entry, Outcome, What, Who};
use crate::authenticate::Certificates;
use crate::gate::Gate;
use crate::limiter::Limiter;

pub use caller::Caller;
pub use fields::Fields;
pub use own_token::OwnToken;
pub use parameters::Parameters;
pub use problem::{Document, Problem, REQUEST_ID, RequestId};

/// Who is at the other end of the connection; the listener puts it into every request.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    pub certificates: Certificates,
}

/// The gate and the log, as requests carry them.
#[derive(Clone, Debug)]
pub struct Door {
    gate: Gate,
    audit: Audit,
    strangers: Arc<Strangers>,
}

/// Anybody can fail to authenticate: only so many lines per second are spent on it, or strangers could fill the disk. The
/// next line tells how many were left out.
#[derive(Debug)]
struct Strangers {
    lines: Limiter,
    left_out: AtomicU64,
}

impl Strangers {
    /// The line of one more, if it gets one.
    fn line(&self, outcome: Outcome) -> Option<Entry> {
        if !self.lines.take() {
            self.left_out.fetch_add(1, Relaxed);
            return None;
        }
        // The path is left out: nobody has vouched for whoever wrote it.
        let nobody = Who::new("", audit::Source::Anonymous);
        let entry = Entry::decision(nobody, What::path("authenticate", "/"), outcome);
        Some(match self.left_out.swap(0, Relaxed) {
            0 => entry,
            left_out => entry.with("left_out", left_out),
        })
    }
}

impl Door {
    pub fn new(gate: Gate, audit: Audit) -> Door {
        let strangers = Strangers { lines: Limiter::new(STRANGERS_PER_SECOND), left_out: AtomicU64::new(0) };
        Door { gate, audit, strangers: Arc::new(strangers) }
    }
}

const STRANGERS_PER_SECOND: u32 = 20;

/// Whether this may be a namespace or another DNS label: the only thing that reviews and audit lines take as one.
pub fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether this may be the name of an object: DNS labels joined by dots.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        for (text, label, subdomain) in [
            ("a", true, true),
            ("team-1", true, true),
            ("a.b", false, true),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("A", false, false),
            ("a_b", false, false),
            ("a..b", false, false),
            ("a/b", false, false),
            ("ä", false, false),
        ] {
            assert_eq!((is_dns_label(text), is_dns_subdomain(text)), (label, subdomain), "{text}");
        }
        assert!(!is_dns_label(&"a".repeat(64)));
        assert!(!is_dns_subdomain(&["a"; 128].join(".")));
    }
}
