//! Who may change a locked record, and what a lock becomes when it is asked for again.

use jiff::{SignedDuration, Timestamp};

use crate::model::Lock;

/// How somebody stands to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Free,
    Holder,
    Stranger,
}

/// How `owner` (or somebody who names none) stands to a record with this lock.
pub fn standing(lock: Option<&Lock>, owner: Option<&str>, now: Timestamp) -> Standing {
    match lock.filter(|lock| holds(lock, now)) {
        None => Standing::Free,
        Some(lock) if Some(lock.owner.as_str()) == owner => Standing::Holder,
        Some(_) => Standing::Stranger,
    }
}

/// Whether a lock still counts.
pub fn holds(lock: &Lock, now: Timestamp) -> bool {
    lock.expires.is_none_or(|expires| now < expires)
}

/// The lock that `owner` gets; `None` where somebody else holds one. The holder renews it: the new lease counts from now,
/// and without one the lock holds until it is released.
pub fn granted(lock: Option<&Lock>, owner: &str, lease: Option<SignedDuration>, now: Timestamp) -> Option<Lock> {
    let since = match (standing(lock, Some(owner), now), lock) {
        (Standing::Stranger, _) => return None,
        (Standing::Holder, Some(lock)) => lock.since,
        _ => now,
    };
    // A lease that ends after the end of time does not end.
    let expires = lease.and_then(|lease| now.checked_add(lease).ok());
    Some(Lock { owner: owner.to_owned(), since, expires })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn lock(owner: &str, expires: Option<i64>) -> Lock {
        Lock { owner: owner.to_owned(), since: at(0), expires: expires.map(at) }
    }

    #[test]
    fn only_a_lock_that_holds_keeps_others_out() {
        let table = [
            (None, None, Standing::Free),
            (None, Some("a"), Standing::Free),
            (Some(lock("a", None)), Some("a"), Standing::Holder),
            (Some(lock("a", None)), Some("b"), Standing::Stranger),
            (Some(lock("a", None)), None, Standing::Stranger),
            (Some(lock("a", Some(11))), Some("b"), Standing::Stranger),
            (Some(lock("a", Some(10))), Some("b"), Standing::Free),
            (Some(lock("a", Some(10))), Some("a"), Standing::Free),
        ];
        for (lock, owner, expected) in table {
            assert_eq!(standing(lock.as_ref(), owner, at(10)), expected, "{lock:?} {owner:?}");
        }
    }

    #[test]
    fn a_lock_is_renewed_by_its_holder_and_taken_over_when_it_expired() {
        let minute = Some(SignedDuration::from_secs(60));
        let table = [
            (None, "a", minute, Some((10, Some(70)))),
            (None, "a", None, Some((10, None))),
            (Some(lock("a", Some(20))), "a", minute, Some((0, Some(70)))),
            (Some(lock("a", Some(20))), "a", None, Some((0, None))),
            (Some(lock("a", Some(20))), "b", minute, None),
            (Some(lock("a", None)), "b", minute, None),
            (Some(lock("a", Some(10))), "b", minute, Some((10, Some(70)))),
            (Some(lock("a", Some(10))), "a", minute, Some((10, Some(70)))),
            (None, "a", Some(SignedDuration::MAX), Some((10, None))),
        ];
        for (before, owner, lease, expected) in table {
            let expected =
                expected.map(|(since, expires): (i64, Option<i64>)| Lock { since: at(since), ..lock(owner, expires) });
            assert_eq!(granted(before.as_ref(), owner, lease, at(10)), expected, "{before:?} {owner} {lease:?}");
        }
    }
}
