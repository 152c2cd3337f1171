//! What a cluster's own authorizer says, where RBAC is not all that decides there.
//!
//! It is asked per verb, resource and namespace in which there are rows; answers count for some seconds. Whoever may do
//! something in all namespaces may not be able to in each of them, because such an authorizer may also deny: so each is asked
//! about by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use access::Identity;
use access::rbac::Who;
use futures::StreamExt;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use moka::future::Cache;
use tokio::time::timeout;

use super::member::PATIENCE;
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
    /// Callers about whom nothing was answered in time; the value says whether somebody asks about them now.
    silent: Cache<Arc<Caller>, Arc<AtomicBool>>,
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

type Answers = Vec<(Question, bool)>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    caller: Arc<Caller>,
    verb: String,
    group: String,
    resource: String,
    namespace: String,
}

/// Why nothing is granted, which is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoAnswer {
    /// The cluster said that it does not know, or could not be asked.
    Failed,
    /// For so long as nobody waits.
    Silent,
}

impl Reviewer {
    pub(crate) fn new(client: kube::Client, deadline: Duration, keep: Duration, metrics: Metrics) -> Reviewer {
        let answers = Cache::builder().max_capacity(MOST_KEPT).time_to_live(keep).build();
        let silent = Cache::builder().max_capacity(MOST_KEPT).time_to_live(deadline).build();
        Reviewer { reviews: Api::all(client), deadline, answers, silent, metrics }
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
        let Ok(answers) = self.ask_or_be_silent(&caller, questions).await else {
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

    /// Whoever waited in vain does not wait again: they are told at once, and it is asked beside.
    async fn ask_or_be_silent(&self, caller: &Arc<Caller>, questions: Vec<Question>) -> Result<Answers, NoAnswer> {
        if let Some(asking) = self.silent.get(caller).await {
            if !asking.swap(true, Ordering::SeqCst) {
                let (this, caller) = (self.clone(), Arc::clone(caller));
                tokio::spawn(async move { this.note(&caller, this.ask_all(questions).await).await });
            }
            return Err(NoAnswer::Silent);
        }
        let answers = self.ask_all(questions).await;
        self.note(caller, answers).await
    }

    async fn note(&self, caller: &Arc<Caller>, answers: Result<Answers, NoAnswer>) -> Result<Answers, NoAnswer> {
        match &answers {
            Err(NoAnswer::Silent) => self.silent.insert(Arc::clone(caller), Arc::default()).await,
            Ok(_) | Err(NoAnswer::Failed) => self.silent.invalidate(caller).await,
        }
        answers
    }

    /// Many questions may take their time, as long as answers come.
    async fn ask_all(&self, questions: Vec<Question>) -> Result<Answers, NoAnswer> {
        let asked = async {
            let mut asked =
                futures::stream::iter(questions).map(|question| self.ask(question)).buffer_unordered(AT_ONCE);
            let mut answers = Vec::new();
            while let Some(answer) = timeout(PATIENCE, asked.next()).await.map_err(|_elapsed| NoAnswer::Silent)? {
                answers.push(answer?);
            }
            Ok(answers)
        };
        timeout(self.deadline, asked).await.unwrap_or(Err(NoAnswer::Silent))
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
        let status = answer.ok().and_then(|review| review.status).ok_or(NoAnswer::Failed)?;
        let denied = status.denied.unwrap_or(false);
        // RBAC never denies: this is an authorizer that failed, and by its policy that denies.
        if denied && status.evaluation_error.is_some_and(|fault| !fault.is_empty()) {
            return Err(NoAnswer::Failed);
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
