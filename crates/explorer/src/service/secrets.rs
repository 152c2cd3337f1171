//! Clusters by kubeconfig Secrets in the server's own namespace.
//!
//! A Secret with the label `stateward.dev/cluster` is a cluster, under the name that the label says (or that of the Secret, if
//! it says none). Its data: `kubeconfig`, and `rules` where the defaults of [`Rules`] do not fit. A stream of their metadata
//! tells when one came, changed or went; they are then read whole, as one list.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ApiResource, ListParams};
use tokio::time::timeout;
use watch::{Follower, Health, Source};
use zeroize::Zeroizing;

use super::options::{Rules, Secrets};
use super::shared::Shared;

pub(crate) const LABEL: &str = "stateward.dev/cluster";
/// Names the stream; no cluster can have this name.
pub(crate) const STREAM: &str = "(secrets)";
const AGAIN: Duration = Duration::from_secs(2);

/// A cluster that a Secret describes.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) secret: String,
    pub(crate) name: String,
    /// Of the Secret: another one is another content.
    pub(crate) revision: String,
    /// Or what is wrong with it.
    pub(crate) content: Result<Description, String>,
}

#[derive(Clone)]
pub(crate) struct Description {
    pub(crate) kubeconfig: Zeroizing<String>,
    pub(crate) rules: Rules,
}

/// Tells all Secrets whenever one came, changed or went, for ever; and why they cannot be read, or that they can.
pub(crate) async fn follow<F: Future<Output = ()>>(
    shared: &Shared,
    secrets: &Secrets,
    told: impl Fn(Vec<Described>) -> F,
    unread: impl Fn(Option<String>),
) {
    let fault = |why: &dyn fmt::Display| {
        format!(
            "clusters by Secret are not looked for: the Secrets of the namespace '{}' cannot be read, which takes get, list \
             and watch on secrets there: {why}",
            secrets.namespace
        )
    };
    loop {
        let source = Source {
            namespace: Some(secrets.namespace.clone()),
            labels: Some(LABEL.to_owned()),
            ..Source::new(STREAM, secrets.client.clone(), ApiResource::erase::<Secret>(&()))
        };
        match watch::follow(&shared.own_keys, source, shared.settings.watch.clone()).await {
            Ok(follower) => {
                let mut health = follower.health();
                let watch = async {
                    loop {
                        let now = *health.borrow_and_update();
                        match now {
                            Health::Lost { why, .. } => unread(Some(fault(&why))),
                            Health::Synced { .. } => unread(None),
                            Health::Listing { .. } | Health::Absent { .. } | Health::Removed => {}
                        }
                        if health.changed().await.is_err() {
                            // The other half sees the end by itself.
                            std::future::pending::<()>().await;
                        }
                    }
                };
                let listed = |why: Option<&'static str>| unread(why.map(|why| fault(&why)));
                tokio::select! {
                    () = read(shared, secrets, follower, &told, &listed) => {}
                    () = watch => {}
                }
            }
            Err(error) => {
                tracing::warn!(%error, "Secrets with kubeconfigs cannot be followed");
                unread(Some(fault(&error)));
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn read<F: Future<Output = ()>>(
    shared: &Shared,
    secrets: &Secrets,
    mut follower: Follower,
    told: &impl Fn(Vec<Described>) -> F,
    listed: &impl Fn(Option<&'static str>),
) {
    let api: Api<Secret> = Api::namespaced(secrets.client.clone(), &secrets.namespace);
    let wanted = ListParams::default().labels(LABEL);
    while let Some(batch) = follower.next_batch(100).await {
        let list = loop {
            if let Ok(Ok(list)) = timeout(shared.settings.deadline, api.list(&wanted)).await {
                break list;
            }
            tracing::warn!("Secrets with kubeconfigs cannot be read: grant list on secrets in the namespace");
            listed(Some("they cannot be listed"));
            tokio::time::sleep(AGAIN).await;
        };
        listed(None);
        told(list.items.into_iter().map(describe).collect()).await;
        for delivery in batch {
            delivery.acknowledge();
        }
    }
}

fn describe(secret: Secret) -> Described {
    let metadata = secret.metadata;
    let own = metadata.name.unwrap_or_default();
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(LABEL)).filter(|label| !label.is_empty());
    let data = secret.data.unwrap_or_default();
    let text = |field: &str| data.get(field).map(|bytes| String::from_utf8(bytes.0.clone()));
    let content = || {
        let kubeconfig = match text("kubeconfig") {
            Some(Ok(text)) => Zeroizing::new(text),
            Some(Err(_)) => return Err("data.kubeconfig: it is no text".to_owned()),
            None => return Err("data.kubeconfig: it is missing: put the kubeconfig there".to_owned()),
        };
        let rules = match text("rules") {
            None => Rules::default(),
            Some(text) => text.ok().and_then(|text| serde_saphyr::from_str(&text).ok()).ok_or(
                "data.rules: they cannot be read: write identity (none, shared or map), tokens, authorizer (rbac or review)",
            )?,
        };
        Ok(Description { kubeconfig, rules })
    };
    Described {
        name: label.cloned().unwrap_or_else(|| own.clone()),
        secret: own,
        revision: metadata.resource_version.unwrap_or_default(),
        content: content(),
    }
}

impl std::fmt::Debug for Description {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Description").field("rules", &self.rules).finish_non_exhaustive()
    }
}
