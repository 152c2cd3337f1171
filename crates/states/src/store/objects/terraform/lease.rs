//! The lock as a Lease: who holds it, in the fields of the stock client, and what only we know in an annotation more.
//!
//! That annotation counts only while it is about the holder that the Lease names.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::names::Names;
use crate::lock::Lock;
use crate::lock_info::LockInfo;

const INFO: &str = "app.terraform.io/lock-info";
const OURS: &str = "stateward.dev/state-lock";

/// What a Lease says.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Its resourceVersion, if it is there.
    pub(super) version: Option<String>,
    pub(super) lock: Option<Lock>,
}

pub(super) fn read(lease: Option<Lease>) -> Held {
    let Some(lease) = lease else { return Held::default() };
    let mut annotations = lease.metadata.annotations.unwrap_or_default();
    let (info, ours) = (annotations.remove(INFO), annotations.remove(OURS));
    let holder = lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty());
    let lock = holder.map(|id| {
        let ours = ours.and_then(|text| serde_json::from_str::<Lock>(&text).ok());
        ours.filter(|lock| lock.id == id && Some(&lock.info) == info.as_ref()).unwrap_or_else(|| foreign(id, info))
    });
    Held { version: lease.metadata.resource_version, lock }
}

/// A lock that another program took. It never renews it, so that it never expires either.
fn foreign(id: String, info: Option<String>) -> Lock {
    let now = Timestamp::now();
    let sent = info.and_then(|text| LockInfo::of_lock(text.as_bytes()).ok()).filter(|info| info.id == id);
    let info = sent.unwrap_or_else(|| LockInfo::made(&id, "", "", "another program")).text;
    Lock { id, info, user: None, taken: now, active: now }
}

/// A Lease that is not there yet.
pub(super) fn new(names: &Names, lock: &Lock) -> Result<Lease, serde_json::Error> {
    let annotations = [(INFO.to_owned(), lock.info.clone()), (OURS.to_owned(), serde_json::to_string(lock)?)];
    let metadata = ObjectMeta {
        name: Some(names.lease()),
        labels: Some(names.labels()),
        annotations: Some(annotations.into()),
        ..ObjectMeta::default()
    };
    let spec = LeaseSpec { holder_identity: Some(lock.id.clone()), ..LeaseSpec::default() };
    Ok(Lease { metadata, spec: Some(spec) })
}

/// The merge patch that hands the Lease over, or lets go of it.
pub(super) fn patch(version: &str, lock: Option<&Lock>) -> Result<Value, serde_json::Error> {
    let ours = lock.map(serde_json::to_string).transpose()?;
    Ok(json!({
        "metadata": {
            "resourceVersion": version,
            "annotations": { INFO: lock.map(|lock| &lock.info), OURS: ours },
        },
        "spec": { "holderIdentity": lock.map(|lock| &lock.id) },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn what_we_know_of_a_lock_counts_while_the_lease_is_ours() {
        let names = Names::of(&Key::new("team-a", "app").unwrap()).unwrap();
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let (id, info) = ("a".to_owned(), r#"{"ID":"a","Who":"me@host"}"#.to_owned());
        let lock = Lock { id, info, user: Some("ann".to_owned()), taken: at, active: at };
        let lease = new(&names, &lock).unwrap();
        assert_eq!(read(Some(lease.clone())).lock, Some(lock));

        let mut taken = lease.clone();
        taken.spec.as_mut().unwrap().holder_identity = Some("b".to_owned());
        let other = read(Some(taken.clone())).lock.unwrap();
        assert_eq!((other.id.as_str(), other.user), ("b", None), "an info of somebody else is not taken for b's");
        let info = r#"{"ID":"b","Who":"you@host"}"#.to_owned();
        taken.metadata.annotations.as_mut().unwrap().insert(INFO.to_owned(), info.clone());
        assert_eq!(read(Some(taken)).lock.unwrap().info, info);

        for holder in [None, Some(String::new())] {
            let mut free = lease.clone();
            free.spec.as_mut().unwrap().holder_identity = holder;
            assert_eq!(read(Some(free)).lock, None);
        }
        assert!(read(None).version.is_none());
    }
}
