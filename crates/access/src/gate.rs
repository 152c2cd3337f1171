//! The one door of this crate.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderMap;

use crate::action::Action;
use crate::authenticate::certificate::{Authorities, AuthorityError, Certificates};
use crate::authenticate::front_proxy::Said;
use crate::authenticate::newcomers::Newcomers;
use crate::authenticate::token;
use crate::authenticate::token_review::{self, TokenReviewer};
use crate::authorize::review::{AccessReviewer, Keep};
use crate::authorize::roles::{Binding, may};
use crate::error::Refusal;
use crate::identity::Identity;
use crate::metrics::{Answer, Metrics};
use crate::tokens::TokenStore;

/// Answers *who is this* and *may they*. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tokens: Tokens,
    authorities: ArcSwap<Authorities>,
    decide: Decide,
    newcomers: Newcomers,
    token_bytes: usize,
    metrics: Metrics,
}

#[derive(Debug)]
enum Tokens {
    Static(TokenStore),
    Review(Box<TokenReviewer>),
}

#[derive(Debug)]
enum Decide {
    Roles(Vec<Binding>),
    Review(Box<AccessReviewer>),
}

/// Who knows tokens.
#[expect(missing_debug_implementations, reason = "a client has none, and it would show credentials if it had")]
pub enum TokenAuthority {
    /// Standalone: the tokens in our own database.
    Static(TokenStore),
    /// The API server, for tokens with one of these audiences (none given: those of the API server).
    Review { client: kube::Client, audiences: Vec<String> },
}

/// Who decides.
#[expect(missing_debug_implementations, reason = "a client has none, and it would show credentials if it had")]
pub enum Authorizer {
    /// Standalone: the grants of static tokens, and these.
    Roles(Vec<Binding>),
    /// The API server.
    Review { client: kube::Client },
}

/// Times and sizes of the gate's caches.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long an answer of TokenReview counts.
    pub authentication_ttl: Duration,
    /// How long a *yes* of SubjectAccessReview counts.
    pub allow_ttl: Duration,
    /// How long a *no* of SubjectAccessReview counts.
    pub deny_ttl: Duration,
    /// How many answers each cache holds.
    pub cache_entries: u64,
    /// How long the API server has to answer, retries included.
    pub review_deadline: Duration,
    /// How many TokenReviews may be open at once.
    pub reviews: usize,
    /// How many tokens per second one address may present that are refused, or not known to be good yet.
    pub new_tokens: u32,
    /// The longest token that is looked at.
    pub token_bytes: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        let ttl = Duration::from_secs(10);
        Settings {
            authentication_ttl: ttl,
            allow_ttl: ttl,
            deny_ttl: ttl,
            cache_entries: 10_000,
            review_deadline: Duration::from_secs(5),
            reviews: 64,
            new_tokens: 50,
            token_bytes: 16 << 10,
        }
    }
}

/// What a request presents.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    pub headers: &'a HeaderMap,
    pub certificates: &'a Certificates,
    /// Where it comes from, if that is known.
    pub address: Option<IpAddr>,
}

impl Gate {
    /// Refuses authorities with which a client could pose as a front proxy.
    pub fn new(
        tokens: TokenAuthority,
        authorizer: Authorizer,
        authorities: Authorities,
        settings: Settings,
        metrics: Metrics,
    ) -> Result<Gate, AuthorityError> {
        authorities.check()?;
        let Settings { authentication_ttl, allow_ttl, deny_ttl, cache_entries, review_deadline, .. } = settings;
        let tokens = match tokens {
            TokenAuthority::Static(store) => Tokens::Static(store),
            TokenAuthority::Review { client, audiences } => Tokens::Review(Box::new(TokenReviewer::new(
                client,
                audiences.into(),
                review_deadline,
                token_review::Keep { time: authentication_ttl, entries: cache_entries, in_flight: settings.reviews },
                metrics.clone(),
            ))),
        };
        let decide = match authorizer {
            Authorizer::Roles(bindings) => Decide::Roles(bindings),
            Authorizer::Review { client } => {
                let keep = Keep { allow: allow_ttl, deny: deny_ttl, entries: cache_entries };
                Decide::Review(Box::new(AccessReviewer::new(client, review_deadline, keep, metrics.clone())))
            }
        };
        let newcomers = Newcomers::new(settings.new_tokens, cache_entries);
        let (authorities, token_bytes) = (ArcSwap::from_pointee(authorities), settings.token_bytes);
        Ok(Gate(Arc::new(Inner { tokens, authorities, decide, newcomers, token_bytes, metrics })))
    }

    /// Takes other authorities from now on, unless they would be refused at the start too.
    pub fn set_authorities(&self, authorities: Authorities) -> Result<(), AuthorityError> {
        authorities.check()?;
        self.0.authorities.store(Arc::new(authorities));
        Ok(())
    }

    /// Who is this? A front proxy's word first, then the client certificate, then the token, as Kubernetes does.
    pub async fn authenticate(&self, presented: Presented<'_>) -> Result<Arc<Identity>, Refusal> {
        let answer = self.identify(presented).await;
        match &answer {
            Ok(_) => {}
            Err(Refusal::Unauthenticated { .. }) => self.0.metrics.decision(Answer::Unauthenticated),
            Err(_) => self.0.metrics.decision(Answer::Unavailable),
        }
        answer
    }

    async fn identify(&self, presented: Presented<'_>) -> Result<Arc<Identity>, Refusal> {
        let authorities = self.0.authorities.load();
        match authorities.identify(presented.headers, presented.certificates) {
            Said::Somebody(identity) => return Ok(Arc::new(identity)),
            Said::Nobody => {
                let reason = "the front proxy passes on a user whom it may not name, or whose name cannot be read";
                return Err(Refusal::Unauthenticated { reason });
            }
            Said::Nothing => {}
        }
        let Some(token) = token(presented.headers, self.0.token_bytes)? else {
            let reason = if presented.certificates.is_empty() {
                "there is neither a token nor a client certificate"
            } else {
                "the client certificate is not of an authority that counts here, and there is no token"
            };
            return Err(Refusal::Unauthenticated { reason });
        };
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let (newcomers, address) = (&self.0.newcomers, presented.address);
        let identity = match &self.0.tokens {
            Tokens::Review(reviewer) => {
                newcomers.admit(address, &hash).await?;
                reviewer.identify(&token, hash).await?
            }
            Tokens::Static(store) => {
                let found = newcomers.look(address, &hash, store.find(&token)).await?.map_err(|error| {
                    tracing::warn!(%error, "failed to look a token up");
                    Refusal::Unavailable { what: "authentication" }
                })?;
                if found.is_none() {
                    newcomers.refused(address, &hash).await?;
                }
                found.map(Arc::new)
            }
        };
        let identity = identity.ok_or(Refusal::Unauthenticated {
            reason: "the token is unknown, expired, revoked or for another audience",
        })?;
        newcomers.vouch(address, hash).await;
        Ok(identity)
    }

    /// May they? `Ok` is the only yes.
    pub async fn authorize(&self, who: &Identity, action: &Action) -> Result<(), Refusal> {
        let allowed = match &self.0.decide {
            Decide::Roles(bindings) => Ok(may(bindings, who, action)),
            Decide::Review(reviewer) => reviewer.may(who, action).await,
        };
        let (answer, result) = match allowed {
            Ok(true) => (Answer::Allowed, Ok(())),
            Ok(false) => {
                let refusal = Refusal::Forbidden { user: who.user.clone(), action: Box::new(action.clone()) };
                (Answer::Denied, Err(refusal))
            }
            Err(refusal) => (Answer::Unavailable, Err(refusal)),
        };
        self.0.metrics.decision(answer);
        result
    }
}
