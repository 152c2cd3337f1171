//! How clusters are doing, for people.

use serde::Serialize;

use super::options::Authorizer;

/// One cluster. Of whom is told what is for whoever answers to decide: counts are of all rows, whoever sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    pub name: String,
    /// Of its kube-system namespace, once it has been asked.
    pub uid: Option<String>,
    pub source: Source,
    pub authorizer: Authorizer,
    /// Why nothing of it is followed (it does not answer, its credentials are refused, or it is here under another name), or not
    /// its namespaces.
    pub fault: Option<String>,
    /// Why nothing is shown of it now to anybody.
    pub withheld: Option<String>,
    /// How many of the kinds that it serves are synced, of how many.
    pub synced: usize,
    pub kinds_served: usize,
    pub kinds: Vec<KindReport>,
    pub objects: u64,
}

/// Where a cluster comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// The cluster that the server belongs to.
    Local,
    /// Added at run time, sealed in the database.
    Added,
    /// A kubeconfig Secret.
    Secret,
}

/// One kind of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindReport {
    pub group: String,
    /// Empty until the cluster serves it.
    pub version: String,
    pub kind: String,
    pub state: KindState,
    /// Of the state, in milliseconds since 1970: since when it is synced, stale or absent.
    pub since: Option<i64>,
    /// What went wrong, and what to do.
    pub reason: Option<String>,
    pub objects: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KindState {
    /// The cluster has not been asked for it, or does not have it: it is waited for.
    Absent,
    Listing,
    Synced,
    /// Nothing is heard, or it cannot be taken in: rows are shown as they were.
    Stale,
}

impl ClusterReport {
    /// One that is not followed, because of its name.
    pub(crate) fn refused(name: String, source: Source, fault: String) -> ClusterReport {
        ClusterReport {
            name,
            uid: None,
            source,
            authorizer: Authorizer::default(),
            withheld: Some(fault.clone()),
            fault: Some(fault),
            synced: 0,
            kinds_served: 0,
            kinds: Vec::new(),
            objects: 0,
        }
    }
}

impl Source {
    const ALL: [Source; 3] = [Source::Local, Source::Added, Source::Secret];

    /// As it is written down, for programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Source::Local => "local",
            Source::Added => "added",
            Source::Secret => "secret",
        }
    }

    /// What a word says.
    pub(crate) fn read(word: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.word() == word)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Source::Local => "the server's own configuration",
            Source::Added => "the database",
            Source::Secret => "a Secret",
        }
    }
}
