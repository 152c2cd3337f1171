//! What a service is opened with.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use db::Db;
use keys::Keyring;

use super::metrics::Metrics;
use crate::index;
use crate::kinds::KindSpec;

/// What a service is opened with.
#[derive(Debug)]
pub struct Options {
    /// The SQLite file of this process alone: rows and the keys of what is followed. Made with mode 0600.
    pub copy: PathBuf,
    /// Records that outlive this process and are shared with others: the sealed kubeconfigs of added clusters. Has
    /// [`super::MIGRATIONS`].
    pub db: Db,
    pub sealing: Sealing,
    /// The cluster that the server belongs to.
    pub local: Option<Local>,
    /// Where kubeconfig Secrets of further clusters are.
    pub secrets: Option<Secrets>,
    pub kinds: Vec<KindSpec>,
    pub settings: Settings,
    pub metrics: Metrics,
}

/// How kubeconfigs are sealed in the database.
#[derive(Clone, Debug)]
pub enum Sealing {
    /// By a named key.
    Named { keyring: Keyring, key: String },
    /// By a key file, which is made when the first cluster is added.
    File(PathBuf),
}

/// The cluster that the server belongs to: its authenticator is the server's own, so that identities count there as they are.
#[derive(Clone)]
pub struct Local {
    pub name: String,
    /// From [`super::collector`]; its own retries are off.
    pub client: kube::Client,
    /// Where the API server is. What it holds of credentials is dropped.
    pub address: kube::Config,
    pub authorizer: Authorizer,
    /// Who a static token is there, by the token's user.
    pub tokens: BTreeMap<String, Person>,
}

/// Secrets with the label `stateward.dev/cluster` are clusters; the label's value is the name.
#[derive(Clone)]
pub struct Secrets {
    /// From [`super::collector`].
    pub client: kube::Client,
    /// The server's own.
    pub namespace: String,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Any of these shows a row.
    pub row_verbs: Vec<String>,
    /// For how long what was known of RBAC counts when nothing more is heard.
    pub rbac_max_age: Duration,
    /// How long the answer to a SubjectAccessReview counts.
    pub review_ttl: Duration,
    /// How often kinds are looked for that a cluster did not have, and whether it is still the same cluster.
    pub look_every: Duration,
    /// How often the database is asked for clusters that other processes added.
    pub roster_every: Duration,
    /// How often rows are looked for that have been kept long enough, at least: each is removed in its time. `None`: never.
    pub cleaner_every: Option<Duration>,
    /// Limits of the index. What is kept of objects that are gone is added from the kinds.
    pub index: index::Settings,
    pub watch: watch::Settings,
    /// For every call that is not part of a stream.
    pub deadline: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            row_verbs: vec!["list".to_owned(), "get".to_owned()],
            rbac_max_age: Duration::from_secs(60),
            review_ttl: Duration::from_secs(10),
            look_every: Duration::from_secs(10),
            roster_every: Duration::from_secs(5),
            cleaner_every: Some(Duration::from_mins(1)),
            index: index::Settings::default(),
            watch: watch::Settings::default(),
            deadline: Duration::from_secs(10),
        }
    }
}

/// A cluster to be added. Its credentials are sealed in the database.
#[derive(Clone)]
pub struct NewCluster {
    /// A DNS label.
    pub name: String,
    /// YAML or JSON, with everything in it: no file, no command, no proxy.
    pub kubeconfig: String,
    pub rules: Rules,
}

/// How a cluster decides who is who and who may what.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rules {
    pub identity: Crossing,
    /// Who a static token is there, by the token's user; all others of them are nobody.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<String, Person>,
    pub authorizer: Authorizer,
}

/// Who somebody that this server knows is in another cluster. `system:` users and groups never cross; whoever is somebody is in
/// `system:authenticated`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Crossing {
    /// Nobody.
    #[default]
    None,
    /// The same: both clusters believe the same authenticator.
    Shared,
    /// Whom these say; several that fit add up. Whoever none of them fits is nobody.
    Map(Vec<Mapping>),
}

/// Whoever is this here is that person there.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mapping {
    pub from: Principal,
    #[serde(rename = "as")]
    pub person: Person,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Principal {
    User(String),
    Group(String),
}

/// A user, groups, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Person {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

/// What decides in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Authorizer {
    /// RBAC alone, compiled here.
    #[default]
    Rbac,
    /// Whatever the cluster has, asked by SubjectAccessReviews per verb, resource and namespace. No row is granted by its name
    /// alone, and none that is left of a namespace that is gone.
    Review,
}

impl fmt::Debug for Local {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Local").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secrets").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl fmt::Debug for NewCluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NewCluster").field("name", &self.name).finish_non_exhaustive()
    }
}
