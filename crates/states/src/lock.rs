//! The rules of locks, as one pure function: [`decide`].
//!
//! It knows who holds the lock, who let go of it last, and what somebody wants; it answers what is to be done. It must
//! never do anything itself, nor know of stores, permissions or HTTP.
//!
//! Clients repeat requests whose answer was lost, so that everything that succeeded must succeed again; and a holder
//! whose lock was taken away must never write again, also when nobody holds it now.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::lock_info::LockInfo;

/// A lock that somebody holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub id: String,
    /// The LockInfo as it was sent.
    pub info: String,
    /// The authenticated user who took it; `None` when another program did.
    pub user: Option<String>,
    pub taken: Timestamp,
    /// The holder's last request.
    pub active: Timestamp,
}

/// The lock that was let go last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    pub id: String,
    pub info: String,
    /// The user who ended it; `None` when another program did.
    pub by: Option<String>,
    pub at: Timestamp,
    pub how: End,
}

/// How a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Its holder let go of it.
    Unlocked,
    /// Somebody else broke it.
    Forced,
    /// It had expired, and the next LOCK took over.
    TakenOver,
}

/// What a state's head says of its lock.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    pub lock: Option<&'a Lock>,
    pub released: Option<&'a Released>,
}

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish<'a> {
    Lock(&'a LockInfo),
    /// `None`: an empty body, which is how Terraform forces an unlock.
    Unlock(Option<&'a str>),
    /// A write or a delete, with the `?ID=` of its query.
    Change(Option<&'a str>),
}

/// The settings of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A lock without a request of its holder for this long may be taken over.
    pub expiry: Option<SignedDuration>,
    pub owners: Owners,
}

/// Whether a lock belongs to the user who took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// The right ID from another user counts as forced.
    ToldApart,
    /// Whoever knows the ID is the holder, as in the original backend.
    WhoKnowsTheId,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The caller becomes the holder. An expired lock that stood in the way ends as [`End::TakenOver`].
    Take,
    /// Go on: the caller holds the lock, or there is none and none was claimed. Renews a lock.
    Proceed,
    /// The holder lets go.
    Release,
    /// Somebody else ends the lock: the caller needs the permission for that.
    Force,
    /// It was done before: succeed without effect.
    Nothing,
    /// Another holds it: 423 with the holder's LockInfo.
    Held,
    /// The caller's lock is gone: 423 with the last lock and who ended it.
    Displaced,
}

pub fn decide(state: State<'_>, wish: Wish<'_>, user: &str, now: Timestamp, rules: Rules) -> Decision {
    let Some(lock) = state.lock else {
        return match wish {
            Wish::Lock(_) => Decision::Take,
            Wish::Unlock(_) => Decision::Nothing,
            Wish::Change(None) => Decision::Proceed,
            Wish::Change(Some(_)) => Decision::Displaced,
        };
    };
    let own = match (rules.owners, &lock.user) {
        (Owners::ToldApart, Some(owner)) => owner == user,
        (Owners::WhoKnowsTheId, _) | (_, None) => true,
    };
    let released_last = |id: &str| state.released.is_some_and(|released| released.id == id);
    match wish {
        Wish::Lock(info) if info.id == lock.id && own => Decision::Proceed,
        Wish::Lock(_) if expired(lock, now, rules) => Decision::Take,
        Wish::Unlock(None) => Decision::Force,
        Wish::Unlock(Some(id)) if id == lock.id && own => Decision::Release,
        Wish::Unlock(Some(id)) if id == lock.id => Decision::Force,
        Wish::Unlock(Some(id)) if released_last(id) => Decision::Nothing,
        Wish::Change(Some(id)) if id == lock.id => Decision::Proceed,
        Wish::Lock(_) | Wish::Unlock(Some(_)) | Wish::Change(_) => Decision::Held,
    }
}

/// Whether the next LOCK may take over. A lock that another program took is never renewed, so that it never expires.
pub fn expired(lock: &Lock, now: Timestamp, rules: Rules) -> bool {
    lock.user.is_some() && rules.expiry.is_some_and(|expiry| now.duration_since(lock.active) > expiry)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Rules = Rules { expiry: None, owners: Owners::ToldApart };
    const EXPIRING: Rules = Rules { expiry: Some(SignedDuration::from_secs(60)), owners: Owners::ToldApart };
    const ORIGINAL: Rules = Rules { expiry: None, owners: Owners::WhoKnowsTheId };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn lock(id: &str, user: Option<&str>) -> Lock {
        let user = user.map(str::to_owned);
        Lock { id: id.to_owned(), info: format!(r#"{{"ID":"{id}"}}"#), user, taken: at(1000), active: at(1000) }
    }

    fn released(id: &str) -> Released {
        let (id, info) = (id.to_owned(), format!(r#"{{"ID":"{id}"}}"#));
        Released { id, info, by: Some("ann".to_owned()), at: at(900), how: End::Unlocked }
    }

    /// Every wish, in the order of the columns below: LOCK a, b; UNLOCK (empty), a, b; change without ID, with a, b.
    fn row(lock: Option<&Lock>, released: Option<&Released>, user: &str, now: i64, rules: Rules) -> String {
        let (a, b) = (LockInfo::made("a", "", "", ""), LockInfo::made("b", "", "", ""));
        let wishes = [
            Wish::Lock(&a),
            Wish::Lock(&b),
            Wish::Unlock(None),
            Wish::Unlock(Some("a")),
            Wish::Unlock(Some("b")),
            Wish::Change(None),
            Wish::Change(Some("a")),
            Wish::Change(Some("b")),
        ];
        let decisions = wishes.map(|wish| decide(State { lock, released }, wish, user, at(now), rules));
        decisions.map(|decision| format!("{decision:?}")).join(" ")
    }

    #[test]
    fn every_wish_in_every_state_has_its_answer() {
        let (a, b) = (released("a"), released("b"));
        let (ours, foreign) = (lock("a", Some("ann")), lock("a", None));
        let soon = 1010;
        let late = 1061;
        let free = "Take Take Nothing Nothing Nothing Proceed Displaced Displaced";
        let mine = "Proceed Held Force Release Held Held Proceed Held";
        let table = [
            // Nobody holds it.
            (None, None, "ann", soon, STRICT, free),
            (None, Some(&a), "ann", soon, STRICT, free),
            (None, Some(&a), "bob", late, EXPIRING, free),
            // Held with ID a by ann; asked by her.
            (Some(&ours), None, "ann", soon, STRICT, mine),
            // After b was let go: its late UNLOCK succeeds without effect.
            (Some(&ours), Some(&b), "ann", soon, STRICT, "Proceed Held Force Release Nothing Held Proceed Held"),
            // The same ID was let go before and taken again: it is the current one that counts.
            (Some(&ours), Some(&a), "ann", soon, STRICT, mine),
            // Asked by bob, who can read the ID in a 423: he neither becomes a holder, nor unlocks without permission.
            (Some(&ours), None, "bob", soon, STRICT, "Held Held Force Force Held Held Proceed Held"),
            (Some(&ours), None, "bob", soon, ORIGINAL, mine),
            // Taken by another program, which tells no user.
            (Some(&foreign), None, "bob", soon, STRICT, mine),
            // It renews nothing, and so does not expire.
            (Some(&foreign), None, "bob", late, EXPIRING, mine),
            // Expiry lets the next LOCK take over, and nothing else; the holder goes on.
            (Some(&ours), None, "ann", late, EXPIRING, "Proceed Take Force Release Held Held Proceed Held"),
            (Some(&ours), None, "bob", late, EXPIRING, "Take Take Force Force Held Held Proceed Held"),
            (Some(&ours), None, "bob", 1060, EXPIRING, "Held Held Force Force Held Held Proceed Held"),
            (Some(&ours), None, "bob", late, STRICT, "Held Held Force Force Held Held Proceed Held"),
        ];
        for (index, (lock, released, user, now, rules, expected)) in table.into_iter().enumerate() {
            assert_eq!(row(lock, released, user, now, rules), expected, "row {index}");
        }
    }
}
