//! `stateward ti apply`

use std::path::PathBuf;

use clap::Args;

use super::input;
use crate::cli::failure::Failure;
use crate::cli::files;
use crate::cli::output::{self, Format};
use crate::client::hub::Hub;
use crate::document::Document;

/// Give records new versions from files, all of them or none
///
/// Documents are as `ti get --export` writes them: id, and typeInstance with attributes, value or backend.context. What is left
/// out stays as it was; an empty list of attributes clears them.
#[derive(Args)]
pub struct Apply {
    /// File with documents, or - for stdin; may be repeated
    #[arg(short, long = "from-file", value_name = "FILE|-", required = true)]
    file: Vec<PathBuf>,
    /// Who holds the locks of the records, where they are locked
    #[arg(long)]
    owner: Option<String>,
    /// Refuse the change unless this is the record's newest version; for one record
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    expected_version: Option<u32>,
}

impl Apply {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let mut changes = Vec::new();
        for (place, document) in files::documents(&self.file)? {
            changes.extend(input::changes(document).map_err(|fault| files::misfit(&place, &fault))?);
        }
        if self.expected_version.is_some() && changes.len() != 1 {
            let message = format!("--expected-version is for one record, and there are {}", changes.len());
            return Err(Failure::usage(message, "write expectedResourceVersion into each document").into());
        }
        for change in &mut changes {
            let id = hub.id(change.at(&["id"]).and_then(Document::as_str).unwrap_or_default()).await?;
            change.put("id", id.as_str().into());
            if let Some(owner) = &self.owner {
                change.put("ownerID", owner.as_str().into());
            }
            if let Some(version) = self.expected_version {
                change.put("expectedResourceVersion", version.into());
            }
        }
        show_updated(format, &hub.update(changes).await?)
    }
}

/// Which records have which version now.
pub fn show_updated(format: Format, updated: &Document) -> anyhow::Result<()> {
    output::show_exactly(format, &Document::map([("items", updated.clone())]), || {
        let cells = |record: &Document| {
            let text = |key: &str| record.at(&[key]).and_then(Document::as_str).unwrap_or("-").to_owned();
            let version = record.at(&["latestResourceVersion", "resourceVersion"]).map(Document::to_json);
            vec![text("id"), text("name"), version.unwrap_or_default()]
        };
        let rows: Vec<Vec<String>> = updated.as_list().unwrap_or_default().iter().map(cells).collect();
        output::table(&["UPDATED", "NAME", "REVISION"], &rows)
    })
}
