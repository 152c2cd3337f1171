//! A store whose every operation is timed and counted.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use jiff::Timestamp;
use uuid::Uuid;

use super::{Answer, ChunkId, Expect, Found, Limits, Resource, Revision, Store, StoreError, Stray, Swapped};
use crate::head::Head;
use crate::key::Key;
use crate::metrics::Metrics;

/// The same store, with a clock.
#[derive(Debug)]
pub struct Metered {
    store: Arc<dyn Store>,
    metrics: Metrics,
}

impl Metered {
    pub fn new(store: Arc<dyn Store>, metrics: Metrics) -> Metered {
        Metered { store, metrics }
    }

    fn timed<'a, T: 'a>(
        &'a self,
        operation: &'static str,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let began = Instant::now();
            let result = work.await;
            self.metrics.store(self.store.name(), operation, began.elapsed(), &result);
            result
        })
    }
}

impl Store for Metered {
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
        self.timed("read_head", self.store.read_head(key))
    }

    fn write_head<'a>(&'a self, key: &'a Key, head: &'a Head, expected: &'a Expect) -> Answer<'a, Swapped> {
        self.timed("write_head", self.store.write_head(key, head, expected))
    }

    fn delete_head<'a>(&'a self, key: &'a Key, expected: &'a Revision) -> Answer<'a, ()> {
        self.timed("delete_head", self.store.delete_head(key, expected))
    }

    fn list<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Key>> {
        self.timed("list", self.store.list(namespace))
    }

    fn put_chunk<'a>(&'a self, chunk: &'a ChunkId, deadline: Timestamp, bytes: Bytes) -> Answer<'a, ()> {
        self.timed("put_chunk", self.store.put_chunk(chunk, deadline, bytes))
    }

    fn get_chunk<'a>(&'a self, chunk: &'a ChunkId) -> Answer<'a, Option<Bytes>> {
        self.timed("get_chunk", self.store.get_chunk(chunk))
    }

    fn delete_chunks<'a>(&'a self, key: &'a Key, upload: Uuid) -> Answer<'a, ()> {
        self.timed("delete_chunks", self.store.delete_chunks(key, upload))
    }

    fn uploads_before(&self, time: Timestamp) -> Answer<'_, Vec<Stray>> {
        self.timed("uploads_before", self.store.uploads_before(time))
    }
}
