//! What the task does after a fault: wait, list again, or conclude that the kind is gone.

use std::time::Duration;

use tokio::time::sleep;

use super::{Actor, Next};
use crate::api::Served;
use crate::fault::Fault;
use crate::ledger::Pass;
use crate::source::AfterLoss;
use crate::{Settings, Why};

/// Between the two looks that must both say that a kind is gone.
const SECOND_LOOK: Duration = Duration::from_secs(2);

impl Actor {
    /// An error is the end of the stream.
    pub(super) async fn recover(&mut self, fault: Fault, was: Next) -> Result<Next, Fault> {
        match fault {
            Fault::Removed => Err(Fault::Removed),
            Fault::Lost(why) => {
                self.report_lost(why);
                self.pause().await?;
                Ok(self.after_loss(was))
            }
            Fault::Expired => {
                self.parts.counters.expired.count();
                self.report_listing();
                self.pause().await?;
                Ok(Next::List(match was {
                    Next::Watch => Pass::Changes,
                    Next::List(pass) => {
                        // The consumer is so slow that the pages outlived their snapshot: fewer, larger ones.
                        self.page = self.page.saturating_mul(2);
                        pass
                    }
                }))
            }
            Fault::NotServed => self.look_for_the_kind(was).await,
        }
    }

    /// A 404 alone proves nothing: the kind is gone when the cluster itself says so, twice.
    async fn look_for_the_kind(&mut self, was: Next) -> Result<Next, Fault> {
        if self.is_absent() {
            let pause = self.absent_pauses.next();
            self.attend(sleep(pause)).await?;
            return Ok(Next::List(Pass::Everything));
        }
        let mut served = self.attend(self.parts.api.clone().served()).await?;
        if served == Served::No {
            self.attend(sleep(SECOND_LOOK)).await?;
            served = self.attend(self.parts.api.clone().served()).await?;
        }
        match served {
            Served::No => {
                let out = self.ledger.absent();
                self.push(out);
                self.report_absent();
                self.absent_pauses.reset();
                self.pauses.reset();
                self.pause().await?;
                Ok(Next::List(Pass::Everything))
            }
            Served::Yes | Served::Unknown(_) => {
                self.report_lost(if let Served::Unknown(why) = served { why } else { Why::NotServed });
                self.pause().await?;
                Ok(self.after_loss(was))
            }
        }
    }

    fn after_loss(&self, was: Next) -> Next {
        match self.parts.settings.after_loss {
            AfterLoss::List if was == Next::Watch => Next::List(Pass::Changes),
            AfterLoss::List | AfterLoss::GoOn => was,
        }
    }

    async fn pause(&mut self) -> Result<(), Fault> {
        let pause = self.pauses.next();
        self.attend(sleep(pause)).await
    }
}

/// Pauses that double, each with some chance in it, so that many streams do not come back at once.
#[derive(Clone, Debug)]
pub(super) struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pauses {
    pub(super) fn new(first: Duration, longest: Duration) -> Pauses {
        Pauses { first, longest, next: first }
    }

    /// Those after faults.
    pub(super) fn of(settings: &Settings) -> Pauses {
        Pauses::new(settings.first_pause, settings.longest_pause)
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_begin_again_after_a_success() {
        let mut pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(5));
        for longest in [1, 2, 4, 5, 5] {
            let pause = pauses.next().as_secs_f64();
            assert!(pause <= f64::from(longest) && pause >= f64::from(longest) / 2.0, "{pause} of {longest}");
        }
        pauses.reset();
        assert!(pauses.next() <= Duration::from_secs(1));
    }
}
