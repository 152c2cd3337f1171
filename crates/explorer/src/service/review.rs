//! What a cluster's own authorizer says, where RBAC is not all that decides there.
//!
//! It is asked per verb, resource and namespace in which there are rows; answers count for some seconds. Whoever may do
//! something in all namespaces may not be able to in each of them, because such an authorizer may also deny: so each is asked
//! about by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use access::Identity;
use access::rbac::Who;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use moka::future::Cache;
use tokio::time::timeout;

use super::metrics::Metrics;
use crate::index::{Grants, Scope, View};

/// Namespaces with rows, by group and resource; the empty one for objects of the whole cluster.
pub(crate) type Places = BTreeMap<(String, String), BTreeSet<String>>;

/// So many answers are kept.
const MOST_KEPT: u64 = 100_000;
/// So many questions are put for one caller: more would take longer than anybody waits.
const MOST_ASKED: usize = 5000;
/// So many at the same time.
const AT_ONCE: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Reviewer {
    reviews: Api<SubjectAccessReview>,
    deadline: Duration,
    answers: Cache<Question, bool>,
    metrics: Metrics,
}

/// Whom the authorizers of a cluster are asked about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    who: Who,
    /// As the cluster's own authenticator told them; no other cluster is told of them.
    uid: Option<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Caller {
    /// Somebody whom the authenticator of the cluster itself proved.
    pub(crate) fn of_its_own(who: Who, identity: &Identity) -> Caller {
        Caller { who, uid: identity.uid.clone(), extra: identity.extra.clone() }
    }

    /// Somebody who is a name and groups there, by a rule of ours.
    pub(crate) fn by_rule(who: Who) -> Caller {
        Caller { who, uid: None, extra: BTreeMap::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    caller: Arc<Caller>,
    verb: String,
    group: String,
    resource: String,
    namespace: String,
}

/// The cluster did not answer: nothing is granted, and it is told.
#[derive(Clone, Copy, Debug)]
struct NoAnswer;

impl Reviewer {
    pub(crate) fn new(client: kube::Client, deadline: Duration, keep: Duration, metrics: Metrics) -> Reviewer {
        let answers = Cache::builder().max_capacity(MOST_KEPT).time_to_live(keep).build();
        Reviewer { reviews: Api::all(client), deadline, answers, metrics }
    }

    /// What somebody sees of the rows that there are.
    pub(crate) async fn view(&self, caller: Caller, row_verbs: &[String], places: &Places) -> View {
        let caller = Arc::new(caller);
        let verbs: BTreeSet<&str> = row_verbs.iter().map(String::as_str).chain(["get"]).collect();
        let mut questions = Vec::new();
        for ((group, resource), namespaces) in places {
            for (namespace, verb) in
                namespaces.iter().flat_map(|namespace| verbs.iter().map(move |verb| (namespace, verb)))
            {
                let caller = Arc::clone(&caller);
                let (group, resource, namespace) = (group.clone(), resource.clone(), namespace.clone());
                questions.push(Question { caller, verb: (*verb).to_owned(), group, resource, namespace });
            }
        }
        if questions.len() > MOST_ASKED {
            return View::Withheld(format!(
                "its authorizer would have to be asked {} questions: collect fewer kinds there, or use the authorizer rbac",
                questions.len()
            ));
        }
        let asked = futures::stream::iter(questions).map(|question| self.ask(question)).buffer_unordered(AT_ONCE);
        let answers = timeout(self.deadline, asked.try_collect::<Vec<(Question, bool)>>()).await;
        let Ok(Ok(answers)) = answers else {
            return View::Withheld("its authorizer did not answer a SubjectAccessReview".to_owned());
        };
        let (mut rows, mut bodies) = (ByReview::default(), ByReview::default());
        for (question, _) in answers.into_iter().filter(|(_, allowed)| *allowed) {
            if row_verbs.contains(&question.verb) {
                rows.add(&question);
            }
            if question.verb == "get" {
                bodies.add(&question);
            }
        }
        View::Granted { rows: Arc::new(rows), bodies: Arc::new(bodies) }
    }

    async fn ask(&self, question: Question) -> Result<(Question, bool), NoAnswer> {
        let answer = self.answers.try_get_with(question.clone(), self.review(&question)).await;
        answer.map(|allowed| (question, allowed)).map_err(|no_answer| *no_answer)
    }

    async fn review(&self, question: &Question) -> Result<bool, NoAnswer> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let spec = SubjectAccessReviewSpec {
            user: some(&question.caller.who.user),
            groups: Some(question.caller.who.groups.clone()),
            uid: question.caller.uid.clone(),
            extra: (!question.caller.extra.is_empty()).then(|| question.caller.extra.clone()),
            resource_attributes: Some(ResourceAttributes {
                verb: some(&question.verb),
                group: Some(question.group.clone()),
                resource: some(&question.resource),
                namespace: some(&question.namespace),
                ..ResourceAttributes::default()
            }),
            non_resource_attributes: None,
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = self.reviews.create(&PostParams::default(), &review).await;
        self.metrics.reviewed(answer.is_ok());
        let status = answer.ok().and_then(|review| review.status).ok_or(NoAnswer)?;
        let denied = status.denied.unwrap_or(false);
        // RBAC never denies: this is an authorizer that failed, and by its policy that denies.
        if denied && status.evaluation_error.is_some_and(|fault| !fault.is_empty()) {
            return Err(NoAnswer);
        }
        Ok(status.allowed && !denied)
    }
}

/// Where a resource is granted.
#[derive(Debug, Default)]
struct ByReview(BTreeMap<(String, String), Scope>);

impl ByReview {
    fn add(&mut self, question: &Question) {
        let scope = self.0.entry((question.group.clone(), question.resource.clone())).or_default();
        if question.namespace.is_empty() {
            // Objects of the whole cluster: where there are such, there are no others of the kind.
            scope.everywhere = true;
        } else {
            scope.namespaces.insert(question.namespace.clone());
        }
    }
}

impl Grants for ByReview {
    fn scope(&self, group: &str, resource: &str) -> Scope {
        self.0.get(&(group.to_owned(), resource.to_owned())).cloned().unwrap_or_default()
    }
}
