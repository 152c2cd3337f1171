//! S3: one object per head, swapped by conditional puts, and one per chunk.
//!
//! The revision of a head is its ETag. No two heads have equal bytes, so that no two have equal ETags, also where those
//! are plain hashes. A conditional put is sent once (see [`connect`]); a lost answer is [`StoreError::Unknown`], and the
//! engine reads back. The door is [`S3Store::open`], which refuses a bucket that ignores conditions (see [`probe`]).

mod call;
mod connect;
mod identity;
mod layout;
mod probe;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use jiff::Timestamp;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion};
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::{
    Answer, ChunkId, Expect, Found, Limits, Resource, Revision, STATES, Store, StoreError, Stray, Swapped, head_text,
    parse_head,
};
use crate::head::Head;
use crate::key::Key;

pub use connect::{Addressing, S3Settings, Transport};
pub use identity::{AccessKey, Identity};
use layout::Layout;

/// A bucket as a store.
pub struct S3Store {
    bucket: AmazonS3,
    name: String,
    layout: Layout,
    deadline: Duration,
    marked: Marked,
}

/// Why a bucket is not taken as a store.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error("the settings s3.* cannot be used: {0}")]
    Settings(String),
    #[error(
        "failed to try the bucket '{bucket}': {reason}; check s3.bucket, s3.endpoint, s3.region and the keys or s3.identity, and that \
         they may read, write, list and delete"
    )]
    Unreachable { bucket: String, reason: StoreError },
    #[error(
        "the bucket '{bucket}' ignores conditions: of {rivals} concurrent puts with {header} {winners} won in place of \
         one, so that two clients could hold one lock; use a server with conditional writes, such as that of AWS, or \
         take s3 out of states.routes"
    )]
    Conditions { bucket: String, header: &'static str, winners: usize, rivals: usize },
}

/// A removed head: a UUID in place of a document, because S3 knows no conditional delete that all servers have. Every
/// head is longer, so that a listing tells the two apart.
const GRAVESTONE: u64 = 36;
/// A chunk has more bytes to carry than a head.
const CHUNK_DEADLINES: u32 = 6;

impl S3Store {
    /// Finds out whether the bucket can be a store, too.
    pub async fn open(settings: &S3Settings) -> Result<S3Store, Unfit> {
        let store = S3Store::connect(settings)?;
        store.probe().await?;
        Ok(store)
    }

    /// Whether the names of all objects can begin so.
    pub fn takes_prefix(prefix: &str) -> bool {
        Layout::new(prefix).is_some()
    }

    /// A bucket that was tried before.
    pub fn connect(settings: &S3Settings) -> Result<S3Store, Unfit> {
        let layout = Layout::new(&settings.prefix)
            .ok_or_else(|| Unfit::Settings("the prefix has an empty part or one of dots".to_owned()))?;
        let bucket = connect::connect(settings)?;
        let (name, deadline) = (settings.bucket.clone(), settings.deadline);
        Ok(S3Store { bucket, name, layout, deadline, marked: Marked::default() })
    }

    /// Whether the bucket answers now.
    pub async fn reachable(&self) -> Result<(), StoreError> {
        self.get(&self.layout.probe("none")).await.map(drop)
    }

    /// An object and its tag.
    async fn get(&self, path: &Path) -> Result<Option<(Bytes, String)>, StoreError> {
        self.get_within(self.deadline, path).await
    }

    async fn get_within(&self, within: Duration, path: &Path) -> Result<Option<(Bytes, String)>, StoreError> {
        let got = call::repeatedly(within, || async {
            match self.bucket.get(path).await {
                Ok(found) => {
                    let tag = found.meta.e_tag.clone().unwrap_or_default();
                    Ok(Some((found.bytes().await?, tag)))
                }
                Err(error) if call::is_missing(&error) => Ok(None),
                Err(error) => Err(error),
            }
        });
        got.await
    }

    /// A put that takes place if its condition holds; sent once. Tells the tag, if the bucket does.
    async fn put(&self, path: &Path, bytes: Bytes, mode: PutMode) -> Result<Option<String>, StoreError> {
        self.put_within(self.deadline, path, bytes, mode).await
    }

    async fn put_within(
        &self,
        within: Duration,
        path: &Path,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<Option<String>, StoreError> {
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.bucket.put_opts(path, PutPayload::from_bytes(bytes), options);
        Ok(call::once(within, put).await?.e_tag)
    }

    /// Puts what is the same whenever it is put.
    async fn put_again(&self, within: Duration, path: &Path, bytes: &Bytes) -> Result<(), StoreError> {
        call::repeatedly(within, || self.bucket.put(path, PutPayload::from_bytes(bytes.clone()))).await.map(drop)
    }

    /// Everything whose name begins so.
    async fn listed(&self, prefix: &Path) -> Result<Vec<ObjectMeta>, StoreError> {
        // A page has a thousand names.
        let within = self.deadline * CHUNK_DEADLINES;
        call::repeatedly(within, || self.bucket.list(Some(prefix)).try_collect()).await
    }

    async fn remove(&self, prefix: &Path) -> Result<(), StoreError> {
        for object in self.listed(prefix).await? {
            let gone = call::repeatedly(self.deadline, || async {
                match self.bucket.delete(&object.location).await {
                    // Another sweeper was there first.
                    Err(error) if call::is_missing(&error) => Ok(()),
                    other => other,
                }
            });
            gone.await?;
        }
        Ok(())
    }

    async fn swap(&self, key: &Key, head: &Head, expected: &Expect) -> Result<Swapped, StoreError> {
        let (path, text) = (self.layout.head(key), Bytes::from(head_text(head)?));
        let put = match expected {
            Expect::Nothing => self.put(&path, text.clone(), PutMode::Create).await,
            Expect::Revision(revision) => self.put(&path, text.clone(), update(&revision.0)).await,
        };
        let written = |tag: Option<String>| tag.map_or(Swapped::Unknown, |tag| Swapped::AsGiven(Revision(tag)));
        let Err(StoreError::Conflict) = put else { return put.map(written) };
        // Something between here and there may have sent the put twice, so that it met itself.
        let there = self.get(&path).await.map_err(|error| StoreError::Unknown(error.to_string()))?;
        match (there, expected) {
            (Some((bytes, tag)), _) if is_gravestone(&bytes) && *expected == Expect::Nothing => {
                self.put(&path, text, update(&tag)).await.map(written)
            }
            (Some((bytes, _)), _) if !is_gravestone(&bytes) => {
                let ours = parse_head(&bytes)?.operations.contains(&head.operation());
                if ours { Ok(Swapped::Unknown) } else { Err(StoreError::Conflict) }
            }
            _ => Err(StoreError::Conflict),
        }
    }
}

impl Store for S3Store {
    fn name(&self) -> &'static str {
        "s3"
    }

    fn resource(&self) -> Resource {
        STATES
    }

    fn limits(&self) -> Limits {
        // Every LOCK and UNLOCK writes the head anew. Of the chunks, four are in memory at once.
        Limits { inline: 32 << 10, inline_history: 32 << 10, inline_history_most: 1 << 20, chunk: 8 << 20, room: None }
    }

    fn read_head<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Found>> {
        Box::pin(async move {
            let found = self.get(&self.layout.head(key)).await?;
            let Some((bytes, tag)) = found.filter(|(bytes, _)| !is_gravestone(bytes)) else { return Ok(None) };
            if tag.is_empty() {
                return Err(StoreError::Damaged("the bucket gives a head no ETag".to_owned()));
            }
            Ok(Some(Found { head: parse_head(&bytes)?, revision: Revision(tag) }))
        })
    }

    fn write_head<'a>(&'a self, key: &'a Key, head: &'a Head, expected: &'a Expect) -> Answer<'a, Swapped> {
        Box::pin(self.swap(key, head, expected))
    }

    fn delete_head<'a>(&'a self, key: &'a Key, expected: &'a Revision) -> Answer<'a, ()> {
        Box::pin(async move {
            let gravestone = Bytes::from(Uuid::new_v4().to_string());
            self.put(&self.layout.head(key), gravestone, update(&expected.0)).await.map(drop)
        })
    }

    fn list<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Key>> {
        Box::pin(async move {
            let heads = self.listed(&self.layout.heads(namespace)).await?;
            let heads = heads.iter().filter(|object| object.size != GRAVESTONE);
            Ok(heads.filter_map(|object| self.layout.key(&object.location)).collect())
        })
    }

    fn put_chunk<'a>(&'a self, chunk: &'a ChunkId, deadline: Timestamp, bytes: Bytes) -> Answer<'a, ()> {
        Box::pin(async move {
            let marked = self.marked.of(chunk.upload);
            let mark = || async {
                let mark = self.layout.mark(&chunk.key, chunk.upload, deadline);
                self.put_again(self.deadline, &mark, &Bytes::new()).await
            };
            marked.get_or_try_init(mark).await?;
            self.put_again(self.deadline * CHUNK_DEADLINES, &self.layout.chunk(chunk), &bytes).await
        })
    }

    fn get_chunk<'a>(&'a self, chunk: &'a ChunkId) -> Answer<'a, Option<Bytes>> {
        Box::pin(async move {
            let found = self.get_within(self.deadline * CHUNK_DEADLINES, &self.layout.chunk(chunk)).await?;
            Ok(found.map(|(bytes, _)| bytes))
        })
    }

    fn delete_chunks<'a>(&'a self, key: &'a Key, upload: Uuid) -> Answer<'a, ()> {
        Box::pin(async move {
            // The mark goes last: whoever dies in between leaves something for the next sweep to find.
            self.remove(&self.layout.chunks(key, upload)).await?;
            self.remove(&self.layout.marks_of(key, upload)).await
        })
    }

    fn uploads_before(&self, time: Timestamp) -> Answer<'_, Vec<Stray>> {
        Box::pin(async move {
            let marks = self.listed(&self.layout.marks()).await?;
            let strays = marks.iter().filter_map(|object| self.layout.stray(&object.location));
            Ok(strays.filter(|stray| stray.deadline < time).collect())
        })
    }
}

fn update(tag: &str) -> PutMode {
    PutMode::Update(UpdateVersion { e_tag: Some(tag.to_owned()), version: None })
}

fn is_gravestone(bytes: &Bytes) -> bool {
    bytes.len() as u64 == GRAVESTONE
}

/// The uploads of which this process has put the mark, as far as it remembers: putting one again does no harm.
#[derive(Debug, Default)]
struct Marked(Mutex<VecDeque<(Uuid, Arc<OnceCell<()>>)>>);

impl Marked {
    const REMEMBERED: usize = 256;

    /// Empty until the mark is there; chunks of one upload wait for the same mark.
    fn of(&self, upload: Uuid) -> Arc<OnceCell<()>> {
        let mut marked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = marked.iter().find(|(known, _)| *known == upload) {
            return known.clone();
        }
        if marked.len() == Marked::REMEMBERED {
            marked.pop_front();
        }
        let cell = Arc::new(OnceCell::new());
        marked.push_back((upload, cell.clone()));
        cell
    }
}

impl fmt::Debug for S3Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("S3Store").field("bucket", &self.name).finish_non_exhaustive()
    }
}
