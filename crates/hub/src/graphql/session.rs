//! What the resolvers of one request, or of one event, share: the guard, what is being read for all of them at once, and
//! how much they may still read.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_graphql::dataloader::{DataLoader, HashMapCache, Loader};
use async_graphql::{Error, ErrorExtensions as _};

use super::Settings;
use super::loads::Loads;
use super::scalars::Any;
use crate::VersionId;
use crate::guard::{Failure, Guard};
use crate::model::{Lock, Record, Version};
use crate::store::Direction;

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Session(Arc<Inner>);

struct Inner {
    guard: Guard,
    reader: DataLoader<Reader, HashMapCache>,
    left: Arc<Left>,
    settings: Settings,
    loads: Loads,
}

/// What the answer may still have.
struct Left {
    records: AtomicUsize,
    bytes: AtomicUsize,
}

impl Session {
    pub(super) fn new(guard: Guard, settings: Settings, loads: &Loads) -> Session {
        let (records, bytes) = (settings.answer_records.into(), settings.answer_bytes.into());
        Session::within(guard, settings, Arc::new(Left { records, bytes }), loads)
    }

    fn within(guard: Guard, settings: Settings, left: Arc<Left>, loads: &Loads) -> Session {
        let begin = {
            let loads = loads.clone();
            move |load| loads.add(load)
        };
        let reader = DataLoader::with_cache(Reader(guard.clone()), begin, HashMapCache::default());
        let reader = reader.delay(Duration::ZERO);
        Session(Arc::new(Inner { guard, reader, left, settings, loads: loads.clone() }))
    }

    /// For another guard, in the same request.
    pub(super) fn with(&self, guard: Guard) -> Session {
        Session::new(guard, self.0.settings, &self.0.loads)
    }

    /// For what is shown of a change: nothing of it is what was read before, for another change of the same request.
    pub(super) fn anew(&self) -> Session {
        let Inner { guard, left, settings, loads, .. } = &*self.0;
        Session::within(guard.clone(), *settings, Arc::clone(left), loads)
    }

    pub(super) fn guard(&self) -> &Guard {
        &self.0.guard
    }

    /// Counts records that go into the answer: relations of relations could make any number of them.
    pub(super) fn spend(&self, records: usize) -> Result<(), Error> {
        let Inner { left, settings, .. } = &*self.0;
        take(&left.records, records, settings.answer_records, "TypeInstances", "answer_records")
    }

    /// Counts a value or a context that goes into the answer: a small document can ask for a large one any number of times.
    pub(super) fn shown(&self, document: Option<Document>) -> Result<Option<Any>, Error> {
        let shown = document.and_then(Result::ok);
        if let Some(Any(json)) = &shown {
            let Inner { left, settings, .. } = &*self.0;
            let what = "bytes of values and contexts";
            take(&left.bytes, json.text().len(), settings.answer_bytes, what, "answer_bytes")?;
        }
        Ok(shown)
    }

    pub(super) async fn version(&self, id: VersionId) -> Result<Option<Version>, Error> {
        self.0.reader.load_one(id).await
    }

    pub(super) async fn versions(&self, record: &str) -> Result<Arc<[Version]>, Error> {
        Ok(self.0.reader.load_one(AllVersions(record.to_owned())).await?.unwrap_or_default())
    }

    /// The value of a version, or why it cannot be had.
    pub(super) async fn value(&self, record: &Arc<Record>, number: u32) -> Result<Option<Document>, Error> {
        self.0.reader.load_one(ValueOf(Versioned { record: record.clone(), number })).await
    }

    pub(super) async fn context(&self, record: &Arc<Record>, number: u32) -> Result<Option<Document>, Error> {
        self.0.reader.load_one(ContextOf(Versioned { record: record.clone(), number })).await
    }

    pub(super) async fn held(&self, record: &Arc<Record>) -> Result<Option<Held>, Error> {
        self.0.reader.load_one(HolderOf(Versioned { record: record.clone(), number: 0 })).await
    }

    pub(super) async fn related(
        &self,
        record: &str,
        direction: Direction,
        first: Option<usize>,
    ) -> Result<Arc<[Arc<Record>]>, Error> {
        let key = RelatedTo { record: record.to_owned(), direction, first };
        Ok(self.0.reader.load_one(key).await?.unwrap_or_default())
    }
}

fn take(left: &AtomicUsize, count: usize, most: usize, what: &str, setting: &str) -> Result<(), Error> {
    let less = |left: usize| left.checked_sub(count);
    if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
        return Ok(());
    }
    let text =
        format!("the answer would have more than {most} {what} (the setting hub.{setting}); ask for less at once");
    Err(Error::new(text).extend_with(|_, extensions| extensions.set("code", "TOO_LARGE")))
}

/// A failure as the answer tells it.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
pub(super) fn told(failure: Failure) -> Error {
    failure.log();
    Error::new(failure.message()).extend_with(|_, extensions| extensions.set("code", failure.code()))
}

/// A value or a context, or why there is none.
pub(super) type Document = Result<Any, String>;

/// Who holds a record.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) hub: Option<Lock>,
    /// What its backend says, or why it says nothing.
    pub(super) backend: Result<Option<String>, String>,
}

struct Reader(Guard);

/// A version of a record, known by the id and the number.
#[derive(Clone)]
struct Versioned {
    record: Arc<Record>,
    number: u32,
}

impl Versioned {
    fn id(&self) -> VersionId {
        VersionId { record: self.record.id.clone(), number: self.number }
    }
}

impl PartialEq for Versioned {
    fn eq(&self, other: &Versioned) -> bool {
        self.number == other.number && self.record.id == other.record.id
    }
}

impl Eq for Versioned {}

impl Hash for Versioned {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.record.id.hash(hasher);
        self.number.hash(hasher);
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct ValueOf(Versioned);
#[derive(Clone, PartialEq, Eq, Hash)]
struct ContextOf(Versioned);
#[derive(Clone, PartialEq, Eq, Hash)]
struct HolderOf(Versioned);
#[derive(Clone, PartialEq, Eq, Hash)]
struct AllVersions(String);
#[derive(Clone, PartialEq, Eq, Hash)]
struct RelatedTo {
    record: String,
    direction: Direction,
    first: Option<usize>,
}

impl Loader<VersionId> for Reader {
    type Value = Version;
    type Error = Error;

    async fn load(&self, wanted: &[VersionId]) -> Result<HashMap<VersionId, Version>, Error> {
        self.0.hub().versions_named(wanted).await.map_err(|error| told(error.into()))
    }
}

/// Lists are shared: whoever asked for one gets it before it is counted, and very many may have.
impl Loader<AllVersions> for Reader {
    type Value = Arc<[Version]>;
    type Error = Error;

    async fn load(&self, wanted: &[AllVersions]) -> Result<HashMap<AllVersions, Arc<[Version]>>, Error> {
        let ids: Vec<String> = wanted.iter().map(|AllVersions(id)| id.clone()).collect();
        let versions = self.0.hub().versions_of(&ids).await.map_err(|error| told(error.into()))?;
        Ok(versions.into_iter().map(|(id, versions)| (AllVersions(id), versions.into())).collect())
    }
}

impl Loader<ValueOf> for Reader {
    type Value = Document;
    type Error = Error;

    async fn load(&self, wanted: &[ValueOf]) -> Result<HashMap<ValueOf, Document>, Error> {
        let asked: Vec<(Record, u32)> = wanted.iter().map(|ValueOf(key)| ((*key.record).clone(), key.number)).collect();
        let mut found = self.0.values(&asked).await.map_err(told)?;
        let found = wanted.iter().filter_map(|key| Some((key.clone(), document(found.remove(&key.0.id())?))));
        Ok(found.collect())
    }
}

impl Loader<ContextOf> for Reader {
    type Value = Document;
    type Error = Error;

    async fn load(&self, wanted: &[ContextOf]) -> Result<HashMap<ContextOf, Document>, Error> {
        let asked: Vec<(Record, u32)> =
            wanted.iter().map(|ContextOf(key)| ((*key.record).clone(), key.number)).collect();
        let mut found = self.0.contexts(&asked).await.map_err(told)?;
        let found = wanted.iter().filter_map(|key| Some((key.clone(), document(found.remove(&key.0.id())?))));
        Ok(found.collect())
    }
}

impl Loader<HolderOf> for Reader {
    type Value = Held;
    type Error = Error;

    async fn load(&self, wanted: &[HolderOf]) -> Result<HashMap<HolderOf, Held>, Error> {
        let records: Vec<Record> = wanted.iter().map(|HolderOf(key)| (*key.record).clone()).collect();
        let mut found = self.0.locked_by(&records).await.map_err(told)?;
        let found = wanted.iter().filter_map(|key| {
            let locked = found.remove(&key.0.record.id)?;
            let backend = locked.backend.map_err(|error| Failure::told(&error));
            Some((key.clone(), Held { hub: locked.hub, backend }))
        });
        Ok(found.collect())
    }
}

impl Loader<RelatedTo> for Reader {
    type Value = Arc<[Arc<Record>]>;
    type Error = Error;

    async fn load(&self, wanted: &[RelatedTo]) -> Result<HashMap<RelatedTo, Arc<[Arc<Record>]>>, Error> {
        let mut alike: HashMap<(Direction, Option<usize>), Vec<String>> = HashMap::new();
        for RelatedTo { record, direction, first } in wanted {
            alike.entry((*direction, *first)).or_default().push(record.clone());
        }
        let mut found = HashMap::new();
        for ((direction, first), ids) in alike {
            let related = self.0.related(&ids, direction, first).await.map_err(told)?;
            found.extend(related.into_iter().map(|(record, records)| {
                (RelatedTo { record, direction, first }, records.into_iter().map(Arc::new).collect())
            }));
        }
        Ok(found)
    }
}

fn document(found: Result<crate::Json, Failure>) -> Document {
    found.map(Any).map_err(|failure| {
        failure.log();
        failure.message()
    })
}
