//! The task that follows a cluster: which it is, then RBAC, namespaces and kinds, for as long as it is that one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use kube::Client;
use kube::api::ApiResource;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use watch::{AfterLoss, Guard, Health, Source, Why};

use super::{Member, Stream, find_uid, uid};
use crate::index::Kept;
use crate::kinds::{self, KindSpec};
use crate::service::collect::Collected;
use crate::service::discovery::{Discovery, Resource, Served};
use crate::service::error::Error;
use crate::service::options::{Authorizer, Settings};
use crate::service::review::Reviewer;
use crate::service::shared::Shared;
use crate::service::{namespaces, rbac};

/// How often it is looked whether what is known of RBAC has become too old.
const TICK: Duration = Duration::from_secs(1);

/// Follows a cluster until it is told to stop; whatever goes wrong is tried again.
pub(super) async fn supervise(shared: Arc<Shared>, member: Arc<Member>) {
    let mut stop = member.stop.subscribe();
    let Ok(connection) = &member.connection else { return };
    let client = &connection.client;
    let (running, guard, replaced) = (JoinSet::new(), Guard::none(), Arc::default());
    let mut task = Task { shared: &shared, member: &member, client, running, guard, replaced };
    tokio::select! {
        () = task.run() => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
    // Ended, and waited for: nothing of it marks or takes in anything afterwards.
    task.running.shutdown().await;
    member.state_mut().streams.clear();
}

/// How a kind is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Followed {
    Well,
    /// The cluster does not serve it any more.
    InVain,
}

struct Task<'a> {
    shared: &'a Arc<Shared>,
    member: &'a Arc<Member>,
    client: &'a Client,
    /// Each ends with the kind that it collected, or with none.
    running: JoinSet<Option<(String, String)>>,
    guard: Guard,
    /// Told by the guard that another cluster answers.
    replaced: Arc<Notify>,
}

impl Task<'_> {
    async fn run(&mut self) {
        let settings = &self.shared.settings;
        let since = Timestamp::now().as_millisecond();
        let mut pause = settings.watch.first_pause;
        loop {
            match self.identify().await {
                Ok(uid) => {
                    pause = settings.watch.first_pause;
                    self.follow(&uid).await;
                    // Perhaps it is another cluster now: what was granted in this one says nothing about that.
                    self.running.shutdown().await;
                    let mut state = self.member.state_mut();
                    (state.uid, state.reviewer, state.namespaces) = (None, None, None);
                    state.streams.clear();
                    drop(state);
                    self.member.rbac.reset();
                }
                Err(fault) => {
                    let fault = fault.to_string();
                    let is_new = self.member.state_mut().fault.replace(fault.clone()).as_ref() != Some(&fault);
                    if is_new {
                        tracing::warn!(cluster = self.member.name, fault, "a cluster cannot be followed");
                    }
                    // What is left from before is as old as this.
                    self.shared.store.set_stale(&self.member.name, None, Some(since));
                    self.shared.changed.bump();
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(settings.watch.longest_pause);
        }
    }

    /// Which cluster it is; its rows are kept, those of another are gone.
    async fn identify(&self) -> Result<String, Error> {
        let uid = find_uid(self.client, self.shared.settings.deadline).await?;
        self.shared.adopt(&self.member.name, &uid, self.member.source).await?;
        let mut state = self.member.state_mut();
        state.uid = Some(uid.clone());
        state.fault = None;
        if self.member.rules.authorizer == Authorizer::Review {
            let Settings { deadline, review_ttl, .. } = &self.shared.settings;
            let (client, metrics) = (self.client.clone(), self.shared.metrics.clone());
            state.reviewer = Some(Reviewer::new(client, *deadline, *review_ttl, metrics));
        }
        drop(state);
        self.shared.store.set_stale(&self.member.name, None, None);
        self.shared.changed.bump();
        Ok(uid)
    }

    /// Follows for as long as it is this cluster.
    async fn follow(&mut self, uid: &str) {
        self.guard_against_others(uid);
        if self.member.rules.authorizer == Authorizer::Rbac {
            for kind in rbac::KINDS {
                self.follow_rbac(kind);
            }
        }
        self.follow_namespaces();
        let (client, deadline) = (self.client.clone(), self.shared.settings.deadline);
        let mut discovery = Discovery::new(client, deadline, Arc::clone(&self.shared.kinds));
        let mut absent: BTreeSet<(String, String)> = BTreeSet::new();
        let mut was_withheld = None;
        loop {
            // Unless it answers, nothing follows from what it does not serve.
            let answered = find_uid(self.client, self.shared.settings.deadline).await;
            if answered.as_ref().is_ok_and(|found| found != uid) {
                return;
            }
            let unserved = self.look(&mut discovery).await;
            if answered.is_ok() {
                self.forget_absent(&unserved, &absent).await;
                absent = unserved;
            }
            let next = tokio::time::Instant::now() + self.shared.settings.look_every;
            while tokio::time::Instant::now() < next {
                let withheld = self.member.withheld(self.shared, Timestamp::now());
                if withheld.is_some() != was_withheld.replace(withheld.is_some()).unwrap_or(true) {
                    self.shared.changed.bump();
                }
                tokio::select! {
                    () = self.replaced.notified() => return,
                    ended = self.running.join_next() => {
                        match ended {
                            Some(Ok(Some(kind))) => self.member.ended(&kind),
                            Some(Ok(None)) | None => tokio::time::sleep(TICK).await,
                            Some(Err(_)) => return,
                        }
                    }
                    () = tokio::time::sleep(TICK.min(self.shared.settings.look_every)) => {}
                }
            }
        }
    }

    /// Streams that were lost take nothing in before it is certain that this cluster answers: rows of another under its name,
    /// and its grants for these rows, must not be, not for a moment.
    fn guard_against_others(&mut self, uid: &str) {
        self.replaced = Arc::default();
        let (client, deadline) = (self.client.clone(), self.shared.settings.deadline);
        let (expected, replaced) = (uid.to_owned(), Arc::clone(&self.replaced));
        self.guard = Guard::by(move || {
            let (client, expected, replaced) = (client.clone(), expected.clone(), Arc::clone(&replaced));
            let asked = async move {
                match uid::ask(&client, deadline).await {
                    Ok(found) if found == expected => Ok(()),
                    Ok(_) => {
                        replaced.notify_one();
                        Err(Why::Replaced)
                    }
                    Err(unknown) => Err(unknown.why()),
                }
            };
            asked.boxed()
        });
    }

    /// A source of this cluster.
    fn source(&self, resource: ApiResource) -> Source {
        let guard = self.guard.clone();
        Source { guard, ..Source::new(&self.member.name, self.client.clone(), resource) }
    }

    /// Begins to follow kinds that are served and were not, or that are served again; tells which are not served.
    async fn look(&mut self, discovery: &mut Discovery) -> BTreeSet<(String, String)> {
        let kinds = Arc::clone(&self.shared.kinds);
        let followed = |spec: &KindSpec| {
            let stream = self.member.state().streams.get(&(spec.group.clone(), spec.kind.clone())).cloned();
            let absent = |stream: &Stream| matches!(*stream.handle.health().borrow(), Health::Absent { .. });
            stream.map(|stream| if absent(&stream) { Followed::InVain } else { Followed::Well })
        };
        let missing: Vec<(&KindSpec, Option<Followed>)> = kinds
            .iter()
            .map(|spec| (spec, followed(spec)))
            .filter(|(_, followed)| *followed != Some(Followed::Well))
            .collect();
        if missing.is_empty() {
            return BTreeSet::new();
        }
        discovery.look(&missing.iter().map(|(spec, _)| *spec).collect::<Vec<_>>()).await;
        let mut unserved = BTreeSet::new();
        for (spec, followed) in missing {
            match discovery.served(spec).await {
                // Whoever follows in vain asks less and less often: it begins anew.
                Served::As(served) => self.collect(spec, served).await,
                Served::No if followed.is_none() => drop(unserved.insert((spec.group.clone(), spec.kind.clone()))),
                Served::No | Served::Unknown => {}
            }
        }
        unserved
    }

    /// Rows of a kind that was not served twice in a row, and that no stream speaks of, are of nothing that exists.
    async fn forget_absent(&self, now: &BTreeSet<(String, String)>, before: &BTreeSet<(String, String)>) {
        let name = &self.member.name;
        let rows = self.shared.store.read().inventory();
        let gone = |kept: &&Kept| {
            let key = (kept.group.clone(), kept.kind.clone());
            kept.cluster == *name && now.contains(&key) && before.contains(&key)
        };
        for kept in rows.keys().filter(gone) {
            if let Err(error) = self.shared.forget_kind(kept).await {
                tracing::warn!(cluster = name, kind = kept.kind, %error, "rows of a kind that is gone cannot be removed");
            }
        }
    }

    async fn collect(&mut self, spec: &KindSpec, served: Resource) {
        let Resource { resource, namespaced } = served;
        let filter = kinds::filter(spec, &self.shared.kinds);
        let source = Source { filter, ..self.source(resource.clone()) };
        let followed = watch::follow(&self.shared.row_keys, source, self.shared.settings.watch.clone()).await;
        let follower = match followed {
            Ok(follower) => follower,
            Err(error) => {
                tracing::warn!(cluster = self.member.name, kind = spec.kind, %error, "a kind cannot be followed");
                return;
            }
        };
        let key = (spec.group.clone(), spec.kind.clone());
        let stream = Stream { handle: follower.handle(), namespaced, complete: false };
        self.member.state_mut().streams.insert(key.clone(), stream);
        let collected = Collected {
            shared: Arc::clone(self.shared),
            member: Arc::clone(self.member),
            spec: spec.clone(),
            resource,
        };
        self.running.spawn(async move {
            collected.run(follower).await;
            Some(key)
        });
    }

    fn follow_rbac(&mut self, kind: access::rbac::RbacKind) {
        let (shared, member) = (Arc::clone(self.shared), Arc::clone(self.member));
        let source = self.source(rbac::resource(kind));
        // Until it is certain what was revoked meanwhile, what was known before does not count.
        let settings = watch::Settings { after_loss: AfterLoss::List, ..shared.settings.watch.clone() };
        self.running.spawn(async move {
            loop {
                match watch::follow(&shared.own_keys, source.clone(), settings.clone()).await {
                    Ok(follower) => member.rbac.follow(kind, follower, &shared.changed).await,
                    Err(error) => tracing::warn!(cluster = member.name, ?kind, %error, "RBAC cannot be followed"),
                }
                tokio::time::sleep(TICK).await;
            }
        });
    }

    fn follow_namespaces(&mut self) {
        let (shared, member) = (Arc::clone(self.shared), Arc::clone(self.member));
        let source = Source { content: watch::Content::Metadata, ..self.source(namespaces::resource()) };
        self.running.spawn(async move {
            loop {
                match watch::follow(&shared.own_keys, source.clone(), shared.settings.watch.clone()).await {
                    Ok(follower) => {
                        member.state_mut().namespaces = Some(follower.health());
                        namespaces::follow(&shared, &member.name, follower).await;
                    }
                    Err(error) => tracing::warn!(cluster = member.name, %error, "namespaces cannot be followed"),
                }
                tokio::time::sleep(TICK).await;
            }
        });
    }
}
