//! One cluster: how it is reached, who counts there, how it is doing, and the task that follows it.
//!
//! The task (`task`) asks which cluster it is (the uid of kube-system) before it follows anything, and again now and then: rows
//! belong to a cluster and not to a name. It then follows RBAC, namespaces and each kind that the cluster serves, and looks again and
//! again for those that it does not serve yet.

mod contact;
mod task;
mod uid;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use access::Identity;
use access::rbac::Who;
use http::HeaderValue;
use http::header::USER_AGENT;
use jiff::Timestamp;
use kube::Client;
use tokio::task::JoinHandle;
use watch::Health;

use super::discovery::Resource;
use super::error::Error;
use super::identity::{self, Standing};
use super::kubeconfig;
use super::options::{Authorizer, Crossing, Rules};
use super::rbac::Rbac;
use super::report::{ClusterReport, KindReport, KindState, Source};
use super::review::{Caller, Reviewer};
use super::shared::Shared;
use crate::index::{Kept, View};
use crate::kinds::KindSpec;

use contact::Contact;

pub(crate) use contact::PATIENCE;
pub(crate) use uid::find as find_uid;

/// Rows are stale when what happened to them has waited for so long to be taken in.
const BEHIND: Duration = Duration::from_secs(15);

const COLLECTOR: &str = concat!("stateward-collector/", env!("CARGO_PKG_VERSION"));

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) source: Source,
    /// Another one is another kubeconfig, or other rules.
    pub(crate) revision: String,
    standing: Standing,
    rules: Rules,
    /// Or why there can be none.
    connection: Result<Connection, String>,
    rbac: Rbac,
    contact: Contact,
    state: RwLock<State>,
    stop: tokio::sync::watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// How a cluster is reached.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// Without credentials.
    pub(crate) address: kube::Config,
}

/// What a member is made of.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) revision: String,
    pub(crate) rules: Rules,
    pub(crate) connection: Result<Connection, String>,
}

#[derive(Debug, Default)]
struct State {
    uid: Option<String>,
    fault: Option<String>,
    reviewer: Option<Reviewer>,
    /// How the stream of namespaces is doing, once there is one.
    namespaces: Option<tokio::sync::watch::Receiver<Health>>,
    streams: BTreeMap<(String, String), Stream>,
}

/// A kind that is followed.
#[derive(Clone, Debug)]
struct Stream {
    handle: watch::Handle,
    /// Whether objects of the kind live in namespaces.
    namespaced: bool,
    /// Everything has been taken in once.
    complete: bool,
}

/// A client that reads for the explorer and says so: by its name the audit log of a cluster tells what was collected from what
/// else the same credentials are used for.
pub fn collector(mut config: kube::Config) -> kube::Result<Client> {
    config.headers.retain(|(name, _)| *name != USER_AGENT);
    config.headers.push((USER_AGENT, HeaderValue::from_static(COLLECTOR)));
    Client::try_from(config)
}

impl Connection {
    pub(crate) fn new(config: kube::Config) -> Result<Connection, Error> {
        let address = kubeconfig::without_credentials(config.clone());
        // What it says may quote a certificate or a key.
        let fault = "no client can be made of it: its certificates or its key are damaged";
        let client = collector(config).map_err(|_| Error::invalid("kubeconfig", fault))?;
        Ok(Connection { client, address })
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("url", &self.address.cluster_url).finish_non_exhaustive()
    }
}

impl Member {
    /// Begins to follow.
    pub(crate) fn start(shared: &Arc<Shared>, parts: Parts) -> Arc<Member> {
        let Parts { name, source, revision, rules, connection } = parts;
        let standing = if source == Source::Local { Standing::Home } else { Standing::Abroad };
        let member = Arc::new(Member {
            name,
            source,
            revision,
            standing,
            rules,
            connection,
            rbac: Rbac::default(),
            contact: Contact::default(),
            state: RwLock::default(),
            stop: tokio::sync::watch::channel(false).0,
            task: Mutex::default(),
        });
        let task = tokio::spawn(task::supervise(Arc::clone(shared), Arc::clone(&member)));
        *member.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        member
    }

    /// Follows no more. When this returns, nothing of it is under way.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }

    /// The same without waiting, for when nobody is left to wait.
    pub(crate) fn abandon(&self) {
        self.stop.send_replace(true);
    }

    /// Whether it can be reached at all, by what is known of it.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_ok()
    }

    pub(crate) fn who(&self, identity: &Identity) -> Option<Who> {
        identity::who(identity, self.standing, &self.rules)
    }

    /// Only where the callers' own tokens are known: any other cluster could keep them and be somebody elsewhere.
    pub(crate) fn address(&self) -> Option<kube::Config> {
        let knows_callers = self.standing == Standing::Home || self.rules.identity == Crossing::Shared;
        let connection = self.connection.as_ref().ok().filter(|_| knows_callers);
        connection.map(|connection| connection.address.clone())
    }

    /// How a kind is served.
    pub(crate) fn resource(&self, group: &str, kind: &str) -> Option<Resource> {
        let stream = self.state().streams.get(&(group.to_owned(), kind.to_owned())).cloned();
        stream.map(|Stream { handle, namespaced, .. }| Resource { resource: handle.resource().clone(), namespaced })
    }

    /// What somebody sees of it; `None`: they are nobody there.
    pub(crate) async fn view(&self, shared: &Shared, identity: &Identity) -> Option<View> {
        let who = self.who(identity)?;
        if let Some(reason) = self.withheld(shared, Timestamp::now()) {
            return Some(View::Withheld(reason));
        }
        let verbs = &shared.settings.row_verbs;
        let reviewer = self.state().reviewer.clone();
        Some(match reviewer {
            Some(_) if !self.is_the_same(shared).await => {
                View::Withheld("it does not answer, or another cluster does".to_owned())
            }
            Some(reviewer) => {
                let places = shared.store.read().places(&self.name);
                let its_own = self.standing == Standing::Home && identity.source != access::Source::StaticToken;
                let caller = if its_own { Caller::of_its_own(who, identity) } else { Caller::by_rule(who) };
                reviewer.view(caller, verbs, &places).await
            }
            None => self.rbac.view(&who, verbs),
        })
    }

    /// Whether the cluster that would be asked about rows is the one that they are of. It is, for as long as nothing was lost of
    /// what is followed.
    async fn is_the_same(&self, shared: &Shared) -> bool {
        let (uid, lost) = {
            let state = self.state();
            let lost = |stream: &Stream| {
                let health = *stream.handle.health().borrow();
                (!health.is_fresh()).then(|| health.lost().unwrap_or(Timestamp::MIN))
            };
            (state.uid.clone(), state.streams.values().filter_map(lost).max())
        };
        match (&self.connection, uid, lost) {
            (Err(_), ..) | (_, None, _) => false,
            (Ok(_), Some(_), None) => true,
            (Ok(connection), Some(uid), Some(lost)) => {
                self.contact.is(&uid, lost, &connection.client, &shared.settings).await
            }
        }
    }

    /// Asks its RBAC, if that can be relied on.
    pub(crate) fn policy<R>(
        &self,
        shared: &Shared,
        question: impl FnOnce(&access::rbac::Policy) -> R,
    ) -> Result<R, Error> {
        let withheld = |reason| Error::Withheld { cluster: self.name.clone(), reason };
        if self.rules.authorizer == Authorizer::Review {
            return Err(withheld("its own authorizer decides, which gives no reasons".to_owned()));
        }
        match self.withheld(shared, Timestamp::now()) {
            Some(reason) => Err(withheld(reason)),
            None => Ok(self.rbac.read(question)),
        }
    }

    /// Why nothing of it is shown to anybody now, if that is so.
    pub(crate) fn withheld(&self, shared: &Shared, now: Timestamp) -> Option<String> {
        if self.connection.is_err() {
            // The fault names files and Secrets of the server: it is for those who manage clusters.
            return Some("its credentials cannot be used".to_owned());
        }
        let state = self.state();
        if state.uid.is_none() {
            return Some(
                state.fault.clone().unwrap_or_else(|| "it has not been asked yet which cluster it is".to_owned()),
            );
        }
        match self.rules.authorizer {
            Authorizer::Review => None,
            Authorizer::Rbac => {
                let max_age = shared.settings.rbac_max_age.try_into().unwrap_or(jiff::SignedDuration::MAX);
                self.rbac.doubt(max_age, now)
            }
        }
    }

    pub(crate) fn report(&self, shared: &Shared, inventory: &BTreeMap<Kept, u64>) -> ClusterReport {
        let withheld = self.withheld(shared, Timestamp::now());
        let state = self.state();
        let count = |spec: &KindSpec| {
            let of_kind = |kept: &Kept| kept.cluster == self.name && spec.is(&kept.group, &kept.kind);
            inventory.iter().filter(|(kept, _)| of_kind(kept)).map(|(_, rows)| rows).sum()
        };
        let kind = |spec: &KindSpec| {
            let stream = state.streams.get(&(spec.group.clone(), spec.kind.clone()));
            kind_report(spec, stream, count(spec))
        };
        let kinds: Vec<KindReport> = shared.kinds.iter().map(kind).collect();
        let fault = self.connection.as_ref().err().cloned().or_else(|| state.fault.clone());
        // When nothing is heard of the cluster at all, that is what is told.
        let is_heard = withheld.is_none() && kinds.iter().all(|kind| kind.state != KindState::Stale);
        let fault = fault.or_else(|| state.of_namespaces().filter(|_| is_heard));
        ClusterReport {
            name: self.name.clone(),
            uid: state.uid.clone(),
            source: self.source,
            authorizer: self.rules.authorizer,
            fault,
            withheld,
            synced: kinds.iter().filter(|kind| kind.state == KindState::Synced).count(),
            kinds_served: kinds.iter().filter(|kind| kind.state != KindState::Absent).count(),
            objects: inventory.iter().filter(|(kept, _)| kept.cluster == self.name).map(|(_, rows)| rows).sum(),
            kinds,
        }
    }

    /// How each stream is doing, for those who count.
    pub(crate) fn figures(&self) -> Vec<(KindState, watch::Figures)> {
        let streams = self.state().streams.values().cloned().collect::<Vec<_>>();
        streams.iter().map(|stream| (state_of(stream).0, stream.handle.figures())).collect()
    }

    /// All of a kind has been taken in.
    pub(crate) fn completed(&self, group: &str, kind: &str) {
        if let Some(stream) = self.state_mut().streams.get_mut(&(group.to_owned(), kind.to_owned())) {
            stream.complete = true;
        }
    }

    /// A stream of a kind has ended; unless another one has taken its place, it is begun anew with the next look.
    fn ended(&self, kind: &(String, String)) {
        let mut state = self.state_mut();
        if state.streams.get(kind).is_some_and(|stream| stream.handle.health().has_changed().is_err()) {
            state.streams.remove(kind);
        }
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What is wrong with the stream of namespaces.
    fn of_namespaces(&self) -> Option<String> {
        let health = *self.namespaces.as_ref()?.borrow();
        let Health::Lost { why, .. } = health else { return None };
        Some(format!(
            "its namespaces are not followed, so that tenants are unknown or out of date, and what is left of objects in \
             namespaces is shown only to those who see all of them: {why}"
        ))
    }
}

/// Since when what a stream tells waits, if that is too long.
pub(crate) fn behind(handle: &watch::Handle) -> Option<Timestamp> {
    let lag = handle.figures().lag;
    (lag > BEHIND).then(|| Timestamp::now() - lag)
}

fn kind_report(spec: &KindSpec, stream: Option<&Stream>, objects: u64) -> KindReport {
    let version = stream.map(|stream| stream.handle.resource().version.clone());
    let (state, since, reason) = stream.map_or((KindState::Absent, None, None), state_of);
    KindReport {
        group: spec.group.clone(),
        version: version.filter(|_| state != KindState::Absent).unwrap_or_default(),
        kind: spec.kind.clone(),
        state,
        since: since.map(Timestamp::as_millisecond),
        reason,
        objects,
    }
}

fn state_of(stream: &Stream) -> (KindState, Option<Timestamp>, Option<String>) {
    match *stream.handle.health().borrow() {
        Health::Listing { since } => (KindState::Listing, Some(since), None),
        Health::Synced { since } if !stream.complete => (KindState::Listing, Some(since), None),
        Health::Synced { since } => match behind(&stream.handle) {
            Some(since) => {
                let reason = "what it tells cannot be taken in: is the disk of the data directory full, or too slow?";
                (KindState::Stale, Some(since), Some(reason.to_owned()))
            }
            None => (KindState::Synced, Some(since), None),
        },
        Health::Lost { since, why } => (KindState::Stale, Some(since), Some(why.to_string())),
        Health::Absent { since } => (KindState::Absent, Some(since), None),
        Health::Removed => (KindState::Absent, None, None),
    }
}
