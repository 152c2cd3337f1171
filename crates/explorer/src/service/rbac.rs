//! The RBAC of one cluster: four streams into one policy, and whether it can be relied on.
//!
//! Until a stream has told everything once, what it tells is put aside and then taken as a whole: a policy that is half read
//! would grant too little, and one that is left from before too much. Whoever is shown something by this policy is asked anew
//! for each question; compiled grants are kept only for as long as nothing changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use access::rbac::{Policy, RbacKey, RbacKind, RbacObject, Who};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Resource;
use kube::api::{ApiResource, DynamicObject};
use serde::de::DeserializeOwned;
use watch::{Event, Follower, Health};

use super::compiled::Compiled;
use super::shared::Changed;
use crate::index::View;

/// The kinds that are followed.
pub(crate) const KINDS: [RbacKind; 4] =
    [RbacKind::ClusterRole, RbacKind::Role, RbacKind::ClusterRoleBinding, RbacKind::RoleBinding];

#[derive(Debug, Default)]
pub(crate) struct Rbac {
    policy: RwLock<Policy>,
    streams: RwLock<HashMap<RbacKind, Stream>>,
    compiled: Mutex<Compiled>,
    /// It was too old to be relied on, and not all of it has been heard since.
    overdue: AtomicBool,
}

/// One of the four.
#[derive(Debug)]
struct Stream {
    health: tokio::sync::watch::Receiver<Health>,
    /// Everything has been taken in once.
    complete: bool,
}

impl Rbac {
    /// Asks the policy, whether it can be relied on or not.
    pub(crate) fn read<R>(&self, question: impl FnOnce(&Policy) -> R) -> R {
        question(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets everything: the cluster is another one.
    pub(crate) fn reset(&self) {
        self.streams.write().unwrap_or_else(PoisonError::into_inner).clear();
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Policy::new();
        *self.compiled.lock().unwrap_or_else(PoisonError::into_inner) = Compiled::default();
        self.overdue.store(false, Ordering::SeqCst);
    }

    /// Why the policy cannot be relied on now, if that is so. Once it was too old, it counts again when all four kinds have been
    /// heard: they come back one by one, and what was revoked may be among those that are still to come.
    pub(crate) fn doubt(&self, max_age: SignedDuration, now: Timestamp) -> Option<String> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        let mut all_heard = true;
        for kind in KINDS {
            let Some(stream) = streams.get(&kind) else {
                return Some("its RBAC has not been read yet".to_owned());
            };
            let health = *stream.health.borrow();
            if !stream.complete {
                let why = if let Health::Lost { why, .. } = health { format!(": {why}") } else { String::new() };
                return Some(format!("its {kind:?}s have not been read yet{why}"));
            }
            let (since, why) = match health {
                Health::Synced { .. } => continue,
                Health::Absent { .. } => return Some(format!("it serves no {kind:?}s")),
                Health::Removed => return Some(format!("its {kind:?}s are not followed any more")),
                Health::Listing { since } => (since, "they are being read anew".to_owned()),
                Health::Lost { since, why } => (since, why.to_string()),
            };
            let age = now.duration_since(since);
            all_heard = false;
            if age > max_age || self.overdue.load(Ordering::SeqCst) {
                self.overdue.store(true, Ordering::SeqCst);
                return Some(format!("nothing has been heard of its {kind:?}s for {} s: {why}", age.as_secs()));
            }
        }
        if all_heard {
            self.overdue.store(false, Ordering::SeqCst);
        }
        None
    }

    /// What somebody sees: rows by any of the verbs, bodies by `get`.
    pub(crate) fn view(&self, who: &Who, row_verbs: &[String]) -> View {
        let policy = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.view(&policy, who, row_verbs)
    }

    /// Takes in one of the four streams until it ends.
    pub(crate) async fn follow(&self, kind: RbacKind, mut follower: Follower, changed: &Changed) {
        let stream = Stream { health: follower.health(), complete: false };
        self.streams.write().unwrap_or_else(PoisonError::into_inner).insert(kind, stream);
        let fence = follower.fence();
        let mut aside: Option<HashMap<RbacKey, RbacObject>> = Some(HashMap::new());
        while let Some(batch) = follower.next_batch(1000).await {
            let Some(_admission) = fence.enter().await else { return };
            let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
            for delivery in batch {
                self.take(kind, delivery.event(), &mut policy, &mut aside);
                // Nothing of it is kept on disk: after a restart all is read again.
                delivery.acknowledge();
            }
            drop(policy);
            changed.bump();
        }
    }

    fn take(
        &self,
        kind: RbacKind,
        event: &Event,
        policy: &mut Policy,
        aside: &mut Option<HashMap<RbacKey, RbacObject>>,
    ) {
        match event {
            Event::Applied(object) => {
                let Some(object) = read(kind, object) else {
                    // What cannot be read grants nothing, whatever it granted before.
                    let key = key(kind, object.metadata.namespace.as_deref(), object.metadata.name.as_deref());
                    tracing::warn!(%key, "an RBAC object cannot be read: it grants nothing");
                    return forget(&key, policy, aside);
                };
                match aside {
                    Some(aside) => drop(aside.insert(object.key(), object)),
                    None => policy.upsert(object),
                }
            }
            Event::Deleted(deleted) => {
                let key = key(kind, Some(&deleted.key.namespace), Some(&deleted.key.name));
                forget(&key, policy, aside);
            }
            Event::Absent => policy.replace(kind, Vec::<RbacObject>::new()),
            Event::Synced => {
                if let Some(aside) = aside.take() {
                    policy.replace(kind, aside.into_values());
                    let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
                    if let Some(stream) = streams.get_mut(&kind) {
                        stream.complete = true;
                    }
                }
            }
        }
    }
}

fn forget(key: &RbacKey, policy: &mut Policy, aside: &mut Option<HashMap<RbacKey, RbacObject>>) {
    match aside {
        Some(aside) => drop(aside.remove(key)),
        None => policy.remove(key),
    }
}

/// How the API server names one of the four.
pub(crate) fn resource(kind: RbacKind) -> ApiResource {
    match kind {
        RbacKind::ClusterRole => erased::<ClusterRole>(),
        RbacKind::Role => erased::<Role>(),
        RbacKind::ClusterRoleBinding => erased::<ClusterRoleBinding>(),
        RbacKind::RoleBinding => erased::<RoleBinding>(),
    }
}

fn erased<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

fn read(kind: RbacKind, object: &DynamicObject) -> Option<RbacObject> {
    match kind {
        RbacKind::ClusterRole => typed::<ClusterRole>(object).map(RbacObject::from),
        RbacKind::Role => typed::<Role>(object).map(RbacObject::from),
        RbacKind::ClusterRoleBinding => typed::<ClusterRoleBinding>(object).map(RbacObject::from),
        RbacKind::RoleBinding => typed::<RoleBinding>(object).map(RbacObject::from),
    }
}

fn typed<K: DeserializeOwned>(object: &DynamicObject) -> Option<K> {
    serde_json::to_value(object).and_then(serde_json::from_value).ok()
}

fn key(kind: RbacKind, namespace: Option<&str>, name: Option<&str>) -> RbacKey {
    let own = |text: Option<&str>| text.unwrap_or_default().to_owned();
    RbacKey { kind, namespace: own(namespace), name: own(name) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::index::Scope;

    fn rbac(objects: &[serde_json::Value]) -> Rbac {
        let rbac = Rbac::default();
        for object in objects {
            let kind = match object["kind"].as_str().unwrap() {
                "ClusterRole" => RbacKind::ClusterRole,
                "Role" => RbacKind::Role,
                "ClusterRoleBinding" => RbacKind::ClusterRoleBinding,
                _ => RbacKind::RoleBinding,
            };
            let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
            rbac.take(kind, &Event::Applied(Box::new(object)), &mut rbac.policy.write().unwrap(), &mut None);
        }
        rbac
    }

    fn scopes(rbac: &Rbac, user: &str, group: &str, resource: &str) -> (Scope, Scope) {
        let who = Who { user: user.to_owned(), groups: Vec::new() };
        match rbac.view(&who, &["list".to_owned(), "get".to_owned()]) {
            View::Granted { rows, bodies } => (rows.scope(group, resource), bodies.scope(group, resource)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn grants_become_scopes_of_the_index_and_nothing_stays_nothing() {
        let role = |verbs: &[&str], names: &[&str]| json!([{"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": verbs, "resourceNames": names}]);
        let binding = |kind: &str, namespace: Option<&str>, role: &str, user: &str| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": {"name": format!("{role}-{user}"), "namespace": namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "User", "name": user}],
            })
        };
        let named = |name: &str, rules| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        let rbac = rbac(&[
            named("list", role(&["list"], &[])),
            named("get", role(&["get"], &["one"])),
            named("empty", json!([])),
            binding("ClusterRoleBinding", None, "list", "jane"),
            binding("RoleBinding", Some("a"), "list", "jim"),
            binding("RoleBinding", Some("a"), "get", "jim"),
            binding("ClusterRoleBinding", None, "empty", "joe"),
        ]);
        let (rows, bodies) = scopes(&rbac, "jane", "", "configmaps");
        assert_eq!((rows.everywhere, bodies), (true, Scope::default()), "who may list sees no body");
        let (rows, bodies) = scopes(&rbac, "jim", "", "configmaps");
        assert_eq!((rows.everywhere, rows.namespaces.len()), (false, 1));
        assert_eq!(bodies.names, BTreeSet::from([(Some("a".to_owned()), "one".to_owned())]));
        assert_eq!(scopes(&rbac, "joe", "", "configmaps"), (Scope::default(), Scope::default()));
        assert_eq!(scopes(&rbac, "jim", "apps", "configmaps"), (Scope::default(), Scope::default()));
    }

    /// A policy of which everything has been read.
    fn synced() -> (Rbac, Vec<tokio::sync::watch::Sender<Health>>) {
        let rbac = Rbac::default();
        let now = Timestamp::now();
        let unread =
            || rbac.doubt(SignedDuration::from_secs(60), now).is_some_and(|why| why.contains("not been read yet"));
        assert!(unread());
        let mut senders = Vec::new();
        for kind in KINDS {
            let (sender, health) = tokio::sync::watch::channel(Health::Synced { since: now });
            rbac.streams.write().unwrap().insert(kind, Stream { health, complete: false });
            senders.push(sender);
        }
        for kind in KINDS {
            assert!(unread(), "{kind:?}");
            rbac.take(kind, &Event::Synced, &mut Policy::new(), &mut Some(HashMap::new()));
        }
        (rbac, senders)
    }

    #[test]
    fn a_policy_counts_only_when_all_of_it_was_read_and_for_as_long_as_it_is_heard() {
        let (rbac, senders) = synced();
        let now = Timestamp::now();
        let max_age = SignedDuration::from_secs(60);
        let synced = Health::Synced { since: now };
        assert_eq!(rbac.doubt(max_age, now), None);
        let ago = |seconds| now - SignedDuration::from_secs(seconds);
        let table = [
            (Health::Lost { since: ago(59), why: watch::Why::Forbidden }, None),
            (Health::Lost { since: ago(61), why: watch::Why::Forbidden }, Some("permission is missing")),
            (Health::Synced { since: ago(0) }, None),
            (Health::Listing { since: ago(59) }, None),
            (Health::Listing { since: ago(61) }, Some("being read anew")),
            (Health::Absent { since: ago(0) }, Some("serves no")),
            (Health::Removed, Some("not followed")),
            (Health::Synced { since: ago(1000) }, None),
        ];
        for sender in &senders {
            for (health, expected) in table {
                sender.send_replace(health);
                let doubt = rbac.doubt(max_age, now);
                assert_eq!(doubt.is_some(), expected.is_some(), "{health:?}: {doubt:?}");
                assert!(expected.is_none_or(|part| doubt.unwrap().contains(part)), "{health:?}");
            }
            sender.send_replace(synced);
        }
    }

    #[test]
    fn a_policy_that_was_too_old_counts_again_when_all_of_it_has_been_heard() {
        let (rbac, senders) = synced();
        let now = Timestamp::now();
        let max_age = SignedDuration::from_secs(60);
        let lost =
            |seconds| Health::Lost { since: now - SignedDuration::from_secs(seconds), why: watch::Why::Forbidden };
        senders[0].send_replace(lost(61));
        senders[3].send_replace(lost(30));
        assert!(rbac.doubt(max_age, now).unwrap().contains("ClusterRole"));
        senders[0].send_replace(Health::Synced { since: now });
        let doubt = rbac.doubt(max_age, now).expect("a binding may have gone half a minute ago");
        assert!(doubt.contains("RoleBinding"), "{doubt}");
        senders[3].send_replace(Health::Synced { since: now });
        assert_eq!(rbac.doubt(max_age, now), None);
        senders[3].send_replace(lost(30));
        assert_eq!(rbac.doubt(max_age, now), None, "half a minute is not too old");
    }
}
