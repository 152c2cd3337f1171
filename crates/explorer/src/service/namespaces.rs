//! The namespaces of a cluster: whose they are, and when one is gone.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::ApiResource;
use watch::{Event, Follower, Uid};

use super::shared::Shared;

const TENANT: &str = "toolkit.fluxcd.io/tenant";

pub(crate) fn resource() -> ApiResource {
    ApiResource::erase::<Namespace>(&())
}

/// Takes in the namespaces of a cluster until the stream ends.
pub(crate) async fn follow(shared: &Shared, cluster: &str, mut follower: Follower) {
    let fence = follower.fence();
    let mut namespaces = Namespaces { shared, cluster, known: HashMap::new(), complete: false };
    while let Some(batch) = follower.next_batch(500).await {
        {
            let Some(_admission) = fence.enter().await else { return };
            for delivery in &batch {
                namespaces.take(delivery.event());
            }
        }
        shared.changed.bump();
        if shared.store.flush().wait().await.is_err() {
            return;
        }
        for delivery in batch {
            delivery.acknowledge();
        }
    }
}

/// The namespace that has a name now.
struct Known {
    uid: Uid,
    /// In milliseconds since 1970.
    created: Option<i64>,
}

struct Namespaces<'a> {
    shared: &'a Shared,
    cluster: &'a str,
    known: HashMap<String, Known>,
    complete: bool,
}

impl Namespaces<'_> {
    fn take(&mut self, event: &Event) {
        let (store, cluster) = (&self.shared.store, self.cluster);
        match event {
            Event::Applied(object) => {
                let name = object.metadata.name.clone().unwrap_or_default();
                let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0.as_millisecond());
                let now = Known { uid: Uid::of(object), created };
                if self.known.get(&name).is_some_and(|before| before.uid != now.uid) {
                    self.end(&name);
                }
                drop(store.namespace_began(cluster, &name, created));
                self.known.insert(name.clone(), now);
                let tenant = object.metadata.labels.as_ref().and_then(|labels| labels.get(TENANT));
                drop(store.set_tenant(cluster, &name, tenant.map(String::as_str)));
            }
            Event::Deleted(deleted) => {
                let name = deleted.key.name.to_string();
                self.end(&name);
                let other = self.known.get(&name).filter(|known| deleted.uid.as_ref() != Some(&known.uid));
                if let Some(other) = other {
                    // The one of that name is another: only what was left of the older is nobody's.
                    drop(store.namespace_began(cluster, &name, other.created));
                } else {
                    self.known.remove(&name);
                    drop(store.set_tenant(cluster, &name, None));
                }
            }
            Event::Absent => {}
            Event::Synced => {
                if !self.complete {
                    self.complete = true;
                    self.end_unknown();
                }
            }
        }
    }

    /// What is left of namespaces that went while nobody looked.
    fn end_unknown(&self) {
        let left = self.shared.store.read().known_namespaces(self.cluster);
        for name in left.iter().filter(|name| !self.known.contains_key(*name)) {
            self.end(name);
            drop(self.shared.store.set_tenant(self.cluster, name, None));
        }
    }

    fn end(&self, name: &str) {
        drop(self.shared.store.namespace_ended(self.cluster, name));
    }
}
