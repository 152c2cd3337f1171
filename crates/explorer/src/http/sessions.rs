//! Followers, and those that went away for a moment: who comes back in time goes on where they were.
//!
//! What a follower was told is a set that only this process has. A stream that breaks leaves it here for a minute; whoever asks
//! again with the id of the last event gets what they missed. Anybody else begins anew, and is told so.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use access::Identity;
use uuid::Uuid;

use crate::index::{Follower, Gone};

/// How long a follower can be away.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// So many events can be told again.
const MOST_SENT: usize = 1000;

/// One follower.
#[derive(Debug)]
pub(super) struct Session {
    id: Uuid,
    owner: Owner,
    pub(super) follower: Follower,
    /// The rows of the last events; the last one has the number before `next`.
    sent: VecDeque<Gone>,
    next: u64,
}

/// Who follows what. Somebody else, or the same person with other groups, does not go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    user: String,
    groups: Vec<String>,
    source: access::Source,
    question: String,
}

impl Owner {
    pub(super) fn new(identity: &Identity, question: &str) -> Owner {
        let Identity { user, groups, source, .. } = identity.clone();
        Owner { user, groups, source, question: question.to_owned() }
    }

    /// The same question of whoever this is.
    pub(super) fn is(&self, identity: &Identity) -> bool {
        *self == Owner::new(identity, &self.question)
    }
}

/// Which event of which follower, as clients send it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    session: Uuid,
    number: u64,
}

impl EventId {
    pub(super) fn read(text: &str) -> Option<EventId> {
        let (session, number) = text.split_once('.')?;
        Some(EventId { session: session.parse().ok()?, number: number.parse().ok()? })
    }

    pub(super) fn text(self) -> String {
        format!("{}.{}", self.session.simple(), self.number)
    }
}

impl Session {
    pub(super) fn new(owner: Owner, follower: Follower) -> Session {
        Session { id: Uuid::new_v4(), owner, follower, sent: VecDeque::new(), next: 0 }
    }

    /// The id of an event that is about a row.
    pub(super) fn about(&mut self, row: Gone) -> EventId {
        if self.sent.len() == MOST_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back(row);
        self.number()
    }

    /// The id of an event that is about no row; nothing before it is told again.
    pub(super) fn about_none(&mut self) -> EventId {
        self.sent.clear();
        self.number()
    }

    fn number(&mut self) -> EventId {
        let number = self.next;
        self.next += 1;
        EventId { session: self.id, number }
    }

    /// The rows of all events after one, each once; `None` if they are no longer known.
    pub(super) fn missed(&self, last: EventId) -> Option<Vec<Gone>> {
        let missed = self.next.checked_sub(last.number)?.checked_sub(1)?;
        let skipped = self.sent.len().checked_sub(usize::try_from(missed).ok()?)?;
        let mut seen = HashSet::new();
        Some(self.sent.iter().skip(skipped).filter(|row| seen.insert(&row.key)).cloned().collect())
    }
}

/// Followers that are away.
#[derive(Debug)]
pub(super) struct Sessions {
    away: Mutex<HashMap<Uuid, (Instant, Session)>>,
    most: usize,
}

impl Sessions {
    pub(super) fn new(most: usize) -> Sessions {
        Sessions { away: Mutex::default(), most }
    }

    /// Keeps a follower for a while; where there are too many, the one that has been away longest goes.
    pub(super) fn keep(&self, session: Session, now: Instant) {
        let mut away = self.away(now);
        away.insert(session.id, (now, session));
        while away.len() > self.most {
            let oldest = away.iter().min_by_key(|(_, (since, _))| *since).map(|(id, _)| *id);
            let Some(oldest) = oldest else { break };
            away.remove(&oldest);
        }
    }

    /// The follower that an event was for, if it is this one's.
    pub(super) fn take(&self, last: EventId, owner: &Owner, now: Instant) -> Option<Session> {
        let mut away = self.away(now);
        let theirs = away.get(&last.session).is_some_and(|(_, session)| session.owner == *owner);
        if theirs { away.remove(&last.session).map(|(_, session)| session) } else { None }
    }

    fn away(&self, now: Instant) -> MutexGuard<'_, HashMap<Uuid, (Instant, Session)>> {
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.retain(|_, (since, _)| now.duration_since(*since) < KEPT_FOR);
        away
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Index, Settings, Visibility};
    use crate::query::Query;
    use crate::row::Key;

    fn owner(user: &str, question: &str) -> Owner {
        let own = str::to_owned;
        Owner { user: own(user), groups: vec![], source: access::Source::TokenReview, question: own(question) }
    }

    fn session(user: &str) -> Session {
        let index = Index::new(Settings::default());
        Session::new(owner(user, ""), index.follow(&Query::default(), &Visibility::default()))
    }

    fn row(name: &str) -> Gone {
        let key = Key::from_id(&format!("c/n/g/v/K/{name}")).unwrap();
        Gone { id: key.id("v"), key }
    }

    #[test]
    fn what_was_sent_after_an_event_is_told_again_once_or_not_at_all() {
        let mut session = session("jane");
        let start = session.about_none();
        let ids: Vec<EventId> = ["a", "b", "a", "c"].iter().map(|name| session.about(row(name))).collect();
        let missed = |last: EventId| -> Option<Vec<String>> {
            Some(session.missed(last)?.into_iter().map(|row| row.key.name).collect())
        };
        assert_eq!(missed(start).unwrap(), ["a", "b", "c"]);
        assert_eq!(missed(ids[1]).unwrap(), ["a", "c"]);
        assert_eq!(missed(ids[3]).unwrap(), [""; 0]);
        assert_eq!(missed(EventId { number: 99, ..start }), None, "from the future");
        for number in 0..MOST_SENT {
            session.about(row(&number.to_string()));
        }
        assert_eq!(session.missed(ids[3]).map(|missed| missed.len()), Some(MOST_SENT));
        assert_eq!(session.missed(ids[2]), None, "too long ago");
    }

    #[test]
    fn only_the_same_follower_goes_on_and_only_for_a_while() {
        let (sessions, now) = (Sessions::new(2), Instant::now());
        let mut jane = session("jane");
        let last = jane.about_none();
        assert_eq!(EventId::read(&last.text()), Some(last));
        assert_eq!(EventId::read("nonsense"), None);
        sessions.keep(jane, now);
        assert!(sessions.take(last, &owner("jim", ""), now).is_none());
        assert!(sessions.take(last, &owner("jane", "kind:Pod"), now).is_none());
        let jane = sessions.take(last, &owner("jane", ""), now).expect("it is hers");
        assert!(sessions.take(last, &owner("jane", ""), now).is_none(), "taken once");
        sessions.keep(jane, now);
        assert!(sessions.take(last, &owner("jane", ""), now + KEPT_FOR).is_none(), "too late");
    }

    #[test]
    fn no_more_are_kept_than_may_follow() {
        let (sessions, now) = (Sessions::new(2), Instant::now());
        let mut ids = Vec::new();
        for second in 0..3 {
            let mut session = session("jane");
            ids.push(session.about_none());
            sessions.keep(session, now + Duration::from_secs(second));
        }
        let later = now + Duration::from_secs(3);
        let kept: Vec<bool> =
            ids.into_iter().map(|id| sessions.take(id, &owner("jane", ""), later).is_some()).collect();
        assert_eq!(kept, [false, true, true]);
    }
}
