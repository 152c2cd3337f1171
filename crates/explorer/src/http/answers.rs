//! What the query API answers. Field names are a public format, as far as they go those of the original: the OpenAPI document
//! is made of these types.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::index::{Facet, Found, Suggestion, View, Visibility};
use crate::service::{ClusterReport, Explorer};

/// An object that the caller sees.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Object")]
pub(super) struct ObjectAnswer {
    /// `cluster/namespace/group/version/kind/name`.
    pub(super) id: String,
    pub(super) cluster: String,
    /// Empty for objects of the whole cluster.
    pub(super) namespace: String,
    /// Empty for the core group.
    pub(super) api_group: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) status: String,
    pub(super) message: String,
    pub(super) category: String,
    /// Empty where the namespace belongs to none.
    pub(super) tenant: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) uid: String,
    pub(super) created_at: Option<String>,
    /// Set for an object that is gone and kept for a while.
    pub(super) deleted_at: Option<String>,
    pub(super) terminating: bool,
    /// Since when it may be out of date: its cluster does not answer.
    pub(super) stale_since: Option<String>,
    /// The whole object as JSON, for those who may `get` it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unstructured: Option<String>,
}

impl ObjectAnswer {
    pub(super) fn of(found: Found) -> ObjectAnswer {
        let Found { id, row, tenant, stale_since, .. } = found;
        ObjectAnswer {
            id,
            cluster: row.key.cluster,
            namespace: row.key.namespace,
            api_group: row.key.group,
            api_version: row.version,
            kind: row.key.kind,
            name: row.key.name,
            status: row.status.as_str().to_owned(),
            message: row.message,
            category: row.category,
            tenant: tenant.unwrap_or_default(),
            labels: row.labels.into_iter().collect(),
            uid: row.uid,
            created_at: row.created.and_then(time),
            deleted_at: row.deleted_at.and_then(time),
            terminating: row.terminating,
            stale_since: stale_since.and_then(time),
            unstructured: None,
        }
    }
}

/// The answer to a question.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueryAnswer {
    pub(super) objects: Vec<ObjectAnswer>,
    /// How many there are on all pages.
    pub(super) total: u64,
    /// Counts by field, over all pages; there if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) facets: Option<Vec<FacetAnswer>>,
    /// Send this as `cursor` to get the next page; null at the end.
    pub(super) cursor: Option<String>,
    /// Send this as `cursor` to get the page before; null on the first page.
    pub(super) previous: Option<String>,
    /// The page has as many rows as the server gives at once, and there are more.
    pub(super) truncated: bool,
    /// Some bodies are left out, because together they are too large for one answer.
    pub(super) unstructured_truncated: bool,
    /// Words that are not looked for in bodies: uids, hashes, times.
    pub(super) unsearched: Vec<String>,
    /// Some bodies have more words than are kept: what is found may not be all.
    pub(super) incomplete: bool,
    #[serde(flatten)]
    pub(super) clusters: ClustersAnswer,
}

/// How the clusters are that the caller is somebody in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClustersAnswer {
    /// Clusters of which nothing is shown for now.
    pub(super) withheld: Vec<WithheldAnswer>,
    /// Clusters that do not answer, or not for all kinds: their rows may be out of date.
    pub(super) stale: Vec<StaleAnswer>,
    pub(super) collected: Collected,
}

/// Of how many clusters everything has been collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Collected {
    pub(super) clusters: usize,
    pub(super) of: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct WithheldAnswer {
    pub(super) cluster: String,
    pub(super) reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct StaleAnswer {
    pub(super) cluster: String,
    pub(super) since: Option<String>,
}

impl ClustersAnswer {
    /// Of the clusters in somebody's sight; of others not even the name is told.
    pub(super) fn of(explorer: &Explorer, sight: &Visibility) -> ClustersAnswer {
        let reports: Vec<ClusterReport> =
            explorer.clusters().into_iter().filter(|report| sight.of(&report.name).is_some()).collect();
        let withheld = sight.withheld().into_iter();
        let withheld = withheld.map(|withheld| WithheldAnswer { cluster: withheld.cluster, reason: withheld.reason });
        let is_shown = |report: &&ClusterReport| !matches!(sight.of(&report.name), Some(View::Withheld(_)) | None);
        let stale = reports.iter().filter(is_shown).filter_map(|report| {
            let since = super::clusters::stale_since(report)?;
            Some(StaleAnswer { cluster: report.name.clone(), since: time(since) })
        });
        let collected = reports.iter().filter(|report| super::clusters::is_collected(report)).count();
        ClustersAnswer {
            withheld: withheld.collect(),
            stale: stale.collect(),
            collected: Collected { clusters: collected, of: reports.len() },
        }
    }
}

/// One field with its values, those with most objects first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Facet")]
pub(super) struct FacetAnswer {
    /// `labels.KEY` for a label.
    pub(super) field: String,
    pub(super) values: Vec<String>,
    /// How many objects have each of the values.
    pub(super) counts: Vec<u64>,
    /// How many values there are beside these.
    pub(super) more: usize,
}

impl From<Facet> for FacetAnswer {
    fn from(Facet { field, values, more }: Facet) -> FacetAnswer {
        let (values, counts) = values.into_iter().map(|value| (value.value, value.count)).unzip();
        FacetAnswer { field, values, counts, more }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct FacetsAnswer {
    pub(super) facets: Vec<FacetAnswer>,
    /// What people call the labels, by the field's name.
    pub(super) human_readable_labels: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(super) clusters: ClustersAnswer,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct SuggestAnswer {
    pub(super) values: Vec<SuggestedAnswer>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Suggested")]
pub(super) struct SuggestedAnswer {
    value: String,
    /// How many objects have it, of those that the caller sees.
    count: u64,
}

impl From<Suggestion> for SuggestedAnswer {
    fn from(Suggestion { value, count }: Suggestion) -> SuggestedAnswer {
        SuggestedAnswer { value, count }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Objects")]
pub(super) struct ObjectsAnswer {
    pub(super) objects: Vec<ObjectAnswer>,
}

/// A time as people and programs read it.
pub(super) fn time(milliseconds: i64) -> Option<String> {
    Timestamp::from_millisecond(milliseconds).ok().map(|time| time.to_string())
}
