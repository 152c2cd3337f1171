//! `stateward type get`

use clap::Args;
use serde::Deserialize;

use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::client::hub::Hub;
use crate::document::Document;

/// Show Types
#[derive(Args)]
pub struct Get {
    /// A path, or a regular expression for whole paths such as cap.core.type.hub.storage.*, which also finds Types by the nodes
    /// that they are attached to; all Types if left out
    pattern: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    path: String,
    latest_revision: Option<Revision>,
    revisions: Vec<Revision>,
}

#[derive(Deserialize)]
struct Revision {
    revision: String,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    additional_refs: Option<Vec<String>>,
}

impl Get {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let types = hub.types(self.pattern.as_deref()).await?;
        if let Some(pattern) = self.pattern.filter(|_| types.as_list().is_some_and(<[Document]>::is_empty)) {
            let message = format!("no Type is called or attached to {}", output::plain(&pattern));
            let hint =
                "`stateward type get` without a pattern shows all; a pattern is for the whole path, such as cap.type.*";
            return Err(Failure::new(Exit::NotFound, message, hint).into());
        }
        show_types(hub, format, types)
    }
}

pub fn show_types(hub: Hub<'_>, format: Format, types: Document) -> anyhow::Result<()> {
    let rows: Vec<Row> = hub.read(&types)?;
    output::show_exactly(format, &Document::map([("items", types)]), || {
        let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
        output::table(&["TYPE", "LATEST", "REVISIONS", "ATTACHED TO"], &rows)
    })
}

fn cells(row: &Row) -> Vec<String> {
    let listed = |texts: Vec<&str>| if texts.is_empty() { "-".to_owned() } else { texts.join(",") };
    let mut attached: Vec<&str> = row
        .revisions
        .iter()
        .filter_map(|one| one.spec.additional_refs.as_ref())
        .flatten()
        .map(String::as_str)
        .collect();
    attached.sort_unstable();
    attached.dedup();
    vec![
        row.path.clone(),
        row.latest_revision.as_ref().map_or_else(|| "-".to_owned(), |latest| latest.revision.clone()),
        listed(row.revisions.iter().map(|one| one.revision.as_str()).collect()),
        listed(attached),
    ]
}
