//! TokenReview against the API server, with a bounded cache keyed by the token's hash.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::{Api, PostParams};
use moka::future::Cache;
use tokio::sync::Semaphore;

use super::ask;
use crate::error::Refusal;
use crate::identity::{Identity, Source};
use crate::metrics::{Metrics, Review};

#[derive(Clone, Debug)]
pub(crate) struct TokenReviewer {
    reviews: Api<TokenReview>,
    audiences: Arc<[String]>,
    deadline: Duration,
    answers: Cache<[u8; 32], Option<Arc<Identity>>>,
    in_flight: Arc<Semaphore>,
    metrics: Metrics,
}

/// How long answers are kept, how many, and how many questions may be open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) time: Duration,
    pub(crate) entries: u64,
    /// More are refused with 429: a flood of made-up tokens must not become a flood on the API server.
    pub(crate) in_flight: usize,
}

impl TokenReviewer {
    pub(crate) fn new(
        client: kube::Client,
        audiences: Arc<[String]>,
        deadline: Duration,
        keep: Keep,
        metrics: Metrics,
    ) -> TokenReviewer {
        let answers = Cache::builder().max_capacity(keep.entries).time_to_live(keep.time).build();
        let in_flight = Arc::new(Semaphore::new(keep.in_flight));
        TokenReviewer { reviews: Api::all(client), audiences, deadline, answers, in_flight, metrics }
    }

    /// The identity that Kubernetes sees in a token with this SHA-256; `None` if it sees none. Failures to answer are not kept.
    pub(crate) async fn identify(&self, token: &str, hash: [u8; 32]) -> Result<Option<Arc<Identity>>, Refusal> {
        self.answers.try_get_with(hash, self.review(token)).await.map_err(|refusal| (*refusal).clone())
    }

    async fn review(&self, token: &str) -> Result<Option<Arc<Identity>>, Refusal> {
        let _permit = self.in_flight.try_acquire().map_err(|_| BUSY)?;
        let audiences = (!self.audiences.is_empty()).then(|| self.audiences.to_vec());
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences };
        let review = TokenReview { spec, ..Default::default() };
        let options = PostParams::default();
        let answer = ask(self.deadline, "authentication", || self.reviews.create(&options, &review)).await;
        self.metrics.review(Review::Token, answer.is_ok());
        Ok(identity_of(answer?, &self.audiences).map(Arc::new))
    }
}

const BUSY: Refusal = Refusal::Busy { what: "tokens are being reviewed at this moment", setting: "access.reviews" };

fn identity_of(review: TokenReview, wanted: &[String]) -> Option<Identity> {
    let status = review.status?;
    if !status.authenticated.unwrap_or(false) {
        return None;
    }
    // An authenticator that knows nothing of audiences answers with none: such a token is for the API server alone.
    let audiences = status.audiences.unwrap_or_default();
    if !wanted.is_empty() && !audiences.iter().any(|audience| wanted.contains(audience)) {
        return None;
    }
    let user = status.user?;
    let mut identity = Identity::new(Source::TokenReview, user.username?);
    identity.uid = user.uid.filter(|uid| !uid.is_empty());
    identity.groups = user.groups.unwrap_or_default();
    identity.extra = user.extra.unwrap_or_default();
    identity.admitted()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::{TokenReviewStatus, UserInfo};

    use super::*;

    #[test]
    fn an_answer_counts_only_for_a_wanted_audience() {
        let table: &[(bool, &[&str], &[&str], bool)] = &[
            (true, &[], &[], true),
            (true, &["api"], &[], true),
            (true, &["stateward"], &["stateward"], true),
            (true, &["api", "stateward"], &["stateward"], true),
            (true, &["api"], &["stateward"], false),
            (true, &[], &["stateward"], false),
            (false, &["stateward"], &["stateward"], false),
        ];
        let owned = |list: &[&str]| list.iter().map(|&item| item.to_owned()).collect::<Vec<_>>();
        for (authenticated, answered, wanted, expected) in table {
            let status = TokenReviewStatus {
                authenticated: Some(*authenticated),
                audiences: Some(owned(answered)),
                user: Some(UserInfo { username: Some("jane".to_owned()), ..Default::default() }),
                ..Default::default()
            };
            let review = TokenReview { status: Some(status), ..Default::default() };
            assert_eq!(identity_of(review, &owned(wanted)).is_some(), *expected, "{answered:?} for {wanted:?}");
        }
    }
}
