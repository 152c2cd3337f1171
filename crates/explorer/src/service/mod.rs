//! The explorer with its clusters: collects their objects and RBAC, and says what a caller may see.
//!
//! The door is [`Explorer`]. Each cluster is followed by tasks of its own; what they are told goes into the index and its
//! durable copy, and an event is acknowledged only when the copy has it. RBAC goes into a policy in memory, whose freshness is
//! told apart from that of rows: as long as nobody can tell what is allowed, nothing is shown.
//!
//! What must never be here: a verb towards a cluster other than get, list and watch (and create of SubjectAccessReviews where
//! that is how a cluster decides); a credential of a kubeconfig outside its client; a `system:` name that crosses clusters; an
//! act with the collector's credentials on behalf of a caller.

mod error;
mod options;
mod report;

mod identity;
mod kubeconfig;

mod metrics;
mod shared;

mod collect;
mod compiled;
mod discovery;
mod namespaces;
mod rbac;
mod review;

mod member;

mod registry;
mod roster;
mod secrets;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use access::Identity;
use access::rbac::{Policy, Who};
use db::{Config, Db};
use futures::future::join_all;
use kube::api::ApiResource;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::durable::Store;
use crate::index::{Index, Visibility};
use crate::kinds::KindSpec;
use crate::row::Key;

use registry::Registry;
use roster::Roster;
use shared::Shared;

pub use compiled::Compiled;
pub use error::Error;
pub use member::collector;
pub use metrics::Metrics;
pub use options::{
    Authorizer, Crossing, Local, Mapping, NewCluster, Options, Person, Principal, Rules, Sealing, Secrets, Settings,
};
pub use report::{ClusterReport, KindReport, KindState, Source};

/// The tables in the database of records, for `db.migrate`.
pub const MIGRATIONS: db::Migrations = db::Migrations {
    set: "explorer",
    steps: &["
CREATE TABLE explorer_clusters (
    name TEXT PRIMARY KEY, uid TEXT NOT NULL UNIQUE, revision TEXT NOT NULL, rules TEXT NOT NULL,
    kubeconfig BYTEA NOT NULL, added_at BIGINT NOT NULL
);
"],
};

/// The explorer of this process. Clones share it.
#[derive(Clone, Debug)]
pub struct Explorer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    roster: Arc<Roster>,
    /// What goes on beside the clusters.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Explorer {
    /// Loads the durable copy and begins to follow every known cluster. A cluster that does not answer is no error.
    pub async fn open(options: Options) -> Result<Explorer, Error> {
        let Options { copy, db, sealing, local, secrets, kinds, mut settings, metrics } = options;
        if let Some(local) = &local {
            roster::check_name(&local.name)?;
            identity::check_tokens("tokens", &local.tokens)?;
        }
        let kinds = without_doubles(kinds);
        for spec in kinds.iter() {
            let retention = i64::try_from(spec.retention.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
            settings.index.retention = settings.index.retention.with(&spec.group, &spec.kind, retention);
        }
        let copy = Db::open(Config::sqlite(copy)).await?;
        let store = Store::on(copy.clone(), settings.index.clone()).await?;
        let shared = Arc::new(Shared::open(copy, store, kinds, settings, metrics.clone()).await?);
        shared.forget_unwanted_kinds().await?;
        metrics.look_at(&shared);
        let described = if secrets.is_some() { None } else { Some(Vec::new()) };
        let roster = Arc::new(Roster::new(local, Registry::new(db, sealing), described));
        roster.settle(&shared).await?;
        let mut tasks = vec![tokio::spawn(keep_settled(Arc::clone(&shared), Arc::clone(&roster)))];
        if let Some(every) = shared.settings.cleaner_every {
            tasks.push(tokio::spawn(clean(Arc::clone(&shared), every)));
        }
        if let Some(secrets) = secrets {
            tasks.push(tokio::spawn(follow_secrets(Arc::clone(&shared), Arc::clone(&roster), secrets)));
        }
        Ok(Explorer { inner: Arc::new(Inner { shared, roster, tasks: Mutex::new(tasks) }) })
    }

    /// Ends all followers, writes what is waiting and lets the copy go. Rows are still there to be read.
    pub async fn close(&self) {
        self.inner.end_tasks();
        let members: Vec<_> = self.shared().members().values().cloned().collect();
        join_all(members.iter().map(|member| member.stop())).await;
        self.shared().store.close().await;
    }

    /// What somebody may see, now. Ask anew for each question; it is cheap where nothing changed. A cluster in which they are
    /// nobody is not in it.
    pub async fn visibility(&self, identity: &Identity) -> Visibility {
        let members: Vec<_> = self.shared().members().values().cloned().collect();
        let views = join_all(members.iter().map(|member| member.view(self.shared(), identity))).await;
        let seen = members.iter().zip(views).filter_map(|(member, view)| Some((member, view?)));
        seen.fold(Visibility::default(), |visibility, (member, view)| visibility.with(member.name.clone(), view))
    }

    /// Asks the index. Changes wait for it: ask, and return.
    pub fn read<R>(&self, question: impl FnOnce(&Index) -> R) -> R {
        question(&self.shared().store.read())
    }

    /// The body of an object (JSON), for somebody who may get it.
    pub async fn body(&self, key: &Key, visibility: &Visibility) -> Result<Option<String>, Error> {
        Ok(self.shared().store.body(key, visibility).await?)
    }

    /// Moves at each change of rows, of what anybody may see, and of the state of a cluster: ask again then.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared().changed.subscribe()
    }

    /// The kinds that are collected.
    pub fn kinds(&self) -> &[KindSpec] {
        &self.shared().kinds
    }

    /// Every cluster, those that cannot be followed too, by name.
    pub fn clusters(&self) -> Vec<ClusterReport> {
        let inventory = self.read(Index::inventory);
        let members: Vec<_> = self.shared().members().values().cloned().collect();
        let followed = members.iter().map(|member| member.report(self.shared(), &inventory));
        let refused = self.inner.roster.refused().into_iter();
        let refused = refused.map(|(name, source, fault)| ClusterReport::refused(name, source, fault));
        let mut reports: Vec<ClusterReport> = followed.chain(refused).collect();
        reports.sort_by(|one, other| (&one.name, one.source).cmp(&(&other.name, other.source)));
        reports
    }

    /// What is wrong beside single clusters, for those who manage them.
    pub fn faults(&self) -> Vec<String> {
        self.inner.roster.faults()
    }

    /// Who somebody is in a cluster; `None`: nobody, or there is no such cluster.
    pub fn who_in(&self, cluster: &str, identity: &Identity) -> Option<Who> {
        self.shared().member(cluster)?.who(identity)
    }

    /// Asks the RBAC of a cluster, to explain a grant or to name those who have one. [`Error::Withheld`] while it is not fresh,
    /// and always where SubjectAccessReviews decide.
    pub fn policy<R>(&self, cluster: &str, question: impl FnOnce(&Policy) -> R) -> Result<R, Error> {
        let member = self.shared().member(cluster);
        let member = member.ok_or_else(|| Error::NoSuchCluster { name: cluster.to_owned() })?;
        member.policy(self.shared(), question)
    }

    /// Where the API server of a cluster is and by which authority it is known, for acts with the caller's own credentials.
    /// There are none in it: whoever uses it puts the caller's in. `None` for clusters that do not share the identities of this
    /// server: no token of a caller may go there.
    pub fn address(&self, cluster: &str) -> Option<kube::Config> {
        self.shared().member(cluster)?.address()
    }

    /// The plural of a kind in a cluster, and in which version it is followed there; `None` while it is not served.
    pub fn resource(&self, cluster: &str, group: &str, kind: &str) -> Option<ApiResource> {
        Some(self.shared().member(cluster)?.resource(group, kind)?.resource)
    }

    /// Whether objects of a kind live in namespaces, as that cluster serves it; `None` while it does not.
    pub fn is_namespaced(&self, cluster: &str, group: &str, kind: &str) -> Option<bool> {
        Some(self.shared().member(cluster)?.resource(group, kind)?.namespaced)
    }

    /// Adds a cluster, or gives one that was added before new credentials and rules. It must answer. When this returns it is
    /// followed here, and other processes follow it within seconds.
    pub async fn add_cluster(&self, new: NewCluster) -> Result<ClusterReport, Error> {
        self.inner.roster.add(self.shared(), &new).await?;
        let member = self.shared().member(&new.name).ok_or(Error::Closed)?;
        Ok(member.report(self.shared(), &self.read(Index::inventory)))
    }

    /// Removes a cluster that was added. When this returns, no row, key, tenant or facet of it is left here.
    pub async fn remove_cluster(&self, name: &str) -> Result<(), Error> {
        self.inner.roster.remove(self.shared(), name).await
    }

    /// Removes what has been kept long enough, as the cleaner does now and then; tells how many rows that were.
    pub async fn clean(&self) -> Result<usize, Error> {
        clean_once(self.shared()).await
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }
}

impl Inner {
    fn end_tasks(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end_tasks();
        for member in self.shared.members().values() {
            member.abandon();
        }
    }
}

/// Of a kind that is named twice the first counts.
fn without_doubles(kinds: Vec<KindSpec>) -> Arc<[KindSpec]> {
    let mut once: Vec<KindSpec> = Vec::new();
    for spec in kinds {
        if !once.iter().any(|known| known.is(&spec.group, &spec.kind)) {
            once.push(spec);
        }
    }
    once.into()
}

/// The cleaner rests for so long at least.
const SHORTEST_SLEEP: Duration = Duration::from_millis(100);

/// Takes over what other processes changed in the database.
async fn keep_settled(shared: Arc<Shared>, roster: Arc<Roster>) {
    loop {
        tokio::time::sleep(shared.settings.roster_every).await;
        settle(&shared, &roster).await;
    }
}

async fn follow_secrets(shared: Arc<Shared>, roster: Arc<Roster>, secrets: Secrets) {
    let told = |described| {
        roster.describe(described);
        settle(&shared, &roster)
    };
    secrets::follow(&shared, &secrets, told, |fault| roster.unread(fault)).await;
}

async fn settle(shared: &Arc<Shared>, roster: &Roster) {
    if let Err(error) = roster.settle(shared).await {
        tracing::warn!(%error, "the list of clusters cannot be brought up to date");
    }
}

/// A row that goes while this sleeps is kept for as long as its kind says, so that none is late when it sleeps no longer than that.
async fn clean(shared: Arc<Shared>, every: Duration) {
    let shortest = shared.kinds.iter().filter_map(|spec| spec.retention).filter(|retention| !retention.is_zero()).min();
    let every = shortest.map_or(every, |shortest| every.min(shortest)).max(SHORTEST_SLEEP);
    loop {
        tokio::time::sleep(until_next(&shared, every)).await;
        if let Err(error) = clean_once(&shared).await {
            tracing::warn!(%error, "rows that were kept long enough cannot be removed");
        }
    }
}

/// How long until a row is to be removed, at most so long.
fn until_next(shared: &Shared, most: Duration) -> Duration {
    let at = shared.store.read().expires_at();
    let left = at.map(|at| at.saturating_sub(jiff::Timestamp::now().as_millisecond()));
    let left = left.map(|left| Duration::from_millis(u64::try_from(left).unwrap_or(0)));
    left.map_or(most, |left| left.clamp(SHORTEST_SLEEP, most))
}

async fn clean_once(shared: &Shared) -> Result<usize, Error> {
    let (ticket, removed) = shared.store.expire(jiff::Timestamp::now().as_millisecond());
    ticket.wait().await?;
    shared.metrics.cleaned(removed);
    if removed > 0 {
        shared.changed.bump();
    }
    Ok(removed)
}
