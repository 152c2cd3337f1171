//! SubjectAccessReview against the API server, with bounded caches and one question at a time per answer.

use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use moka::Expiry;
use moka::future::Cache;

use crate::action::Action;
use crate::authenticate::ask;
use crate::error::Refusal;
use crate::identity::Identity;
use crate::metrics::{Metrics, Review};

/// How long answers count, and how many are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) allow: Duration,
    pub(crate) deny: Duration,
    pub(crate) entries: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct AccessReviewer {
    reviews: Api<SubjectAccessReview>,
    deadline: Duration,
    decisions: Cache<[u8; 32], bool>,
    metrics: Metrics,
}

impl AccessReviewer {
    pub(crate) fn new(client: kube::Client, deadline: Duration, keep: Keep, metrics: Metrics) -> AccessReviewer {
        let decisions = Cache::builder().max_capacity(keep.entries).expire_after(keep).build();
        AccessReviewer { reviews: Api::all(client), deadline, decisions, metrics }
    }

    /// Whether Kubernetes lets this identity do this. Only answers are kept, never failures to answer.
    pub(crate) async fn may(&self, who: &Identity, action: &Action) -> Result<bool, Refusal> {
        let key = key(who, action)?;
        let question = self.decisions.try_get_with(key, self.review(who, action));
        question.await.map_err(|refusal| (*refusal).clone())
    }

    async fn review(&self, who: &Identity, action: &Action) -> Result<bool, Refusal> {
        let review = SubjectAccessReview { spec: spec(who, action), ..Default::default() };
        let options = PostParams::default();
        let answer = ask(self.deadline, "authorization", || self.reviews.create(&options, &review)).await;
        self.metrics.review(Review::Access, answer.is_ok());
        let status = answer?.status.unwrap_or_default();
        Ok(status.allowed && !status.denied.unwrap_or(false))
    }
}

impl Expiry<[u8; 32], bool> for Keep {
    fn expire_after_create(&self, _: &[u8; 32], allowed: &bool, _: Instant) -> Option<Duration> {
        Some(if *allowed { self.allow } else { self.deny })
    }
}

/// Everything the answer depends on: two callers share an answer only if Kubernetes could not tell them apart.
fn key(who: &Identity, action: &Action) -> Result<[u8; 32], Refusal> {
    let question = serde_json::to_vec(&(&who.user, &who.uid, &who.groups, &who.extra, action));
    let question = question.map_err(|_| Refusal::Unavailable { what: "authorization" })?;
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, &question).as_ref());
    Ok(key)
}

fn spec(who: &Identity, action: &Action) -> SubjectAccessReviewSpec {
    let mut spec = SubjectAccessReviewSpec {
        user: Some(who.user.clone()),
        uid: who.uid.clone(),
        groups: Some(who.groups.clone()),
        extra: (!who.extra.is_empty()).then(|| who.extra.clone()),
        ..Default::default()
    };
    match action {
        Action::NonResource { verb, path } => {
            spec.non_resource_attributes =
                Some(NonResourceAttributes { path: Some((*path).to_owned()), verb: Some((*verb).to_owned()) });
        }
        Action::Resource { verb, group, resource, subresource, namespace, name } => {
            spec.resource_attributes = Some(ResourceAttributes {
                verb: Some((*verb).to_owned()),
                group: Some((*group).to_owned()),
                resource: Some((*resource).to_owned()),
                subresource: subresource.map(str::to_owned),
                namespace: namespace.clone(),
                name: name.clone(),
                ..Default::default()
            });
        }
    }
    spec
}
