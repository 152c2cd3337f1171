//! ConfigMaps and Secrets: one head object per state, chunk objects beside it.
//!
//! The layout is that of the original ConfigMap backend, so that either program reads what the other wrote: the state
//! under the key `tfstate`, the lock in four annotations. What only we know is one annotation more (see [`layout`]),
//! which counts only as far as it still fits what stands beside it.
//!
//! Swaps are merge patches with the resourceVersion that was read: keys, labels and annotations of others stay. Who may
//! not patch, but update, swaps by PUT (see [`update`]).

mod call;
mod kind;
mod layout;
mod terraform;
mod update;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::json;
use uuid::Uuid;

use super::{Answer, ChunkId, Expect, Found, Limits, Resource, Revision, Store, StoreError, Stray, Swapped};
use crate::codec;
use crate::head::{Head, Packing};
use crate::key::Key;

use call::{Doing, admitted, asked};
use kind::Kind;
use layout::Laid;

pub use terraform::TerraformStore;

/// States in ConfigMaps.
pub type ConfigMapStore = ObjectStore<ConfigMap>;
/// States in Secrets.
pub type SecretStore = ObjectStore<Secret>;

/// On every head and chunk of ours, so that they are found without reading all others.
const ROLE: &str = "stateward.dev/state-role";
const UPLOAD: &str = "stateward.dev/state-upload";
const STATE: &str = "stateward.dev/state-name";
const DEADLINE: &str = "stateward.dev/state-deadline";
const CHUNK_KEY: &str = "chunk";

/// Kubernetes takes 1 MiB of data in an object, and etcd 1.5 MiB in a request.
const OBJECT_BYTES: usize = 1 << 20;
/// How many objects of a list are read at once.
const PAGE: u32 = 500;

/// A store in objects of one kind.
pub struct ObjectStore<K> {
    client: Client,
    /// For states that another program wrote: what is known of them has to be found out.
    reader: Reader,
    roles: Roles,
    packing: Packing,
    /// Whether this identity was found not to be allowed to patch.
    puts: AtomicBool,
    kind: PhantomData<fn() -> K>,
}

/// The label by which a store finds its own heads and chunks among those of others.
#[derive(Clone, Copy)]
struct Roles {
    head: &'static str,
    chunk: &'static str,
}

/// What a new head object has besides.
#[derive(Default)]
struct Extra {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// How states of other programs are looked at.
#[derive(Clone, Debug)]
pub struct Reader {
    pub limits: codec::Limits,
    pub spool: PathBuf,
}

impl<K: Kind> ObjectStore<K> {
    /// The client must not retry by itself: a patch whose answer was lost may have taken place.
    pub fn new(client: Client, reader: Reader) -> ObjectStore<K> {
        ObjectStore::with_roles(client, reader, Roles { head: "head", chunk: "chunk" })
    }

    fn with_roles(client: Client, reader: Reader, roles: Roles) -> ObjectStore<K> {
        let (packing, puts) = (Packing::Gzip, AtomicBool::new(false));
        ObjectStore { client, reader, roles, packing, puts, kind: PhantomData }
    }

    /// The same store, which packs states in another way for those who read them without us.
    #[must_use]
    pub fn packing(self, packing: Packing) -> ObjectStore<K> {
        ObjectStore { packing, ..self }
    }

    fn of(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Swaps the head of an object, and tells what the object is then.
    async fn put_head(&self, key: &Key, head: &Head, expected: &Expect, extra: Extra) -> Result<K, StoreError> {
        let before = match expected {
            Expect::Nothing => None,
            Expect::Revision(revision) => Some(Seen::read(revision)?),
        };
        let laid = layout::lay(head, self.packing).await?;
        let objects = self.of(key.namespace());
        let Some(before) = before else {
            let Extra { mut labels, mut annotations } = extra;
            labels.insert(ROLE.to_owned(), self.roles.head.to_owned());
            annotations.extend(laid.annotations.into_iter().filter_map(|(name, text)| Some((name, text?))));
            let metadata = ObjectMeta {
                name: Some(key.name().to_owned()),
                labels: Some(labels),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            };
            let data = laid.data.into_iter().map(|(key, bytes)| (key.to_owned(), ByteString(bytes.to_vec())));
            let object = K::new(metadata, data.collect());
            return asked(Doing::Write, objects.create(&PostParams::default(), &object)).await;
        };
        if self.puts.load(Relaxed) {
            return update::replace(&objects, key.name(), laid, &before, self.roles.head).await;
        }
        let mut patch = json!({
            "metadata": {
                "resourceVersion": before.version,
                "labels": { ROLE: self.roles.head },
                "annotations": laid.annotations,
            },
        });
        // The state itself crosses the network only when it changes: a LOCK is small, whatever it locks.
        if laid.mark != before.mark {
            for key in layout::DATA {
                patch[K::DATA][key] = json!(laid.data.get(key).map(|bytes| ByteString(bytes.to_vec())));
            }
        }
        let (parameters, patch, mut forbidden) = (PatchParams::default(), Patch::Merge(&patch), false);
        let patching = objects.patch(key.name(), &parameters, &patch);
        let is_forbidden = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 403);
        let patching = async { patching.await.inspect_err(|error| forbidden = is_forbidden(error)) };
        match asked(Doing::Write, patching).await {
            Err(StoreError::Refused(_)) if forbidden => {
                let replaced = update::replace(&objects, key.name(), laid, &before, self.roles.head).await;
                self.puts.store(replaced.is_ok(), Relaxed);
                replaced
            }
            // The object that was read is gone.
            Err(StoreError::Refused(_))
                if asked(Doing::Read, objects.get_metadata_opt(key.name())).await?.is_none() =>
            {
                Err(StoreError::Conflict)
            }
            other => other,
        }
    }
}

impl<K: Kind> Store for ObjectStore<K> {
    fn name(&self) -> &'static str {
        K::STORE
    }

    fn resource(&self) -> Resource {
        Resource { group: "", resource: K::RESOURCE }
    }

    fn limits(&self) -> Limits {
        Limits {
            inline: OBJECT_BYTES - (64 << 10),
            // An object takes 256 KiB of annotations, these are base64, and a LockInfo needs room too.
            inline_history: 64 << 10,
            inline_history_most: 128 << 10,
            chunk: OBJECT_BYTES,
            room: Some(64 << 20),
        }
    }

    fn read_head<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Found>> {
        Box::pin(async move {
            let objects = self.of(key.namespace());
            // Everything begins with this one: what comes after it meets an API server that knows its roles.
            match admitted(Doing::Read, || objects.get_opt(key.name())).await? {
                Some(object) => self.found(object).await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn write_head<'a>(&'a self, key: &'a Key, head: &'a Head, expected: &'a Expect) -> Answer<'a, Swapped> {
        Box::pin(async move {
            let object = self.put_head(key, head, expected, Extra::default()).await?;
            // It was written, whatever can be made of the answer.
            let found = self.found(object).await;
            Ok(found.map_or(Swapped::Unknown, |found| Swapped::AsKept(Box::new(found))))
        })
    }

    fn delete_head<'a>(&'a self, key: &'a Key, expected: &'a Revision) -> Answer<'a, ()> {
        Box::pin(async move {
            let resource_version = Some(Seen::read(expected)?.version);
            let preconditions = Some(Preconditions { resource_version, uid: None });
            let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
            let objects = self.of(key.namespace());
            asked(Doing::Write, objects.delete(key.name(), &parameters)).await.map(drop)
        })
    }

    fn list<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Key>> {
        Box::pin(async move {
            let found = self.labelled(namespace, &format!("{ROLE}={}", self.roles.head)).await?;
            let key = |metadata: ObjectMeta| Key::new(metadata.namespace?, metadata.name?).ok();
            Ok(found.into_iter().filter_map(key).collect())
        })
    }

    fn put_chunk<'a>(&'a self, chunk: &'a ChunkId, deadline: Timestamp, bytes: Bytes) -> Answer<'a, ()> {
        Box::pin(async move {
            let labels = [(ROLE, self.roles.chunk.to_owned()), (UPLOAD, chunk.upload.to_string())];
            let annotations = [(STATE, chunk.key.name().to_owned()), (DEADLINE, deadline.to_string())];
            let owned = |pairs: [(&str, String); 2]| Some(pairs.map(|(name, text)| (name.to_owned(), text)).into());
            let metadata = ObjectMeta {
                name: Some(chunk_name(chunk)),
                labels: owned(labels),
                annotations: owned(annotations),
                ..ObjectMeta::default()
            };
            let mut object = K::new(metadata, [(CHUNK_KEY.to_owned(), ByteString(bytes.to_vec()))].into());
            object.set_immutable();
            let objects = self.of(chunk.key.namespace());
            match asked(Doing::Write, objects.create(&PostParams::default(), &object)).await {
                // It is there already: a chunk is never put with other bytes.
                Err(StoreError::Conflict) => Ok(()),
                other => other.map(drop),
            }
        })
    }

    fn get_chunk<'a>(&'a self, chunk: &'a ChunkId) -> Answer<'a, Option<Bytes>> {
        Box::pin(async move {
            let objects = self.of(chunk.key.namespace());
            let found = asked(Doing::Read, objects.get_opt(&chunk_name(chunk))).await?;
            let Some(mut object) = found else { return Ok(None) };
            let annotations = object.meta_mut().annotations.take().unwrap_or_default();
            if annotations.get(STATE).map(String::as_str) != Some(chunk.key.name()) {
                return Ok(None);
            }
            Ok(object.data_mut().remove(CHUNK_KEY).map(|bytes| bytes.0.into()))
        })
    }

    fn delete_chunks<'a>(&'a self, key: &'a Key, upload: Uuid) -> Answer<'a, ()> {
        Box::pin(async move {
            let objects = self.of(key.namespace());
            for metadata in self.labelled(Some(key.namespace()), &format!("{UPLOAD}={upload}")).await? {
                let of_state = metadata.annotations.as_ref().and_then(|annotations| annotations.get(STATE));
                let (Some(name), Some(uid), true) =
                    (metadata.name, metadata.uid, of_state.map(String::as_str) == Some(key.name()))
                else {
                    continue;
                };
                let preconditions = Some(Preconditions { uid: Some(uid), resource_version: None });
                let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
                match asked(Doing::Write, objects.delete(&name, &parameters)).await {
                    // Another sweeper was there first.
                    Ok(_) | Err(StoreError::Conflict | StoreError::Refused(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    fn uploads_before(&self, time: Timestamp) -> Answer<'_, Vec<Stray>> {
        Box::pin(async move {
            let mut strays: Vec<Stray> = Vec::new();
            for metadata in self.labelled(None, &format!("{ROLE}={}", self.roles.chunk)).await? {
                let Some(stray) = stray(metadata).filter(|stray| stray.deadline < time) else { continue };
                if !strays.contains(&stray) {
                    strays.push(stray);
                }
            }
            Ok(strays)
        })
    }
}

impl<K: Kind> ObjectStore<K> {
    /// The head that an object holds.
    async fn found(&self, mut object: K) -> Result<Found, StoreError> {
        let metadata = std::mem::take(object.meta_mut());
        let take = |key| Some((key, Bytes::from(object.data_mut().remove(key)?.0)));
        let data = layout::DATA.into_iter().filter_map(take).collect();
        let annotations = metadata.annotations.unwrap_or_default();
        let Laid { head, mark } = layout::read(annotations, data, &self.reader).await?;
        let version = metadata.resource_version.unwrap_or_default();
        Ok(Found { head, revision: Seen { version, mark }.write() })
    }

    /// The metadata of objects with a label; their data is not asked for.
    async fn labelled(&self, namespace: Option<&str>, selector: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let objects: Api<K> = match namespace {
            Some(namespace) => self.of(namespace),
            None => Api::all(self.client.clone()),
        };
        let mut found = Vec::new();
        let mut parameters = ListParams::default().labels(selector).limit(PAGE);
        loop {
            let page = asked(Doing::Read, objects.list_metadata(&parameters)).await?;
            found.extend(page.items.into_iter().map(|object| object.metadata));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(found),
            }
        }
    }
}

fn chunk_name(chunk: &ChunkId) -> String {
    format!("stateward-chunk-{}-{}", chunk.upload, chunk.number)
}

fn stray(metadata: ObjectMeta) -> Option<Stray> {
    let annotations = metadata.annotations?;
    let upload = metadata.labels?.get(UPLOAD)?.parse().ok()?;
    let deadline = annotations.get(DEADLINE)?.parse().ok()?;
    Some(Stray { key: Key::new(metadata.namespace?, annotations.get(STATE)?).ok()?, upload, deadline })
}

/// What was read of a head object: its resourceVersion, and what tells its state from another.
struct Seen {
    version: String,
    mark: String,
}

impl Seen {
    fn write(self) -> Revision {
        Revision(format!("{} {}", self.version, self.mark))
    }

    fn read(revision: &Revision) -> Result<Seen, StoreError> {
        let parts = revision.0.split_once(' ');
        let (version, mark) = parts.ok_or_else(|| StoreError::Damaged("a revision of another store".to_owned()))?;
        Ok(Seen { version: version.to_owned(), mark: mark.to_owned() })
    }
}

impl<K: Kind> fmt::Debug for ObjectStore<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ObjectStore").field("kind", &K::STORE).finish_non_exhaustive()
    }
}
