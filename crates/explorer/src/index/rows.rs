//! The index itself: rows come in, change and go, in every structure at once.

use std::collections::{BTreeSet, HashMap};

use hashbrown::HashTable;
use roaring::RoaringBitmap;

use super::changes::{Changes, Entry, Feed, Position};
use super::dictionary::{Counted, Hashes, spread};
use super::labels::Labels;
use super::names::Names;
use super::namespaces::Namespace;
use super::posting::bitmap_bytes;
use super::prepare::{Prepared, Preparer};
use super::scopes::Scopes;
use super::settings::{Settings, Sizes};
use super::terms::{Held, Taken, Terms};
use super::visibility::Visibility;
use crate::row::{Key, Row};
use crate::status::Status;

/// The number of a row, until it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// Rows in memory.
#[derive(Debug)]
pub struct Index {
    pub(super) settings: Settings,
    pub(super) hashes: Hashes,
    lookup: HashTable<u32>,
    pub(super) live: RoaringBitmap,
    free: Vec<u32>,

    /// Columns, by slot: numbers of texts or of scopes.
    pub(super) scope: Vec<u32>,
    pub(super) name: Vec<u32>,
    pub(super) message: Vec<u32>,
    pub(super) created: Vec<i64>,
    pub(super) status: Vec<Status>,
    pub(super) records: Vec<Record>,

    pub(super) scopes: Scopes,
    pub(super) names: Names,
    pub(super) messages: Counted,
    pub(super) labels: Labels,
    pub(super) terms: Terms,
    pub(super) by_status: [RoaringBitmap; Status::ALL.len()],
    pub(super) terminating: RoaringBitmap,
    pub(super) deleted: RoaringBitmap,
    /// Rows that have words for which there was no room.
    pub(super) incomplete: RoaringBitmap,

    /// Rows of objects that are gone, by when they went.
    pub(super) expiring: BTreeSet<(i64, u32)>,
    /// Since when rows may be out of date: by cluster, or by kind in it.
    pub(super) stale: HashMap<(String, Option<(String, String)>), i64>,
    /// Rows of objects that are gone of whose namespaces nothing is known yet.
    pub(super) doubtful: RoaringBitmap,
    /// By cluster and name: those that are there, and those that are gone and have not come again.
    pub(super) namespaces: HashMap<(String, String), Namespace>,
    pub(super) feed: Feed,
}

/// What is known of a row and not looked at by all rows together.
#[derive(Clone, Debug)]
pub(super) struct Record {
    hash: u32,
    pub(super) version: u32,
    pub(super) uid: Uid,
    pub(super) labels: Box<[u32]>,
    pub(super) held: Held,
    pub(super) deleted_at: Option<i64>,
}

/// Most uids are numbers in disguise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Uid {
    Number(uuid::Bytes),
    Text(Box<str>),
}

impl Uid {
    pub(super) fn new(text: &str) -> Uid {
        match uuid::Uuid::try_parse(text) {
            // Only if it comes back as it was.
            Ok(uid) if uid.hyphenated().to_string() == text => Uid::Number(uid.into_bytes()),
            _ => Uid::Text(text.into()),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Uid::Number(bytes) => uuid::Uuid::from_bytes(*bytes).hyphenated().to_string(),
            Uid::Text(text) => text.to_string(),
        }
    }
}

/// How a row without a time of creation is sorted.
pub(super) const NO_TIME: i64 = i64::MIN;

impl Index {
    pub fn new(settings: Settings) -> Index {
        Index {
            hashes: Hashes::default(),
            lookup: HashTable::new(),
            live: RoaringBitmap::new(),
            free: Vec::new(),
            scope: Vec::new(),
            name: Vec::new(),
            message: Vec::new(),
            created: Vec::new(),
            status: Vec::new(),
            records: Vec::new(),
            scopes: Scopes::default(),
            names: Names::default(),
            messages: Counted::default(),
            labels: Labels::default(),
            terms: Terms::new(settings.words),
            by_status: Default::default(),
            terminating: RoaringBitmap::new(),
            deleted: RoaringBitmap::new(),
            incomplete: RoaringBitmap::new(),
            expiring: BTreeSet::new(),
            stale: HashMap::new(),
            doubtful: RoaringBitmap::new(),
            namespaces: HashMap::new(),
            feed: Feed::new(settings.changes),
            settings,
        }
    }

    /// What prepares rows for this index.
    pub fn preparer(&self) -> Preparer {
        Preparer::new(self.hashes.clone())
    }

    pub fn len(&self) -> usize {
        usize::try_from(self.live.len()).unwrap_or(usize::MAX)
    }

    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Takes a row in, in the place of what was there under its key.
    pub fn upsert(&mut self, prepared: &Prepared) -> Slot {
        let slot = match self.find(&prepared.row.key) {
            Some(slot) => {
                self.change(slot.0, prepared);
                slot
            }
            None => self.insert(prepared, None),
        };
        self.tell(slot, &prepared.row, false);
        slot
    }

    /// Takes a row in that has a slot already, from the copy on disk; it must be free.
    pub(crate) fn restore(&mut self, prepared: &Prepared, slot: Slot) {
        debug_assert!(!self.live.contains(slot.0));
        if self.find(&prepared.row.key).is_none() {
            self.insert(prepared, Some(slot.0));
        }
    }

    /// After the last `restore`: slots that were skipped can be given.
    pub(crate) fn restored(&mut self) {
        let end = u32::try_from(self.records.len()).expect("rows are numbered by u32");
        self.free = (0..end).rev().filter(|slot| !self.live.contains(*slot)).collect();
    }

    pub fn find(&self, key: &Key) -> Option<Slot> {
        let hash = self.key_hash(key);
        let is_it = |slot: &u32| self.records[*slot as usize].hash == hash && self.is_at(*slot, key);
        self.lookup.find(spread(hash), is_it).copied().map(Slot)
    }

    /// What changed after a position, as far as somebody sees it.
    pub fn changes(&self, since: Position, visibility: &Visibility) -> Changes {
        self.feed.since(since, visibility)
    }

    pub fn position(&self) -> Position {
        self.feed.position()
    }

    pub fn sizes(&self) -> Sizes {
        let terms = self.terms.sizes();
        let (names, scopes, labels) = (self.names.bytes(), self.scopes.bytes(), self.labels.bytes());
        let held = |record: &Record| record.held.bytes() + record.labels.len() * 4 + 16;
        let held: usize = self.live.iter().map(|slot| held(&self.records[slot as usize])).sum();
        let bitmaps = self.by_status.iter().chain([&self.live, &self.terminating, &self.deleted, &self.incomplete]);
        let columns = self.scope.capacity() * 4
            + self.name.capacity() * 4
            + self.message.capacity() * 4
            + self.created.capacity() * 8
            + self.status.capacity()
            + self.records.capacity() * size_of::<Record>()
            + self.lookup.allocation_size();
        Sizes {
            rows: self.len(),
            words: terms.words,
            fields: terms.fields,
            dictionary_bytes: terms.dictionary + names.0 + scopes.0 + labels.0 + self.messages.bytes(),
            posting_bytes: terms.postings + names.1 + scopes.1 + labels.1 + bitmaps.map(bitmap_bytes).sum::<usize>(),
            row_bytes: columns + held + self.feed.bytes(),
        }
    }

    /// A row without its body.
    pub fn row(&self, slot: Slot) -> Row {
        let at = slot.0 as usize;
        let (record, (scope, family)) = (&self.records[at], self.scopes.at(self.scope[at]));
        let label = |pair: &u32| {
            let (key, value) = self.labels.pair(*pair);
            (key.to_owned(), value.to_owned())
        };
        let text = |id: u32| self.scopes.text(id).to_owned();
        let mut labels: Vec<_> = record.labels.iter().map(label).collect();
        labels.sort_unstable();
        Row {
            key: self.key(slot),
            version: text(record.version),
            resource: text(family.resource),
            uid: record.uid.text(),
            status: self.status[at],
            message: self.messages.texts.text(self.message[at]).to_owned(),
            category: text(family.category),
            labels,
            created: Some(self.created[at]).filter(|created| *created != NO_TIME),
            deleted_at: record.deleted_at,
            terminating: self.terminating.contains(slot.0),
            orphaned: scope.key.orphaned,
            body: String::new(),
        }
    }

    pub(super) fn key(&self, slot: Slot) -> Key {
        let (scope, family) = self.scopes.at(self.scope[slot.0 as usize]);
        let text = |id: u32| self.scopes.text(id).to_owned();
        Key {
            cluster: text(family.cluster),
            namespace: text(scope.key.namespace),
            group: text(family.group),
            kind: text(family.kind),
            name: self.names.texts.text(self.name[slot.0 as usize]).to_owned(),
        }
    }

    /// Since when a row may be out of date.
    pub(super) fn stale_since(&self, key: &Key) -> Option<i64> {
        if self.stale.is_empty() {
            return None;
        }
        let of = |kind: Option<(String, String)>| self.stale.get(&(key.cluster.clone(), kind)).copied();
        let kind = Some((key.group.clone(), key.kind.clone()));
        [of(None), of(kind)].into_iter().flatten().min()
    }

    pub(super) fn is_stale(&self, cluster: &str, group: &str, kind: &str) -> bool {
        let of = |kind| self.stale.contains_key(&(cluster.to_owned(), kind));
        !self.stale.is_empty() && (of(None) || of(Some((group.to_owned(), kind.to_owned()))))
    }

    pub(super) fn slots(&self) -> usize {
        self.records.len()
    }

    pub(super) fn free_slots(&self) -> &[u32] {
        &self.free
    }

    fn insert(&mut self, prepared: &Prepared, wanted: Option<u32>) -> Slot {
        let row = &prepared.row;
        let slot = match wanted.or_else(|| self.free.pop()) {
            Some(slot) => slot,
            None => u32::try_from(self.records.len()).expect("fewer than 4 billion rows"),
        };
        let (at, hash) = (slot as usize, self.key_hash(&row.key));
        if self.records.len() <= at {
            self.scope.resize(at + 1, 0);
            self.name.resize(at + 1, 0);
            self.message.resize(at + 1, 0);
            self.created.resize(at + 1, 0);
            self.status.resize(at + 1, Status::None);
            self.records.resize(at + 1, Record::empty());
        }
        self.live.insert(slot);
        self.scope[at] = self.scopes.insert(&self.hashes, row, slot);
        self.name[at] = self.names.insert(&self.hashes, &row.key.name, slot);
        self.message[at] = self.messages.take(&self.hashes, &row.message);
        let version = self.scopes.texts.take(&self.hashes, &row.version);
        self.records[at] = Record { hash, version, ..Record::empty() };
        self.status[at] = Status::None;
        self.by_status[Status::None as usize].insert(slot);
        let records = &self.records;
        self.lookup.insert_unique(spread(hash), slot, |slot| spread(records[*slot as usize].hash));
        self.fill(slot, prepared);
        Slot(slot)
    }

    fn change(&mut self, slot: u32, prepared: &Prepared) {
        let (row, at) = (&prepared.row, slot as usize);
        self.move_to(slot, row);
        if self.messages.texts.text(self.message[at]) != row.message {
            let before = std::mem::replace(&mut self.message[at], self.messages.take(&self.hashes, &row.message));
            self.messages.release(before);
        }
        if self.scopes.text(self.records[at].version) != row.version {
            let now = self.scopes.texts.take(&self.hashes, &row.version);
            let before = std::mem::replace(&mut self.records[at].version, now);
            self.scopes.texts.release(before);
        }
        self.fill(slot, prepared);
    }

    /// What is the same for rows that are new and rows that change.
    fn fill(&mut self, slot: u32, prepared: &Prepared) {
        let (row, at) = (&prepared.row, slot as usize);
        let record = &mut self.records[at];
        if self.status[at] != row.status {
            self.by_status[self.status[at] as usize].remove(slot);
            self.status[at] = row.status;
            self.by_status[row.status as usize].insert(slot);
        }
        if let Some(before) = std::mem::replace(&mut record.deleted_at, row.deleted_at) {
            self.expiring.remove(&(before, slot));
        }
        if let Some(at) = row.deleted_at {
            self.expiring.insert((at, slot));
        }
        record.uid = Uid::new(&row.uid);
        self.labels.update(&self.hashes, slot, &mut record.labels, &row.labels);
        let taken = self.terms.update(slot, &mut record.held, prepared);
        set(&mut self.incomplete, slot, taken == Taken::Partly);
        set(&mut self.terminating, slot, row.terminating);
        set(&mut self.deleted, slot, row.deleted_at.is_some());
        self.doubtful.remove(slot);
        self.created[at] = row.created.unwrap_or(NO_TIME);
    }

    /// Takes a row out of everything.
    pub(super) fn remove(&mut self, slot: u32) {
        let (row, at) = (self.row(Slot(slot)), slot as usize);
        let record = std::mem::replace(&mut self.records[at], Record::empty());
        if let Ok(found) = self.lookup.find_entry(spread(record.hash), |other| *other == slot) {
            found.remove();
        }
        self.terms.remove(slot, &record.held);
        self.labels.update(&self.hashes, slot, &mut record.labels.clone(), &[]);
        self.by_status[self.status[at] as usize].remove(slot);
        for set in [&mut self.terminating, &mut self.deleted, &mut self.doubtful, &mut self.incomplete, &mut self.live]
        {
            set.remove(slot);
        }
        if let Some(at) = record.deleted_at {
            self.expiring.remove(&(at, slot));
        }
        self.messages.release(self.message[at]);
        self.names.remove(self.name[at], slot);
        self.scopes.remove(self.scope[at], slot);
        self.scopes.texts.release(record.version);
        self.free.push(slot);
        self.tell(Slot(slot), &row, true);
    }

    pub(super) fn move_to(&mut self, slot: u32, row: &Row) {
        let at = slot as usize;
        self.scope[at] = self.scopes.change(&self.hashes, self.scope[at], row, slot);
    }

    pub(super) fn tell(&mut self, slot: Slot, row: &Row, gone: bool) {
        self.feed.push(Entry {
            slot: slot.0,
            key: row.key.clone(),
            version: row.version.clone(),
            resource: row.resource.clone(),
            orphaned: row.orphaned,
            gone,
        });
    }

    fn is_at(&self, slot: u32, key: &Key) -> bool {
        let (scope, family) = self.scopes.at(self.scope[slot as usize]);
        let text = |id: u32| self.scopes.text(id);
        self.names.texts.text(self.name[slot as usize]) == key.name
            && text(scope.key.namespace) == key.namespace
            && text(family.kind) == key.kind
            && text(family.cluster) == key.cluster
            && text(family.group) == key.group
    }

    #[expect(clippy::cast_possible_truncation, reason = "half of it is enough beside the key itself")]
    fn key_hash(&self, key: &Key) -> u32 {
        self.hashes.of((&key.name, &key.namespace, &key.cluster, &key.kind, &key.group)) as u32
    }
}

impl Record {
    /// Of a slot that has no row, or not yet.
    fn empty() -> Record {
        Record {
            hash: 0,
            version: 0,
            uid: Uid::Number([0; 16]),
            labels: Box::default(),
            held: Held::default(),
            deleted_at: None,
        }
    }
}

fn set(bitmap: &mut RoaringBitmap, slot: u32, is_in: bool) {
    if is_in {
        bitmap.insert(slot);
    } else {
        bitmap.remove(slot);
    }
}
