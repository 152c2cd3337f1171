//! LOCK, UNLOCK and DELETE: what the rules decide, done to the head.

use jiff::Timestamp;

use super::change::Verdict;
use super::{ForcedUnlock, State};
use crate::Error;
use crate::head::{Deleted, Head};
use crate::lock::{self, Decision, End, Lock, Released, Wish, decide};
use crate::lock_info::LockInfo;

/// Whether the caller was found to have the permission to break locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    Granted,
    /// Nobody has asked yet.
    NotAsked,
}

/// Whose lock an UNLOCK would end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The caller's, or it would be refused.
    Own,
    /// Somebody else's, which it would break.
    Another,
    /// Nobody's: it is free, or this is a repetition.
    Nothing,
}

/// What an UNLOCK did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlocked {
    Now,
    /// It was not locked, or not any more by this lock.
    Before,
}

impl State {
    /// Takes the lock, or finds that the caller has it already.
    pub async fn lock(&self, info: &LockInfo, user: &str) -> Result<(), Error> {
        self.change(|head| {
            let now = Timestamp::now();
            match self.decide(head, Wish::Lock(info), user, now) {
                Decision::Take => {
                    if let Some(expired) = head.lock.take() {
                        end(head, expired, user, now, End::TakenOver);
                    }
                    let (id, info) = (info.id.clone(), info.text.clone());
                    head.lock = Some(Lock { id, info, user: Some(user.to_owned()), taken: now, active: now });
                    Ok(Verdict::Swap(()))
                }
                Decision::Proceed => Ok(self.renewed(head, now, ())),
                other => Err(refused(&other, head)),
            }
        })
        .await
    }

    /// Lets go of the lock with this ID; `None` breaks whatever lock is there.
    pub async fn unlock(&self, id: Option<&str>, user: &str, force: Force) -> Result<Unlocked, Error> {
        self.change(|head| {
            let now = Timestamp::now();
            let how = match self.decide(head, Wish::Unlock(id), user, now) {
                Decision::Nothing => return Ok(Verdict::Keep(Unlocked::Before)),
                Decision::Release => End::Unlocked,
                Decision::Force if force == Force::Granted => End::Forced,
                Decision::Force => return Err(Error::ForceNeeded),
                other => return Err(refused(&other, head)),
            };
            if let Some(ended) = head.lock.take() {
                end(head, ended, user, now, how);
            }
            Ok(Verdict::Swap(Unlocked::Now))
        })
        .await
    }

    /// What this UNLOCK, which comes next, would be, and since when the lock is held that it would end.
    pub(crate) async fn would_end(&self, id: Option<&str>, user: &str) -> Result<(Ends, Option<Timestamp>), Error> {
        if let Some(glimpse) = self.remembered() {
            let (ends, taken) = self.ends(&glimpse.head, id, user);
            if ends == Ends::Own && taken.is_some() {
                self.begin_with(Some(glimpse));
                return Ok((ends, taken));
            }
        }
        let head = self.look().await?.unwrap_or_default();
        Ok(self.ends(&head, id, user))
    }

    /// The same, by what was just looked at.
    pub(crate) fn ends(&self, head: &Head, id: Option<&str>, user: &str) -> (Ends, Option<Timestamp>) {
        let taken = head.lock.as_ref().map(|lock| lock.taken);
        match self.decide(head, Wish::Unlock(id), user, Timestamp::now()) {
            Decision::Release => (Ends::Own, taken),
            Decision::Force => (Ends::Another, taken),
            Decision::Nothing => (Ends::Nothing, None),
            _ => (Ends::Own, None),
        }
    }

    /// Marks the state as deleted; its versions stay until they are swept. Deleting it again succeeds.
    pub async fn delete(&self, id: Option<&str>, user: &str) -> Result<(), Error> {
        self.change(|head| {
            let now = Timestamp::now();
            match self.decide(head, Wish::Change(id), user, now) {
                Decision::Proceed if head.current.is_none() => Err(Error::NotFound),
                Decision::Proceed if head.deleted.is_some() => Ok(Verdict::Keep(())),
                Decision::Proceed => {
                    head.deleted = Some(Deleted { by: user.to_owned(), at: now });
                    Ok(Verdict::Swap(()))
                }
                other => Err(refused(&other, head)),
            }
        })
        .await
    }

    pub(super) fn decide(&self, head: &Head, wish: Wish<'_>, user: &str, now: Timestamp) -> Decision {
        // A tombstone stops everybody; whoever left it still has to let go of the lock.
        if head.moved.is_some() && !matches!(wish, Wish::Unlock(_)) {
            return Decision::Displaced;
        }
        let state = lock::State { lock: head.lock.as_ref(), released: head.released.as_ref() };
        decide(state, wish, user, now, self.rules())
    }

    /// Notes that the holder is alive, where somebody counts on it.
    pub(super) fn renewed<T>(&self, head: &mut Head, now: Timestamp, value: T) -> Verdict<T> {
        match (&mut head.lock, self.settings.lock_expiry) {
            (Some(lock), Some(_)) => {
                lock.active = now;
                Verdict::Swap(value)
            }
            _ => Verdict::Keep(value),
        }
    }
}

impl super::Settings {
    pub(crate) fn may_force(&self) -> bool {
        self.forced_unlock == ForcedUnlock::WithPermission
    }
}

fn end(head: &mut Head, lock: Lock, user: &str, at: Timestamp, how: End) {
    let Lock { id, info, .. } = lock;
    head.released = Some(Released { id, info, by: Some(user.to_owned()), at, how });
}

/// The 423 of a decision that lets nothing happen.
pub(super) fn refused(decision: &Decision, head: &Head) -> Error {
    if let Err(moved) = head.here() {
        return moved;
    }
    let info = match (decision, &head.lock, &head.released) {
        (Decision::Held, Some(lock), _) => lock.info.clone(),
        (_, _, Some(released)) => ended(released),
        _ => LockInfo::made("unlocked", "", "the state is not locked: lock it first, or leave the ID out", "").text,
    };
    Error::Locked { info }
}

/// The lock that was ended last, with the story of its end as `Info`.
fn ended(released: &Released) -> String {
    let how = match released.how {
        End::Unlocked => "released",
        End::Forced => "broken",
        End::TakenOver => "taken over after its expiry",
    };
    let by = released.by.as_deref().unwrap_or("another program");
    let story = format!("this lock was {how} by {by} at {}; the state is not locked now", released.at);
    let sent: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(&released.info);
    match sent {
        Ok(mut fields) => {
            fields.retain(|name, _| !name.eq_ignore_ascii_case("info"));
            fields.insert("Info".to_owned(), story.into());
            serde_json::Value::Object(fields).to_string()
        }
        Err(_) => LockInfo::made(&released.id, "", &story, "").text,
    }
}
