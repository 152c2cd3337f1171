//! Decisions of a real API server. The gate remembers answers for ten seconds: what that saves is a round trip, and
//! an answer that it does not have must cost no more than that round trip does without the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use access::{Action, Authorities, Authorizer, Certificates, Gate, Identity, Presented, Settings, TokenAuthority};
use anyhow::{Result, ensure};
use http::HeaderMap;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use testbed::{AUDIENCE, Cluster, Scope, rule, subject};

use super::bearer;
use crate::measure::{Bench, Comparison, Limit, Question};

const GROUP: &str = "stateward.dev";

const REMEMBERED_TOKEN: Question = Question {
    ours: "token remembered",
    against: "TokenReview",
    limit: Limit { at_least: 20.0, why: "a hash and a look into memory, against a round trip to the API server" },
};

const REMEMBERED_DECISION: Question = Question {
    ours: "decision remembered",
    against: "SubjectAccessReview",
    limit: Limit { at_least: 20.0, why: "a hash and a look into memory, against a round trip to the API server" },
};

const NEW_DECISION: Question = Question {
    ours: "decision not remembered",
    against: "SubjectAccessReview",
    limit: Limit {
        at_least: 0.3,
        why: "the same round trip and next to nothing besides, but the API server is a noisy peer",
    },
};

/// What both sides need: who asks, about whom, and where.
struct Setting {
    gate: Gate,
    headers: HeaderMap,
    caller: Arc<Identity>,
    action: Action,
    /// How many questions were new.
    asked: AtomicU64,
    token_reviews: Api<TokenReview>,
    token_review: TokenReview,
    access_reviews: Api<SubjectAccessReview>,
    access_review: SubjectAccessReview,
}

pub(super) fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let setting = Arc::new(bench.wait_for(Setting::new())?);
    let review_token = || bench.together(1, &setting, |setting| async move { setting.review_token().await });
    let review_access = || bench.together(1, &setting, |setting| async move { setting.review_access().await });
    let identify = || bench.together(1, &setting, |setting| async move { setting.identify().await });
    let decide = || bench.together(1, &setting, |setting| async move { setting.decide().await });
    let decide_anew = || bench.together(1, &setting, |setting| async move { setting.decide_anew().await });
    Ok(vec![
        bench.compare(REMEMBERED_TOKEN, identify, review_token)?,
        bench.compare(REMEMBERED_DECISION, decide, review_access)?,
        bench.compare(NEW_DECISION, decide_anew, review_access)?,
    ])
}

impl Setting {
    async fn new() -> Result<Setting> {
        let cluster = Cluster::shared().await;
        let delegator = cluster.service_account_with_auth_delegator().await;
        let namespace = cluster.namespace("bench").await;
        cluster.service_account(&namespace, "caller").await;
        let account = [subject::service_account(&namespace, "caller")];
        cluster.grant(Scope::Namespace(&namespace), &account, &[rule(&["get"], &[GROUP], &["states"])]).await;
        let token = cluster.token_request(&namespace, "caller", &[AUDIENCE], 3600).await;
        let headers = bearer(&token)?;
        let client = cluster.client_as(&delegator.kubeconfig);
        let audiences = vec![AUDIENCE.to_owned()];
        let gate = Gate::new(
            TokenAuthority::Review { client: client.clone(), audiences: audiences.clone() },
            Authorizer::Review { client: client.clone() },
            Authorities::default(),
            Settings::default(),
            access::metrics::Metrics::default(),
        )?;
        let presented = Presented { headers: &headers, certificates: &Certificates::default(), address: None };
        let caller = gate.authenticate(presented).await?;
        let spec = TokenReviewSpec { token: Some(token), audiences: Some(audiences) };
        Ok(Setting {
            gate,
            headers,
            action: Action::on("get", GROUP, "states").in_namespace(&namespace),
            asked: AtomicU64::new(0),
            token_reviews: Api::all(client.clone()),
            token_review: TokenReview { spec, ..TokenReview::default() },
            access_reviews: Api::all(client),
            access_review: question(&caller, namespace),
            caller,
        })
    }

    async fn identify(&self) -> Result<()> {
        let presented = Presented { headers: &self.headers, certificates: &Certificates::default(), address: None };
        std::hint::black_box(self.gate.authenticate(presented).await?);
        Ok(())
    }

    async fn decide(&self) -> Result<()> {
        Ok(self.gate.authorize(&self.caller, &self.action).await?)
    }

    /// Another name each time is another question each time.
    async fn decide_anew(&self) -> Result<()> {
        let name = format!("state-{}", self.asked.fetch_add(1, Relaxed));
        Ok(self.gate.authorize(&self.caller, &self.action.clone().named(name)).await?)
    }

    async fn review_token(&self) -> Result<()> {
        let answer = self.token_reviews.create(&PostParams::default(), &self.token_review).await?;
        let known = answer.status.and_then(|status| status.authenticated);
        ensure!(known == Some(true), "the API server does not know the token");
        Ok(())
    }

    async fn review_access(&self) -> Result<()> {
        let answer = self.access_reviews.create(&PostParams::default(), &self.access_review).await?;
        ensure!(answer.status.is_some_and(|status| status.allowed), "the API server says no");
        Ok(())
    }
}

/// The question that the gate puts, by hand.
fn question(caller: &Identity, namespace: String) -> SubjectAccessReview {
    let attributes = ResourceAttributes {
        verb: Some("get".to_owned()),
        group: Some(GROUP.to_owned()),
        resource: Some("states".to_owned()),
        namespace: Some(namespace),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(caller.user.clone()),
        uid: caller.uid.clone(),
        groups: Some(caller.groups.clone()),
        extra: Some(caller.extra.clone()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}
