//! The layout of Terraform's own `kubernetes` backend: one gzip Secret per state, with a Lease as its lock.
//!
//! For those who share states with clients that still use that backend: either side reads what the other wrote, and
//! minds the other's lock. Which state is which Secret is said in [`names`]. Beside the stock fields there are our
//! annotation on the Secret (see [`super::layout`]), one on the Lease (see [`lease`]), and chunks with old versions.
//! The state itself is always whole in its Secret; what does not fit is refused. States that Terraform cut into several
//! Secrets are read, and never written.
//!
//! A head here is two objects: the Lease says who holds the lock, and the Secret says the rest. They are kept together so:
//! a head is read from the Secret first and from the Lease then; a lock changes hands in the Lease first, by a swap, and
//! the Secret is swapped then, before anybody is told. So a write that was decided under the old lock finds the Secret
//! changed. The stock client does not touch the Secret when it breaks a lock: so a write under a lock looks at the Lease
//! once more before it, and again after it, and is not acknowledged if the lock is another one by then. What was written
//! between those two looks stays until whoever broke the lock writes: two objects cannot be swapped as one.

mod lease;
mod names;

use std::fmt;

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::call::{Doing, asked};
use super::{Extra, OBJECT_BYTES, ObjectStore, Reader, Roles, layout};
use crate::head::{Body, Head};
use crate::key::Key;
use crate::lock::Lock;
use crate::store::{Answer, ChunkId, Expect, Found, Limits, Resource, Revision, Store, StoreError, Stray, Swapped};

use lease::Held;
use names::Names;

const SEALED: &str = "Terraform's own backend must be able to read what is here, so that it cannot be sealed";
const TOO_LARGE: &str =
    "the state does not fit one Secret, and Terraform's kubernetes backend could not read it otherwise";
/// How many parts of a state are read at most.
const PARTS: usize = 64;
/// How often a change of the lock is noted in the Secret while others write to it.
const ATTEMPTS: u32 = 10;

/// States where Terraform's `kubernetes` backend keeps them.
pub struct TerraformStore {
    client: Client,
    secrets: ObjectStore<Secret>,
}

impl TerraformStore {
    /// The client must not retry by itself: a patch whose answer was lost may have taken place.
    pub fn new(client: Client, reader: Reader) -> TerraformStore {
        let roles = Roles { head: "terraform-head", chunk: "terraform-chunk" };
        TerraformStore { secrets: ObjectStore::with_roles(client.clone(), reader, roles), client }
    }

    fn leases(&self, namespace: &str) -> Api<Lease> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn find(&self, key: &Key) -> Result<Option<Found>, StoreError> {
        let names = Names::of(key)?;
        // The Secret first: see the head of this module.
        let secrets = self.secrets.of(key.namespace());
        let secret = asked(Doing::Read, secrets.get_opt(&names.secret())).await?;
        let held = lease::read(asked(Doing::Read, self.leases(key.namespace()).get_opt(&names.lease())).await?);
        let mut seen = Seen::of(&held);
        let mut head = Head::new();
        match secret {
            None if held.lock.is_none() => return Ok(None),
            None => {}
            Some(mut secret) => {
                if secret.metadata.labels.as_ref().is_some_and(|labels| names.is_other(labels)) {
                    return Err(StoreError::refused(format!(
                        "the Secret {} belongs to another workspace",
                        names.secret()
                    )));
                }
                seen.parts = self.join_parts(&mut secret, &secrets, &names).await?;
                let found = self.secrets.found(secret).await?;
                (head, seen.secret) = (found.head, Some(found.revision.0));
            }
        }
        head.lock = held.lock;
        Ok(Some(Found { head, revision: seen.write()? }))
    }

    /// Puts the parts that Terraform made of a large state behind the first. Only a full Secret has more of them.
    async fn join_parts(&self, secret: &mut Secret, secrets: &Api<Secret>, names: &Names) -> Result<bool, StoreError> {
        let Some(ByteString(whole)) = secret.data.as_mut().and_then(|data| data.get_mut(layout::FILE)) else {
            return Ok(false);
        };
        let mut parts = 0;
        while whole.len() == (parts + 1) * OBJECT_BYTES {
            parts += 1;
            let part = asked(Doing::Read, secrets.get_opt(&names.part(parts))).await?;
            let part = part.and_then(|part| part.data?.remove(layout::FILE));
            let Some(ByteString(bytes)) = part else { return Ok(parts > 1) };
            if parts == PARTS {
                return Err(StoreError::TooLarge(format!("a state in more than {PARTS} Secrets")));
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(parts > 0)
    }

    async fn swap(&self, key: &Key, head: &Head, expected: &Expect) -> Result<(), StoreError> {
        let names = Names::of(key)?;
        match head.current.as_ref().map(|version| &version.body) {
            Some(Body::Chunks { .. } | Body::Spilled { .. }) => return Err(StoreError::TooLarge(TOO_LARGE.to_owned())),
            Some(Body::Inline { sealed: Some(_), .. }) => return Err(StoreError::refused(SEALED)),
            _ => {}
        }
        let seen = match expected {
            Expect::Nothing => Seen::default(),
            Expect::Revision(revision) => Seen::read(revision)?,
        };
        let turn = Turn::between(seen.lock.as_ref(), head.lock.as_ref());
        if turn != Turn::Kept {
            self.hand_over(key, &names, head.lock.as_ref(), &seen).await?;
        }
        if seen.parts {
            // Nothing is ever written to such a state, so that nothing needs to find its Secret changed.
            return match turn {
                Turn::HandedOver => Ok(()),
                Turn::Kept | Turn::Renewed => Err(StoreError::refused(
                    "Terraform keeps this state in several Secrets, which cannot be swapped as one: copy it to another \
                     store with `stateward state migrate`",
                )),
            };
        }
        let expected = seen.secret.map_or(Expect::Nothing, |revision| Expect::Revision(Revision(revision)));
        let under = head.lock.as_ref().filter(|_| turn != Turn::HandedOver);
        self.still_held(key, &names, under).await?;
        match self.put_secret(key, &names, head, &expected).await {
            Err(StoreError::Conflict) if turn == Turn::HandedOver => self.note(key, &names, head).await,
            Ok(()) => self.still_held(key, &names, under).await,
            other => other,
        }
    }

    /// A conflict if the Lease names another lock than the one that a write was decided under.
    async fn still_held(&self, key: &Key, names: &Names, under: Option<&Lock>) -> Result<(), StoreError> {
        let Some(lock) = under else { return Ok(()) };
        let lease = asked(Doing::Read, self.leases(key.namespace()).get_opt(&names.lease())).await?;
        let held = lease::read(lease).lock.is_some_and(|held| held.id == lock.id);
        if held { Ok(()) } else { Err(StoreError::Conflict) }
    }

    /// The lock changes hands, if the Lease is what was seen.
    async fn hand_over(&self, key: &Key, names: &Names, lock: Option<&Lock>, seen: &Seen) -> Result<(), StoreError> {
        let leases = self.leases(key.namespace());
        let damaged = |error: serde_json::Error| StoreError::Damaged(error.to_string());
        let version = match (&seen.lease, lock) {
            (Some(version), _) => version.clone(),
            (None, None) => return Ok(()),
            (None, Some(lock)) => {
                let lease = lease::new(names, lock).map_err(damaged)?;
                match asked(Doing::Write, leases.create(&PostParams::default(), &lease)).await {
                    // A free one was left behind; a head that is not there does not say so.
                    Err(StoreError::Conflict) => {
                        let lease = asked(Doing::Read, leases.get_opt(&names.lease())).await?;
                        match lease::read(lease) {
                            Held { version: Some(version), lock: None } => version,
                            _ => return Err(StoreError::Conflict),
                        }
                    }
                    other => return other.map(drop),
                }
            }
        };
        let patch = lease::patch(&version, lock).map_err(damaged)?;
        let patch = Patch::Merge(&patch);
        match asked(Doing::Write, leases.patch(&names.lease(), &PatchParams::default(), &patch)).await {
            // The Lease that was read is gone.
            Err(StoreError::Refused(_))
                if asked(Doing::Read, leases.get_metadata_opt(&names.lease())).await?.is_none() =>
            {
                Err(StoreError::Conflict)
            }
            other => other.map(drop),
        }
    }

    /// Notes a change of the lock that took place, on whatever the Secret holds now.
    async fn note(&self, key: &Key, names: &Names, head: &Head) -> Result<(), StoreError> {
        for _attempt in 0..ATTEMPTS {
            let secret = asked(Doing::Read, self.secrets.of(key.namespace()).get_opt(&names.secret())).await;
            let lost = |error: StoreError| StoreError::Unknown(error.to_string());
            let (mut now, expected) = match secret.map_err(lost)? {
                None => (Head::new(), Expect::Nothing),
                Some(secret) => {
                    let found = self.secrets.found(secret).await.map_err(lost)?;
                    (found.head, Expect::Revision(found.revision))
                }
            };
            now.advance();
            if let Some(operation) = now.operations.last_mut() {
                *operation = head.operation();
            }
            now.released.clone_from(&head.released);
            match self.put_secret(key, names, &now, &expected).await {
                Err(StoreError::Conflict) => {}
                other => return other,
            }
        }
        Err(StoreError::Unknown("others change the Secret all the time".to_owned()))
    }

    async fn put_secret(&self, key: &Key, names: &Names, head: &Head, expected: &Expect) -> Result<(), StoreError> {
        let head = Head { lock: None, ..head.clone() };
        let extra = Extra { labels: names.labels(), annotations: [("encoding".to_owned(), "gzip".to_owned())].into() };
        self.secrets.put_head(&secret_key(key, names)?, &head, expected, extra).await.map(drop)
    }
}

impl Store for TerraformStore {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn resource(&self) -> Resource {
        self.secrets.resource()
    }

    fn object(&self, key: &Key) -> String {
        Names::of(key).map_or_else(|_| key.name().to_owned(), |names| names.secret())
    }

    fn limits(&self) -> Limits {
        // Chunks are for old versions only.
        self.secrets.limits()
    }

    fn read_head<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Found>> {
        Box::pin(self.find(key))
    }

    fn write_head<'a>(&'a self, key: &'a Key, head: &'a Head, expected: &'a Expect) -> Answer<'a, Swapped> {
        // Terraform's own backend changes the Lease and the Secret one after the other: what is there must be read.
        Box::pin(async move { self.swap(key, head, expected).await.map(|()| Swapped::Unknown) })
    }

    fn delete_head<'a>(&'a self, key: &'a Key, expected: &'a Revision) -> Answer<'a, ()> {
        Box::pin(async move {
            let (names, seen) = (Names::of(key)?, Seen::read(expected)?);
            if let Some(revision) = seen.secret {
                self.secrets.delete_head(&secret_key(key, &names)?, &Revision(revision)).await?;
            }
            if let Some(version) = seen.lease {
                let preconditions = Some(Preconditions { resource_version: Some(version), uid: None });
                let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
                // Somebody who has taken it since keeps it.
                let _ = asked(Doing::Write, self.leases(key.namespace()).delete(&names.lease(), &parameters)).await;
            }
            Ok(())
        })
    }

    fn list<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Key>> {
        Box::pin(async move {
            let found = self.secrets.labelled(namespace, &format!("{}=true", names::STATE)).await?;
            let keys = found.into_iter().filter_map(|metadata| {
                let names = Names::found(&metadata.name?, &metadata.labels?)?;
                let key = Key::new(metadata.namespace?, names.name()?).ok()?;
                Names::of(&key).ok().map(|_| key)
            });
            Ok(keys.collect())
        })
    }

    fn put_chunk<'a>(&'a self, chunk: &'a ChunkId, deadline: Timestamp, bytes: Bytes) -> Answer<'a, ()> {
        self.secrets.put_chunk(chunk, deadline, bytes)
    }

    fn get_chunk<'a>(&'a self, chunk: &'a ChunkId) -> Answer<'a, Option<Bytes>> {
        self.secrets.get_chunk(chunk)
    }

    fn delete_chunks<'a>(&'a self, key: &'a Key, upload: Uuid) -> Answer<'a, ()> {
        self.secrets.delete_chunks(key, upload)
    }

    fn uploads_before(&self, time: Timestamp) -> Answer<'_, Vec<Stray>> {
        self.secrets.uploads_before(time)
    }
}

/// The Secret of a state, as the store of Secrets addresses it.
fn secret_key(key: &Key, names: &Names) -> Result<Key, StoreError> {
    Key::new(key.namespace(), names.secret()).map_err(|error| StoreError::refused(error.to_string()))
}

/// What was read of a state's two objects.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen {
    /// The resourceVersion of the Lease, if it is there.
    lease: Option<String>,
    lock: Option<SeenLock>,
    /// What the store of Secrets knows the Secret by, if it is there.
    secret: Option<String>,
    /// Whether the state is in several Secrets.
    parts: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct SeenLock {
    id: String,
    active: Timestamp,
}

impl Seen {
    fn of(held: &Held) -> Seen {
        let lock = held.lock.as_ref().map(|lock| SeenLock { id: lock.id.clone(), active: lock.active });
        Seen { lease: held.version.clone(), lock, ..Seen::default() }
    }

    fn write(&self) -> Result<Revision, StoreError> {
        serde_json::to_string(self).map(Revision).map_err(|error| StoreError::Damaged(error.to_string()))
    }

    fn read(revision: &Revision) -> Result<Seen, StoreError> {
        let other = |_| StoreError::Damaged("a revision of another store".to_owned());
        serde_json::from_str(&revision.0).map_err(other)
    }
}

/// What a change does to the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Kept,
    Renewed,
    HandedOver,
}

impl Turn {
    fn between(before: Option<&SeenLock>, after: Option<&Lock>) -> Turn {
        match (before, after) {
            (None, None) => Turn::Kept,
            // That of another program is not ours to renew.
            (Some(before), Some(after)) if before.id == after.id => {
                if after.user.is_some() && before.active != after.active { Turn::Renewed } else { Turn::Kept }
            }
            _ => Turn::HandedOver,
        }
    }
}

impl fmt::Debug for TerraformStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TerraformStore").finish_non_exhaustive()
    }
}
