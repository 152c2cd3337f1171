//! A service for tests: what it is opened with, who asks it, and what they see.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use access::{Identity, Source};
use db::{Config, Db};
use explorer::Explorer;
use explorer::kinds::KindSpec;
use explorer::query::Query;
use explorer::service::{
    Authorizer, ClusterReport, KindState, Local, MIGRATIONS, Metrics, NewCluster, Options, Rules, Sealing, Settings,
};
use testbed::{Cluster, Kubeconfig, eventually};

pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// The name of the cluster that the server belongs to.
pub(crate) const HOME: &str = "home";

/// The cluster beside the shared one, started by the first test that asks.
pub(crate) async fn second() -> &'static Cluster {
    static SECOND: tokio::sync::OnceCell<Cluster> = tokio::sync::OnceCell::const_new();
    SECOND.get_or_init(Cluster::own).await
}

/// Where a service keeps what survives it.
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { directory: testbed::process::scratch("explorer").unwrap() }
    }

    pub(crate) fn copy(&self) -> PathBuf {
        self.directory.join("explorer.db")
    }

    /// A service of no cluster, with the settings of tests.
    pub(crate) async fn options(&self, kinds: &[&str]) -> Options {
        let db = Db::open(Config::sqlite(self.directory.join("records.db"))).await.unwrap();
        db.migrate(&[MIGRATIONS]).await.unwrap();
        Options {
            copy: self.copy(),
            db,
            sealing: Sealing::File(self.directory.join("clusters.key")),
            local: None,
            secrets: None,
            kinds: kinds.iter().map(|kind| KindSpec::parse(kind).unwrap()).collect(),
            settings: settings(),
            metrics: Metrics::default(),
        }
    }

    /// A service whose own cluster this is, read by somebody who may read everything.
    pub(crate) async fn open(&self, cluster: &Cluster, kinds: &[&str]) -> Explorer {
        let mut options = self.options(kinds).await;
        options.local = Some(local(&reader(cluster)));
        Explorer::open(options).await.unwrap()
    }
}

/// With which recoveries are waited for.
pub(crate) fn settings() -> Settings {
    let watch = watch::Settings {
        longest_pause: Duration::from_secs(2),
        absent_pause: Duration::from_secs(1),
        ..watch::Settings::default()
    };
    let mut settings = Settings { look_every: Duration::from_secs(1), watch, ..Settings::default() };
    settings.roster_every = Duration::from_millis(500);
    // Tests compare whole answers.
    settings.index.page = 1_000_000;
    settings
}

/// The collector with everything, of a group whose members may do anything: tests that look at rights make their own.
pub(crate) fn reader(cluster: &Cluster) -> Kubeconfig {
    cluster.user("explorer-collector", &["system:masters"]).kubeconfig().clone()
}

pub(crate) fn local(kubeconfig: &Kubeconfig) -> Local {
    Local {
        name: HOME.to_owned(),
        client: kubeconfig.plain_client(),
        address: kubeconfig.config(),
        authorizer: Authorizer::Rbac,
        tokens: BTreeMap::new(),
    }
}

pub(crate) fn added(name: &str, kubeconfig: &Kubeconfig, rules: Rules) -> NewCluster {
    NewCluster { name: name.to_owned(), kubeconfig: kubeconfig.yaml(), rules }
}

pub(crate) fn somebody(source: Source, user: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().copied().chain(["system:authenticated"]).map(str::to_owned).collect();
    let user = user.to_owned();
    Identity { user, uid: None, groups, extra: BTreeMap::new(), source, grants: Arc::new([]) }
}

pub(crate) fn jane() -> Identity {
    somebody(Source::TokenReview, "jane", &[])
}

/// Who may see everything at home.
pub(crate) fn master() -> Identity {
    somebody(Source::Certificate, "root", &["system:masters"])
}

/// What somebody finds: `cluster/namespace/name` of each row.
pub(crate) async fn found(explorer: &Explorer, identity: &Identity, text: &str) -> BTreeSet<String> {
    let visibility = explorer.visibility(identity).await;
    let query = Query { limit: 0, ..Query::parse(text).unwrap() };
    let page = explorer.read(|index| index.query(&query, &visibility));
    assert!(!page.truncated, "a test with more rows than a page");
    assert_eq!(page.total, page.rows.len() as u64);
    page.rows.iter().map(|found| place(&found.row.key)).collect()
}

pub(crate) fn place(key: &explorer::Key) -> String {
    format!("{}/{}/{}", key.cluster, key.namespace, key.name)
}

/// Waits until somebody finds exactly this.
pub(crate) async fn finds(explorer: &Explorer, identity: &Identity, text: &str, expected: &[String]) {
    let expected: BTreeSet<String> = expected.iter().cloned().collect();
    eventually(LIMIT, || async {
        let found = found(explorer, identity, text).await;
        let withheld = explorer.visibility(identity).await.withheld();
        if found == expected { Ok(()) } else { Err(format!("{found:?} and not {expected:?}; {withheld:?}")) }
    })
    .await;
}

pub(crate) fn report(explorer: &Explorer, name: &str) -> Option<ClusterReport> {
    explorer.clusters().into_iter().find(|report| report.name == name)
}

/// Waits until every kind that the cluster serves, at least so many, is collected and RBAC is read.
pub(crate) async fn synced(explorer: &Explorer, name: &str, kinds: usize) {
    eventually(LIMIT, || async {
        let report = report(explorer, name);
        let ready = |report: &ClusterReport| {
            report.withheld.is_none() && report.synced == report.kinds_served && report.synced >= kinds
        };
        if report.as_ref().is_some_and(ready) { Ok(()) } else { Err(format!("{report:#?}")) }
    })
    .await;
}

pub(crate) fn state(explorer: &Explorer, name: &str, kind: &str) -> Option<KindState> {
    let report = report(explorer, name)?;
    report.kinds.iter().find(|report| report.kind == kind).map(|report| report.state)
}

/// Every byte of the copy, with what the write-ahead log holds.
pub(crate) fn bytes(copy: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for suffix in ["", "-wal"] {
        let path = PathBuf::from(format!("{}{suffix}", copy.display()));
        all.extend(std::fs::read(path).unwrap_or_default());
    }
    all
}
