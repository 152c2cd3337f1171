//! A store that sees one namespace only. Tests share a cluster, and a sweeper without patience would take what other
//! tests are still looking at.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use states::Key;
use states::head::Head;
use states::store::{Answer, ChunkId, Expect, Found, Limits, Resource, Revision, Store, Stray, Swapped};
use uuid::Uuid;

#[derive(Debug)]
pub(crate) struct InNamespace {
    namespace: String,
    store: Arc<dyn Store>,
}

impl InNamespace {
    pub(crate) fn of(namespace: &str, store: impl Store) -> Arc<InNamespace> {
        Arc::new(InNamespace { namespace: namespace.to_owned(), store: Arc::new(store) })
    }
}

impl Store for InNamespace {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn resource(&self) -> Resource {
        self.store.resource()
    }

    fn object(&self, key: &Key) -> String {
        self.store.object(key)
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn read_head<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Found>> {
        self.store.read_head(key)
    }

    fn write_head<'a>(&'a self, key: &'a Key, head: &'a Head, expected: &'a Expect) -> Answer<'a, Swapped> {
        self.store.write_head(key, head, expected)
    }

    fn delete_head<'a>(&'a self, key: &'a Key, expected: &'a Revision) -> Answer<'a, ()> {
        self.store.delete_head(key, expected)
    }

    fn list<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Key>> {
        self.store.list(namespace.or(Some(&self.namespace)))
    }

    fn put_chunk<'a>(&'a self, chunk: &'a ChunkId, deadline: Timestamp, bytes: Bytes) -> Answer<'a, ()> {
        self.store.put_chunk(chunk, deadline, bytes)
    }

    fn get_chunk<'a>(&'a self, chunk: &'a ChunkId) -> Answer<'a, Option<Bytes>> {
        self.store.get_chunk(chunk)
    }

    fn delete_chunks<'a>(&'a self, key: &'a Key, upload: Uuid) -> Answer<'a, ()> {
        self.store.delete_chunks(key, upload)
    }

    fn uploads_before(&self, time: Timestamp) -> Answer<'_, Vec<Stray>> {
        Box::pin(async move {
            let all = self.store.uploads_before(time).await?;
            Ok(all.into_iter().filter(|stray| stray.key.namespace() == self.namespace).collect())
        })
    }
}
