//! The caller of a request, and the order in which a change is decided, recorded and done.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;

use super::{Door, Peer, Problem, RequestId};
use crate::action::Action;
use crate::audit::{self, Entry, Intent, Outcome, What, Who};
use crate::authenticate::Certificates;
use crate::error::Refusal;
use crate::gate::Presented;
use crate::identity::{Identity, Source};

/// Somebody who was let in, at the door where they came in.
#[derive(Clone, Debug)]
pub struct Caller {
    identity: Arc<Identity>,
    door: Door,
    authorization: Authorization,
}

/// Whether the gate is asked what this caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Authorization {
    Asked,
    /// The operator exempted the path.
    Exempt,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Caller, Problem> {
        let door = parts.extensions.get::<Door>().cloned();
        let door = door.ok_or_else(|| Problem::unavailable("the server has no gate on this route"))?;
        let peer = parts.extensions.get::<Peer>();
        let address = peer.map(|peer| peer.address.ip());
        let certificates = peer.map_or_else(Certificates::default, |peer| peer.certificates.clone());
        let presented = Presented { headers: &parts.headers, certificates: &certificates, address };
        match door.gate.authenticate(presented).await {
            Ok(identity) => Ok(Caller { identity, door, authorization: Authorization::Asked }),
            Err(refusal) => {
                if let Some(entry) = door.strangers.line(outcome(&refusal)) {
                    door.audit.record(stamped(entry)).await;
                }
                Err(refusal.into())
            }
        }
    }
}

impl Caller {
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The same caller at a path that the operator exempted from authorization: whatever they do there is allowed, and
    /// on record as ever.
    #[must_use]
    pub fn exempt(self) -> Caller {
        Caller { authorization: Authorization::Exempt, ..self }
    }

    async fn authorize(&self, action: &Action) -> Result<(), Refusal> {
        match self.authorization {
            Authorization::Asked => self.door.gate.authorize(&self.identity, action).await,
            Authorization::Exempt => Ok(()),
        }
    }

    /// May this caller do that? The decision is recorded; an action that changes something must go through
    /// [`Caller::act`] instead.
    pub async fn may(&self, action: &Action) -> Result<(), Problem> {
        let answer = self.authorize(action).await;
        self.door.audit.record(self.decision(action, &answer)).await;
        Ok(answer?)
    }

    /// Does a change: decided first, then on record as an intent, then done, then its result on disk, and only then
    /// answered. If the intent cannot be recorded nothing is done: 503. The work goes on when the caller hangs up, so
    /// that no change is left half done or without its result.
    pub fn act<T, W>(&self, action: Action, work: W) -> impl Future<Output = Result<T, Problem>> + Send
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Problem>> + Send + 'static,
    {
        self.act_after(Intent::Written, action, work)
    }

    /// The same for an act that is on record as what it is, where another permission is asked for it.
    pub fn act_as<T, W>(
        &self,
        asked: Action,
        recorded: Action,
        work: W,
    ) -> impl Future<Output = Result<T, Problem>> + Send
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Problem>> + Send + 'static,
    {
        self.carry_out(Intent::Written, asked, recorded, Box::pin(work))
    }

    /// The same for work that needs another [`Intent`].
    pub fn act_after<T, W>(
        &self,
        intent: Intent,
        action: Action,
        work: W,
    ) -> impl Future<Output = Result<T, Problem>> + Send
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Problem>> + Send + 'static,
    {
        // On the heap at once: it is handed on several times, and is large for some.
        self.carry_out(intent, action.clone(), action, Box::pin(work))
    }

    async fn carry_out<T: Send + 'static>(
        &self,
        intent: Intent,
        asked: Action,
        action: Action,
        work: Pin<Box<dyn Future<Output = Result<T, Problem>> + Send>>,
    ) -> Result<T, Problem> {
        if let Err(refusal) = self.authorize(&asked).await {
            self.door.audit.record(self.decision(&asked, &Err(refusal.clone()))).await;
            return Err(refusal.into());
        }
        let caller = self.clone();
        let id = RequestId::current();
        let task = async move {
            let audit = &caller.door.audit;
            let announced = Caller::located(Entry::intent(caller.who(), what(&action)), &action);
            let receipt = audit.intend(announced, intent).await.map_err(|_| {
                Problem::unavailable("the audit log cannot be written, so nothing may be changed; nothing was changed")
            })?;
            let result = work.await;
            let outcome = match &result {
                Ok(_) => Outcome::Done,
                Err(problem) => Outcome::Failed(class(problem.status)),
            };
            let act = Caller::located(Entry::act(caller.who(), what(&action), outcome), &action).after(&receipt);
            if audit.commit(act).await.is_err() && result.is_ok() {
                return Err(Problem::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the change was made, but the audit log could not take its result",
                    "read it back before trying again",
                ));
            }
            result
        };
        let task = async move {
            match id {
                Some(id) => super::REQUEST_ID.scope(id, task).await,
                None => task.await,
            }
        };
        let joined = tokio::spawn(task).await;
        joined.map_err(|_| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the change ended early", "look for it in the server's log")
        })?
    }

    fn decision(&self, action: &Action, answer: &Result<(), Refusal>) -> Entry {
        let outcome = match answer {
            Ok(()) => Outcome::Allowed,
            Err(refusal) => outcome(refusal),
        };
        Caller::located(Entry::decision(self.who(), what(action), outcome), action)
    }

    fn who(&self) -> Who {
        let who = Who::new(&self.identity.user, source(self.identity.source)).groups(&self.identity.groups);
        match &self.identity.uid {
            Some(uid) => who.uid(uid),
            None => who,
        }
    }

    fn located(mut entry: Entry, action: &Action) -> Entry {
        if let Action::Resource { namespace, name, .. } = action {
            if let Some(namespace) = namespace {
                entry = entry.namespace(namespace);
            }
            if let Some(name) = name {
                entry = entry.name(name);
            }
        }
        stamped(entry)
    }
}

/// How a refusal stands in the log.
fn outcome(refusal: &Refusal) -> Outcome {
    match refusal {
        Refusal::Forbidden { .. } => Outcome::Denied,
        Refusal::Unauthenticated { .. } => Outcome::Failed("unauthenticated"),
        Refusal::Unavailable { .. } => Outcome::Failed("unavailable"),
        Refusal::Busy { .. } => Outcome::Failed("busy"),
    }
}

fn stamped(entry: Entry) -> Entry {
    match RequestId::current() {
        Some(id) => entry.request_id(&id.to_string()),
        None => entry,
    }
}

fn what(action: &Action) -> What {
    match action {
        Action::NonResource { verb, path } => What::path(verb, path),
        Action::Resource { verb, group, resource, subresource, .. } => {
            let what = What::resource(verb, group, resource);
            match subresource {
                Some(subresource) => what.subresource(subresource),
                None => what,
            }
        }
    }
}

fn source(source: Source) -> audit::Source {
    match source {
        Source::TokenReview => audit::Source::Token,
        Source::StaticToken => audit::Source::Static,
        Source::Certificate => audit::Source::Certificate,
        Source::FrontProxy => audit::Source::FrontProxy,
    }
}

/// The class of a failure for the log: its text could quote the caller's input.
fn class(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("error")
}
