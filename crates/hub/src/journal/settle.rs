//! The end of an entry: undone, or carried through.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backends::Code;
use db::{Tx, params};
use futures::future::join_all;
use jiff::Timestamp;

use super::{Fate, Intent, IntentKind, IntentState, Left, Operation, abort, delete_reservations, keep, release};
use crate::changes::{ChangeKind, Event};
use crate::failpoints::Step;
use crate::hub::Hub;
use crate::model::BUILT_IN;
use crate::storage::{Backend, Call, Trouble, code_name};
use crate::store::{delete_record, rows};
use crate::{Error, Reason};

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Over,
    /// It is still there: its backend does not answer, or it is done once more later.
    Later,
}

/// How long to wait before the next attempt at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Hub {
    /// Gives up what was begun: says so in the journal. What has to be undone is, but nobody waits for it: a backend that does
    /// not answer has taken its time already. What cannot be undone now is later.
    pub(crate) async fn give_up(&self, operation: &Operation, fates: Vec<(Intent, Fate)>) -> Result<(), Error> {
        let times = &self.settings().times;
        let (now, id) = (self.now(), operation.id.clone());
        let after = |time| now.checked_add(time).unwrap_or(Timestamp::MAX);
        let left = Left { lease_until: after(times.phase() + times.margin), deadline: after(times.grace) };
        let unlocked = self.sealing().unlock().await?;
        let say_so = move |tx: &mut Tx<'_>| {
            delete_reservations(tx, &id)?;
            let mut open = Vec::new();
            for (intent, fate) in &fates {
                if abort(tx, intent, *fate, left, &unlocked)? && *fate != Fate::Nothing {
                    open.push(fate.applied(intent, left));
                }
            }
            Ok::<_, Error>(open)
        };
        let open = self.db().write(say_so).await?;
        Step::Aborted.hit();
        if !open.is_empty() {
            let hub = self.clone();
            self.in_the_background(async move {
                for settled in join_all(open.into_iter().map(|intent| hub.settle(intent))).await {
                    if let Err(error) = settled {
                        tracing::warn!(%error, "failed to undo what was given up; it is tried again");
                    }
                }
            });
        }
        Ok(())
    }

    /// Undoes an entry that is ours, or carries it through.
    pub(crate) async fn settle(&self, mut intent: Intent) -> Result<Settled, Error> {
        let reached = match self.reach(&intent).await {
            Ok(reached) => reached,
            // The backend's own record is at fault.
            Err(Error::Refused { reason, message }) => {
                let code = if reason == Reason::NotFound { Code::NotFound } else { Code::Unavailable };
                Err(Trouble::new(code, message))
            }
            Err(error) => return Err(error),
        };
        Step::SettleCalled.hit();
        let now = self.now();
        let is_over = now >= intent.deadline || matches!(intent.kind, IntentKind::Delete) || is_after_move(&intent);
        match reached {
            Ok(()) if is_over => return self.conclude(intent).await,
            // Once more, when nothing of it can be on its way.
            Ok(()) => intent.lease_until = intent.deadline,
            Err(trouble) if now >= intent.deadline && is_refused(&intent, &trouble) => {
                return self.close(intent).await;
            }
            Err(trouble) => {
                tracing::warn!(
                    record = intent.record,
                    backend = intent.backend,
                    kind = intent.kind.as_str(),
                    code = code_name(trouble.code),
                    "what was begun with a storage backend is still open; it is tried again"
                );
                intent.attempts = intent.attempts.saturating_add(1);
                intent.fault = Some(code_name(trouble.code).to_owned());
                intent.lease_until = now.checked_add(self.pause(intent.attempts)).unwrap_or(Timestamp::MAX);
            }
        }
        self.db().write(move |tx| keep(tx, &intent)).await?;
        Ok(Settled::Later)
    }

    fn pause(&self, attempts: u32) -> Duration {
        let first = self.settings().times.recover_every;
        first.saturating_mul(1 << attempts.min(6)).min(LONGEST_PAUSE.max(first))
    }

    /// Calls the backend, once.
    async fn reach(&self, intent: &Intent) -> Result<Result<(), Trouble>, Error> {
        let place = match (intent.kind, intent.state) {
            (IntentKind::Move, IntentState::Undo) => intent.target.as_deref().unwrap_or(BUILT_IN),
            _ => &intent.backend,
        };
        if place == BUILT_IN {
            return Ok(Ok(()));
        }
        let backend = self.backend(place).await?;
        let call = Call {
            record: &intent.record,
            key: format!("{}:{}:{}", intent.id, intent.state.as_str(), intent.epoch),
            until: Instant::now() + self.settings().times.call,
        };
        let (context, holder) = (intent.context.as_ref(), intent.holder.as_deref());
        Ok(match intent.kind {
            IntentKind::Create | IntentKind::Delete | IntentKind::Move => backend.delete(&call, context, holder).await,
            IntentKind::Update => self.undo_versions(&backend, &call, intent).await,
            IntentKind::Lock => match backend.locked_by(&call, context).await {
                // Nobody's, or somebody else's, which kept ours out.
                Ok(other) if other.as_deref() != holder => Ok(()),
                _ => backend.unlock(&call, context).await,
            },
            IntentKind::Unlock => backend.unlock(&call, context).await,
        })
    }

    /// The newest first, as they would have to go.
    async fn undo_versions(&self, backend: &Arc<Backend>, call: &Call<'_>, intent: &Intent) -> Result<(), Trouble> {
        for version in (intent.first..=intent.last).rev() {
            let (context, holder) = (intent.context.as_ref(), intent.holder.as_deref());
            backend.delete_version(&call.after(version), version, context, holder).await?;
        }
        Ok(())
    }

    /// The backend agrees: what was begun is over, here too.
    async fn conclude(&self, intent: Intent) -> Result<Settled, Error> {
        let (feed, now) = (self.feed(), self.now());
        let conclude = move |tx: &mut Tx<'_>| {
            if !release(tx, &intent)? {
                return Ok(());
            }
            let Some(record) = rows::records(tx, std::slice::from_ref(&intent.record))?.pop() else { return Ok(()) };
            match (intent.kind, intent.state) {
                (IntentKind::Delete, _) => {
                    delete_record(tx, &record.id)?;
                    feed.write(tx, now, &[Event::of(&record, ChangeKind::Deleted)])
                }
                (IntentKind::Unlock, _) => {
                    tx.execute("DELETE FROM hub_locks WHERE record = $1", params![&record.id])?;
                    feed.write(tx, now, &[Event::of(&record, ChangeKind::Unlocked)])
                }
                _ => Ok(()),
            }
        };
        self.change(conclude).await?;
        Ok(Settled::Over)
    }

    /// The backend refuses what was to be carried through: the record stays as it is.
    async fn close(&self, intent: Intent) -> Result<Settled, Error> {
        self.db().write(move |tx| release(tx, &intent)).await?;
        Ok(Settled::Over)
    }
}

/// An old copy that goes: whatever is on its way cannot harm what is there now.
fn is_after_move(intent: &Intent) -> bool {
    intent.kind == IntentKind::Move && intent.state == IntentState::Forward
}

/// Whether a deletion or a release is refused for good.
fn is_refused(intent: &Intent, trouble: &Trouble) -> bool {
    matches!(intent.kind, IntentKind::Delete | IntentKind::Unlock)
        && matches!(
            trouble.code,
            Code::FailedPrecondition | Code::InvalidArgument | Code::PermissionDenied | Code::Unimplemented
        )
}
