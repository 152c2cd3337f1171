//! What is known of a stream's objects, and what each list, event, fetch and acknowledgement means for it. Pure.
//!
//! An object is *live* (handed out, or about to be), *gone* (its deletion was handed out and is not acknowledged) or
//! *unsent* (its deletion must be handed out again). In each of these its key is durable; see [`Ledger::lacks`].
//!
//! Lists and events of one stream are in order by themselves. Only a fetch may run ahead of them: what it told of a key
//! is noted with the resourceVersion of its read, and whatever the stream tells about that key up to there is stale.
//! That comparison needs versions that are numbers, as Kubernetes promises; a fetch without them changes nothing.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use kube::api::DynamicObject;

use crate::event::{Deleted, Key, Uid};

/// An event for the queue; a deletion and the end of a list carry the number that their acknowledgement must name.
#[derive(Debug)]
pub(crate) enum Out {
    Applied(Box<DynamicObject>),
    Deleted(Deleted, u64),
    Absent,
    Synced(u64),
}

/// What a list hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Every object: after a start, or when the consumer dropped something.
    Everything,
    /// What is not as it was last handed out.
    Changes,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    live: HashMap<Key, Live>,
    gone: HashMap<Uid, Gone>,
    unsent: HashMap<Key, Vec<Uid>>,
    /// What a fetch told, by the version of its read; only while that is newer than the stream.
    ahead: HashMap<Key, u64>,
    /// Up to where the stream has told everything.
    position: Option<String>,
    round: u64,
    pass: Option<Pass>,
    sequence: u64,
    stale: u64,
}

#[derive(Debug)]
struct Live {
    uid: Uid,
    /// `None` until it was handed out by this ledger.
    version: Option<String>,
    /// Of the last list that had it, or after which the watch told of it.
    round: u64,
}

#[derive(Debug)]
struct Gone {
    key: Key,
    sequence: u64,
}

/// Where something was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    List,
    Watch,
    Fetch,
}

impl Ledger {
    /// What the durable set holds from an earlier life. Of several uids under one name at most one can still be there.
    pub(crate) fn inherit(keys: Vec<(Key, Uid)>) -> Ledger {
        let mut ledger = Ledger::default();
        for (key, uid) in keys {
            match ledger.live.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(Live { uid, version: None, round: 0 });
                }
                Entry::Occupied(entry) => ledger.unsent.entry(entry.key().clone()).or_default().push(uid),
            }
        }
        ledger
    }

    /// Where to watch from; `None` before the first complete list.
    pub(crate) fn position(&self) -> Option<&str> {
        self.position.as_deref()
    }

    /// How many events were left out because a fetch had told more.
    pub(crate) fn stale(&self) -> u64 {
        self.stale
    }

    /// Whether the object's key must become durable before it can be handed out.
    pub(crate) fn lacks(&self, key: &Key, uid: &Uid) -> bool {
        self.live.get(key).is_none_or(|live| live.uid != *uid)
            && !self.gone.contains_key(uid)
            && !self.unsent.get(key).is_some_and(|unsent| unsent.contains(uid))
    }

    /// Whether a read of the version `of` tells more of this key than the stream has; not when nobody can say.
    pub(crate) fn is_news(&self, key: &Key, of: &str) -> bool {
        let Some(of) = number(of) else { return false };
        let told = [self.position.as_deref().and_then(number), self.ahead.get(key).copied()];
        // Before the first list the stream has told nothing; a position that is no number cannot be compared.
        let comparable = self.position.is_none() || told[0].is_some();
        comparable && told.into_iter().flatten().all(|told| of > told)
    }

    /// Whether a fetch told more of this object's key than a list of the version `of` can.
    pub(crate) fn overtakes_list(&self, object: &DynamicObject, of: &str) -> bool {
        self.is_ahead(&Key::of(object), of)
    }

    /// Whether a fetch told at least as much of this object's key as the watch does with it.
    pub(crate) fn overtakes_watch(&self, object: &DynamicObject) -> bool {
        match (self.ahead.get(&Key::of(object)), number(&version_of(object))) {
            (Some(&ahead), Some(version)) => version <= ahead,
            _ => false,
        }
    }

    /// A list begins. Whatever a fetch told before is part of it.
    pub(crate) fn begin(&mut self, pass: Pass) {
        self.round += 1;
        self.pass = Some(pass);
        self.ahead.clear();
    }

    /// An object of the list that is under way, which is of the version `of`.
    pub(crate) fn listed(&mut self, object: Box<DynamicObject>, of: &str) -> Vec<Out> {
        if self.overtakes_list(&object, of) {
            self.stale += 1;
            return Vec::new();
        }
        self.apply(Key::of(&object), object, Origin::List)
    }

    /// The list of the version `of` is complete: what it lacks is gone.
    pub(crate) fn end(&mut self, of: &str) -> Vec<Out> {
        let missing =
            |(key, live): (&Key, &Live)| (live.round != self.round && !self.is_ahead(key, of)).then(|| key.clone());
        let missing: Vec<Key> = self.live.iter().filter_map(missing).collect();
        let mut out: Vec<Out> = missing.iter().filter_map(|key| self.delete(key, None)).collect();
        out.extend(self.send_all_unsent());
        self.reach(of);
        self.pass = None;
        out.push(Out::Synced(self.next_sequence()));
        out
    }

    /// The watch told that an object is there.
    pub(crate) fn applied(&mut self, object: Box<DynamicObject>) -> Vec<Out> {
        let version = version_of(&object);
        let out = if self.is_stale(&object) { Vec::new() } else { self.apply(Key::of(&object), object, Origin::Watch) };
        self.reach(&version);
        out
    }

    /// The watch told that an object is gone.
    pub(crate) fn deleted(&mut self, object: Box<DynamicObject>) -> Vec<Out> {
        let (key, uid, version) = (Key::of(&object), Uid::of(&object), version_of(&object));
        let mut out = Vec::new();
        // A late word about an older incarnation says nothing about the one that is there.
        if !self.is_stale(&object) && self.live.get(&key).is_some_and(|live| live.uid == uid) {
            out.extend(self.delete(&key, Some(object)));
        }
        self.reach(&version);
        out
    }

    /// The watch told of an object that the filter does not take.
    pub(crate) fn left(&mut self, object: Box<DynamicObject>) -> Vec<Out> {
        let (key, uid, version) = (Key::of(&object), Uid::of(&object), version_of(&object));
        let mut out = Vec::new();
        if !self.is_stale(&object) {
            let last = self.live.get(&key).is_some_and(|live| live.uid == uid).then_some(object);
            out.extend(self.delete(&key, last));
        }
        self.reach(&version);
        out
    }

    /// The watch told that nothing else happened up to this version.
    pub(crate) fn bookmark(&mut self, version: &str) {
        self.reach(version);
    }

    /// A read of the version `of` found the object.
    pub(crate) fn fetched(&mut self, object: Box<DynamicObject>, of: &str) -> Vec<Out> {
        let key = Key::of(&object);
        if !self.runs_ahead(&key, of) {
            return Vec::new();
        }
        let known = self.live.get(&key).filter(|live| live.uid == Uid::of(&object));
        if known.is_some_and(|live| live.version.as_deref() == Some(&version_of(&object))) {
            return Vec::new();
        }
        self.apply(key, object, Origin::Fetch)
    }

    /// A read of the version `of` did not find the object, or one that the filter does not take.
    pub(crate) fn missed(&mut self, key: &Key, of: &str, last: Option<Box<DynamicObject>>) -> Vec<Out> {
        let mut out = Vec::new();
        if self.runs_ahead(key, of) {
            let last = last.filter(|last| self.live.get(key).is_some_and(|live| live.uid == Uid::of(last)));
            out.extend(self.delete(key, last));
            out.extend(self.send_unsent(key));
        }
        // Whoever asked for an object that the stream does not know either has a row to lose.
        if out.is_empty() && !self.has(key) {
            let deleted = Deleted { key: key.clone(), uid: None, last: None };
            out.push(Out::Deleted(deleted, self.next_sequence()));
        }
        out
    }

    /// Whether the stream knows the object as there.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.live.contains_key(key)
    }

    /// The cluster does not serve the kind: nothing of it is there.
    pub(crate) fn absent(&mut self) -> Vec<Out> {
        let keys: Vec<Key> = self.live.keys().cloned().collect();
        let mut out = vec![Out::Absent];
        out.extend(keys.iter().filter_map(|key| self.delete(key, None)));
        out.extend(self.send_all_unsent());
        self.ahead.clear();
        self.position = None;
        self.pass = None;
        out
    }

    /// The consumer is done with a deletion; tells whether its key may go. An object that came back since keeps it.
    pub(crate) fn acknowledged(&mut self, uid: &Uid, sequence: u64) -> bool {
        let fits = self.gone.get(uid).is_some_and(|gone| gone.sequence == sequence);
        fits && self.gone.remove(uid).is_some()
    }

    /// The consumer dropped a deletion: it comes again with the next list.
    pub(crate) fn dropped(&mut self, uid: &Uid, sequence: u64) {
        if self.gone.get(uid).is_some_and(|gone| gone.sequence == sequence)
            && let Some(gone) = self.gone.remove(uid)
        {
            self.unsent.entry(gone.key).or_default().push(uid.clone());
        }
    }

    fn apply(&mut self, key: Key, object: Box<DynamicObject>, origin: Origin) -> Vec<Out> {
        let (uid, version) = (Uid::of(&object), version_of(&object));
        let mut out = Vec::new();
        let same = self.live.get(&key).filter(|live| live.uid == uid);
        let unchanged = same.is_some_and(|live| live.version.as_ref() == Some(&version));
        let round = match origin {
            // Whether the list that is under way has it is for the list to say.
            Origin::Fetch => same.map_or(0, |live| live.round),
            Origin::List | Origin::Watch => self.round,
        };
        if same.is_none() {
            // The name was made again: its older owner goes first, so that order alone is enough for the consumer.
            out.extend(self.delete(&key, None));
        }
        if let Some(unsent) = self.unsent.get_mut(&key) {
            unsent.retain(|unsent| *unsent != uid);
            out.extend(self.send_unsent(&key));
        }
        self.gone.remove(&uid);
        self.live.insert(key, Live { uid, version: Some(version), round });
        if !(unchanged && origin == Origin::List && self.pass == Some(Pass::Changes)) {
            out.push(Out::Applied(object));
        }
        out
    }

    fn delete(&mut self, key: &Key, last: Option<Box<DynamicObject>>) -> Option<Out> {
        let live = self.live.remove(key)?;
        Some(self.send_deletion(key.clone(), live.uid, last))
    }

    fn send_unsent(&mut self, key: &Key) -> Vec<Out> {
        let uids = self.unsent.remove(key).unwrap_or_default();
        uids.into_iter().map(|uid| self.send_deletion(key.clone(), uid, None)).collect()
    }

    fn send_all_unsent(&mut self) -> Vec<Out> {
        let keys: Vec<Key> = self.unsent.keys().cloned().collect();
        keys.iter().flat_map(|key| self.send_unsent(key)).collect()
    }

    fn send_deletion(&mut self, key: Key, uid: Uid, last: Option<Box<DynamicObject>>) -> Out {
        let sequence = self.next_sequence();
        self.gone.insert(uid.clone(), Gone { key: key.clone(), sequence });
        Out::Deleted(Deleted { key, uid: Some(uid), last }, sequence)
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Notes that a fetch told of this key, unless it is no news.
    fn runs_ahead(&mut self, key: &Key, of: &str) -> bool {
        let news = self.is_news(key, of);
        if let (true, Some(of)) = (news, number(of)) {
            self.ahead.insert(key.clone(), of);
        }
        news
    }

    /// Whether a fetch told more of this key than a list or an event of that version can.
    fn is_ahead(&self, key: &Key, of: &str) -> bool {
        match (self.ahead.get(key), number(of)) {
            (Some(&ahead), Some(of)) => ahead > of,
            _ => false,
        }
    }

    fn is_stale(&mut self, object: &DynamicObject) -> bool {
        let stale = self.overtakes_watch(object);
        self.stale += u64::from(stale);
        stale
    }

    fn reach(&mut self, version: &str) {
        self.position = Some(version.to_owned());
        if !self.ahead.is_empty()
            && let Some(version) = number(version)
        {
            self.ahead.retain(|_key, ahead| *ahead > version);
        }
    }
}

fn version_of(object: &DynamicObject) -> String {
    object.metadata.resource_version.clone().unwrap_or_default()
}

fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}
