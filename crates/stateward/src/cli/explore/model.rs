//! What the query API answers, as far as tables show it.

use serde::Deserialize;

#[derive(Deserialize)]
pub struct Answer {
    pub total: u64,
    #[serde(flatten)]
    pub clusters: Clusters,
}

/// How the clusters are that the caller is somebody in.
#[derive(Deserialize)]
pub struct Clusters {
    pub withheld: Vec<Withheld>,
    pub stale: Vec<Stale>,
    pub collected: Collected,
}

#[derive(Deserialize)]
pub struct Withheld {
    pub cluster: String,
    pub reason: String,
}

#[derive(Deserialize)]
pub struct Stale {
    pub cluster: String,
    pub since: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
pub struct Collected {
    pub clusters: usize,
    pub of: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub cluster: String,
    pub namespace: String,
    pub kind: String,
    pub name: String,
    pub status: String,
    pub message: String,
    pub deleted_at: Option<String>,
    pub stale_since: Option<String>,
}

impl Row {
    pub const HEADER: [&str; 6] = ["CLUSTER", "NAMESPACE", "KIND", "NAME", "STATUS", "MESSAGE"];

    pub fn cells(&self) -> Vec<String> {
        let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        vec![
            self.cluster.clone(),
            dash(&self.namespace),
            self.kind.clone(),
            self.name.clone(),
            self.condition(),
            self.message.clone(),
        ]
    }

    /// The status, and what makes it doubtful.
    fn condition(&self) -> String {
        let mut status = self.status.clone();
        if self.deleted_at.is_some() {
            status.push_str(",deleted");
        }
        if self.stale_since.is_some() {
            status.push_str(",stale");
        }
        status
    }
}

#[derive(Deserialize)]
pub struct Facets {
    facets: Vec<Facet>,
    #[serde(flatten)]
    pub clusters: Clusters,
}

#[derive(Deserialize)]
struct Facet {
    field: String,
    values: Vec<String>,
    counts: Vec<u64>,
}

impl Facets {
    pub fn rows(&self) -> Vec<Vec<String>> {
        let values = |facet: &Facet| -> Vec<Vec<String>> {
            let counted = facet.values.iter().zip(&facet.counts);
            counted.map(|(value, count)| vec![facet.field.clone(), value.clone(), count.to_string()]).collect()
        };
        self.facets.iter().flat_map(values).collect()
    }
}
