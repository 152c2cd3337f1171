//! Swaps by PUT, for identities that may `update` objects but not `patch` them, as those of the original may.
//!
//! The object is read again and written back whole, with what others have in it. It must still be the one that was
//! seen: its resourceVersion says so, and goes along.

use kube::Api;
use kube::api::PostParams;

use super::call::{Doing, asked};
use super::kind::Kind;
use super::layout::{self, Layout};
use super::{ByteString, ROLE, Seen, StoreError};

pub(super) async fn replace<K: Kind>(
    objects: &Api<K>,
    name: &str,
    laid: Layout,
    before: &Seen,
    role: &str,
) -> Result<K, StoreError> {
    let found = asked(Doing::Read, objects.get_opt(name)).await?;
    let is_seen = |object: &K| object.meta().resource_version.as_ref() == Some(&before.version);
    let mut object = found.filter(is_seen).ok_or(StoreError::Conflict)?;
    let metadata = object.meta_mut();
    metadata.labels.get_or_insert_default().insert(ROLE.to_owned(), role.to_owned());
    let annotations = metadata.annotations.get_or_insert_default();
    for (name, text) in laid.annotations {
        match text {
            Some(text) => _ = annotations.insert(name, text),
            None => _ = annotations.remove(&name),
        }
    }
    let data = object.data_mut();
    data.retain(|key, _| !layout::DATA.contains(&key.as_str()));
    data.extend(laid.data.into_iter().map(|(key, bytes)| (key.to_owned(), ByteString(bytes.to_vec()))));
    asked(Doing::Write, objects.replace(name, &PostParams::default(), &object)).await
}
