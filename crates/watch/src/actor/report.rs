//! What the task tells about itself.

use jiff::Timestamp;

use super::{Actor, Ground};
use crate::{Health, Why};

impl Actor {
    /// The cluster has said something useful.
    pub(super) fn heard(&mut self) {
        self.heard = Timestamp::now();
        self.parts.counters.stale.set(self.ledger.stale());
    }

    pub(super) fn report_listing(&self) {
        self.parts.health.send_if_modified(|health| match health {
            // These say more, until the list has worked.
            Health::Lost { .. } | Health::Absent { .. } | Health::Listing { .. } | Health::Removed => false,
            Health::Synced { .. } => {
                *health = Health::Listing { since: self.heard };
                true
            }
        });
    }

    /// The watch has told everything that happened before it began.
    pub(super) fn caught_up(&mut self) {
        self.heard();
        self.ground = Ground::Watching;
        self.report_synced();
    }

    /// Once the consumer has taken in what the last list told: who relies on this relies on what the consumer knows.
    pub(super) fn report_synced(&self) {
        if self.ground != Ground::Watching || self.unconfirmed.is_some() {
            return;
        }
        self.parts.health.send_if_modified(|health| {
            let changed = !matches!(health, Health::Synced { .. });
            if changed {
                *health = Health::Synced { since: self.heard };
            }
            changed
        });
    }

    pub(super) fn report_lost(&self, why: Why) {
        self.parts.counters.faults.count();
        self.parts.health.send_if_modified(|health| {
            let since = match health {
                Health::Lost { since, .. } | Health::Listing { since } => *since,
                _ => self.heard,
            };
            let lost = Health::Lost { since, why };
            let changed = *health != lost;
            if changed {
                tracing::warn!(kind = %self.parts.api.kind(), cluster = %self.parts.api.cluster(), %why, "a watch hears nothing");
            }
            *health = lost;
            changed
        });
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(*self.parts.health.borrow(), Health::Absent { .. })
    }

    pub(super) fn report_absent(&self) {
        self.parts.health.send_replace(Health::Absent { since: Timestamp::now() });
    }
}
