//! How a head stands in an object, and what is made of an object that another program changed.
//!
//! The state is under `tfstate` while that fits, packed as the store was told (gzip of the exact bytes unless told
//! otherwise); else there is a line that is no JSON, so that a program which knows nothing of chunks fails instead of
//! finding no state. So it is for a state that was moved away, whose bytes stay under another key for a restore. The lock
//! is in the four annotations of the original. Our annotation holds the rest of the head, the hash of `tfstate` and the lock's ID as they were when it
//! was written. If either differs now, somebody else wrote since: their state and their lock count, not ours. A line of ours
//! that our annotation does not know is no state of anybody: the annotation is lost, and what it named must not be.

use std::collections::BTreeMap;
use std::io::{self, Read as _};

use aws_lc_rs::digest::{Context, SHA256, digest};
use bytes::Bytes;
use jiff::Timestamp;
use md5::{Digest as _, Md5};
use serde::{Deserialize, Serialize};

use super::Reader;
use crate::bytes_text::hex_text;
use crate::codec::{self, Receiver, SpoolPlace};
use crate::head::{Body, Facts, Head, Moved, Packing, Version};
use crate::lock::{End, Lock, Released};
use crate::lock_info::LockInfo;
use crate::packing;
use crate::store::{StoreError, head_text, parse_head};

/// The key of the state.
pub(super) const FILE: &str = "tfstate";
/// Where a deleted state is kept, so that other programs find none, and one that was moved.
pub(super) const DELETED: &str = "tfstate-deleted";
/// Where the bytes of a sealed state are, while they fit the object.
pub(super) const SEALED: &str = "tfstate-sealed";
/// Everything that a head may put into the data of its object.
pub(super) const DATA: [&str; 3] = [FILE, DELETED, SEALED];
/// What stands under `tfstate` when the state is elsewhere, and how every such line begins.
const ELSEWHERE: &[u8] = b"stateward: this state is kept in chunks or sealed; read it through stateward\n";
const OUR_LINE: &[u8] = b"stateward: this state ";
const ORPHAN: &str = "an object whose state is kept elsewhere, without the annotation stateward.dev/state-head that says \
                      where: put the annotation back, or delete the object and restore the state from its chunks";

const PREFIX: &str = "tf-kubernetes-configmap-backend.jimmidyson.github.com/";
/// The annotations of the original, with the field of the LockInfo that each holds.
const LOCK: [(&str, &str); 4] =
    [("lock-id", "ID"), ("lock-operation", "Operation"), ("lock-info", "Info"), ("lock-who", "Who")];
const OURS: &str = "stateward.dev/state-head";
/// How much of another program's state is unpacked at a time.
const PIECE: usize = 256 << 10;
/// Kubernetes takes 256 KiB of annotations; others have some too.
const ANNOTATION_BYTES: usize = 224 << 10;

#[derive(Serialize, Deserialize)]
struct Ours {
    /// The hash of `tfstate`, if it is there.
    file: Option<String>,
    /// The ID of the lock, if there is one.
    lock: Option<String>,
    /// The head as JSON, without the body that stands under `tfstate`.
    head: String,
}

/// A head as it was found.
pub(super) struct Laid {
    pub(super) head: Head,
    pub(super) mark: String,
}

/// A head as it is to be written; an annotation without a text is to be removed.
pub(super) struct Layout {
    pub(super) annotations: BTreeMap<String, Option<String>>,
    pub(super) data: Data,
    pub(super) mark: String,
}

/// Bytes by the keys of [`DATA`].
pub(super) type Data = BTreeMap<&'static str, Bytes>;

/// Tells whether two objects hold the same bytes under the same keys.
fn mark(data: &Data) -> String {
    data.iter().map(|(key, bytes)| format!("{key}={}", hash(bytes))).collect::<Vec<_>>().join(",")
}

pub(super) async fn lay(head: &Head, packing: Packing) -> Result<Layout, StoreError> {
    let mut head = head.clone();
    let mut data = Data::new();
    let file = match &mut head.current {
        None => None,
        Some(version) => match &mut version.body {
            Body::Chunks { .. } | Body::Spilled { .. } => Some(Bytes::from_static(ELSEWHERE)),
            Body::Difference { .. } => {
                return Err(StoreError::Damaged("a current version that is not whole".to_owned()));
            }
            Body::File { bytes, .. } => Some(std::mem::take(bytes).into()),
            Body::Inline { bytes, sealed: Some(_), .. } => {
                data.insert(SEALED, std::mem::take(bytes).into());
                Some(Bytes::from_static(ELSEWHERE))
            }
            Body::Inline { segments, bytes, sealed: None } => {
                let (segments, bytes) = (std::mem::take(segments), std::mem::take(bytes));
                let packed = move || packing::pack(&segments, &bytes, packing);
                let packed = move || packed().map_err(|error| StoreError::Damaged(error.to_string()));
                let file = blocking(packed).await?;
                file.correct(&mut version.facts);
                version.body = Body::File { packing: file.packing, bytes: Vec::new() };
                Some(file.bytes.into())
            }
        },
    };
    let key = if is_hidden(&head) { DELETED } else { FILE };
    data.extend(file.map(|file| (key, file)));
    if let Some(Moved { to, .. }) = &head.moved {
        data.insert(FILE, format!("stateward: this state has moved to {to}\n").into());
    }
    if data.values().map(Bytes::len).sum::<usize>() > super::OBJECT_BYTES {
        return Err(StoreError::TooLarge("the state does not fit one object".to_owned()));
    }
    let mark = mark(&data);
    let mut annotations = BTreeMap::new();
    let info = head.lock.as_ref().map(|lock| LockInfo { id: lock.id.clone(), text: lock.info.clone() });
    for (name, field) in LOCK {
        let text = info.as_ref().map(|info| match field {
            "ID" => info.id.clone(),
            field => info.field(field).unwrap_or_default(),
        });
        annotations.insert(format!("{PREFIX}{name}"), text);
    }
    let text = String::from_utf8(head_text(&head)?).map_err(|error| StoreError::Damaged(error.to_string()))?;
    let ours = Ours { file: data.get(FILE).map(|file| hash(file)), lock: info.map(|info| info.id), head: text };
    let ours = serde_json::to_string(&ours).map_err(|error| StoreError::Damaged(error.to_string()))?;
    if ours.len() > ANNOTATION_BYTES {
        return Err(StoreError::TooLarge("the head does not fit the annotations of an object".to_owned()));
    }
    annotations.insert(OURS.to_owned(), Some(ours));
    Ok(Layout { annotations, data, mark })
}

pub(super) async fn read(
    mut annotations: BTreeMap<String, String>,
    mut data: Data,
    reader: &Reader,
) -> Result<Laid, StoreError> {
    let mark = mark(&data);
    let [file, deleted, sealed] = DATA.map(|key| data.remove(key));
    let file_hash = file.as_deref().map(hash);
    let ours: Option<Ours> = annotations.remove(OURS).and_then(|text| serde_json::from_str(&text).ok());
    let (mut head, noted_file, noted_lock) = match ours {
        Some(ours) => (parse_head(ours.head.as_bytes())?, Some(ours.file), ours.lock),
        None => (Head::new(), None, None),
    };
    if noted_file.as_ref() == Some(&file_hash) {
        let file = if is_hidden(&head) { deleted } else { file };
        let found = match head.current.as_mut().map(|version| &mut version.body) {
            Some(Body::File { bytes, .. }) => Some((bytes, file)),
            Some(Body::Inline { bytes, .. }) => Some((bytes, sealed)),
            _ => None,
        };
        if let Some((bytes, Some(found))) = found {
            *bytes = found.to_vec();
        }
    } else if file.as_ref().is_some_and(|file| file.starts_with(OUR_LINE)) {
        return Err(StoreError::Damaged(ORPHAN.to_owned()));
    } else {
        replaced(&mut head, file, reader).await?;
    }
    let lock = LOCK.map(|(name, _)| annotations.remove(&format!("{PREFIX}{name}")).unwrap_or_default());
    let [id, operation, info, who] = &lock;
    match noted_lock {
        Some(noted) if noted == *id => {}
        None if id.is_empty() => {}
        _ => relocked(&mut head, (!id.is_empty()).then(|| LockInfo::made(id, operation, info, who))),
    }
    Ok(Laid { head, mark })
}

/// Whether other programs are not to find the state.
fn is_hidden(head: &Head) -> bool {
    head.deleted.is_some() || head.moved.is_some()
}

/// Another program wrote the state: it is the current version now. Ours is still there only if it was in chunks.
async fn replaced(head: &mut Head, file: Option<Bytes>, reader: &Reader) -> Result<(), StoreError> {
    if let Some(ours) = head.current.take()
        && ours.body.upload().is_some()
    {
        head.recent.insert(0, ours);
    }
    (head.deleted, head.moved) = (None, None);
    let Some(file) = file.filter(|file| !file.is_empty()) else { return Ok(()) };
    let packing = if file.starts_with(&[0x1f, 0x8b]) { Packing::Gzip } else { Packing::Plain };
    let (bytes, reader) = (file.clone(), reader.clone());
    let facts = blocking(move || facts(&bytes, packing, &reader)).await?;
    head.last_version += 1;
    let body = Body::File { packing, bytes: file.to_vec() };
    head.current = Some(Version { number: head.last_version, facts, by: None, at: Timestamp::now(), body });
    Ok(())
}

/// Another program took the lock, or somebody took the annotations away.
fn relocked(head: &mut Head, info: Option<LockInfo>) {
    let now = Timestamp::now();
    if let Some(Lock { id, info, .. }) = head.lock.take() {
        head.released = Some(Released { id, info, by: None, at: now, how: End::Forced });
    }
    head.lock = info.map(|info| Lock { id: info.id, info: info.text, user: None, taken: now, active: now });
}

/// What is known of a state that another program wrote. The original takes anything for a state, so what is no JSON
/// has no serial, and comes back as it is.
fn facts(file: &Bytes, packing: Packing, reader: &Reader) -> Result<Facts, StoreError> {
    let mut receiver = Ok(Receiver::new(reader.limits.clone(), SpoolPlace::new(reader.spool.clone())));
    let (mut size, mut sha256, mut md5) = (0, Context::new(&SHA256), Md5::new());
    let mut source = packing::reader(packing, io::Cursor::new(file.clone()));
    let mut piece = vec![0; PIECE];
    loop {
        let count = source.read(&mut piece);
        let count = count.map_err(|_| StoreError::Damaged("a state of another program is a broken gzip".to_owned()))?;
        let Some(bytes) = piece.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
        size += bytes.len() as u64;
        if size > reader.limits.body_bytes {
            return Err(StoreError::TooLarge("a state of another program, unpacked".to_owned()));
        }
        sha256.update(bytes);
        md5.update(bytes);
        receiver = receiver.and_then(|mut receiver| receiver.push(bytes).map(|()| receiver));
    }
    match receiver.and_then(|receiver| receiver.finish(None)) {
        Ok(received) => Ok(Facts::from(&received.facts)),
        Err(codec::BadState::Spool(error)) => Err(StoreError::Unavailable(error.to_string())),
        Err(_) => {
            let mut hash = [0; 32];
            hash.copy_from_slice(sha256.finish().as_ref());
            let (serial, lineage, terraform_version) = (None, None, None);
            let md5 = md5.finalize().into();
            Ok(Facts { size, sha256: hash, md5, sent: None, serial, lineage, terraform_version, encrypted: false })
        }
    }
}

fn hash(bytes: &[u8]) -> String {
    hex_text::encode(digest(&SHA256, bytes).as_ref())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
}
