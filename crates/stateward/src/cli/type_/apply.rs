//! `stateward type apply`

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use super::get::show_types;
use crate::cli::failure::Failure;
use crate::cli::files;
use crate::cli::output::Format;
use crate::client::hub::Hub;
use crate::document::Document;

/// Make Types known, all of them or none
///
/// A revision of a Type never changes: applying the same one again does nothing, and another one under the same revision is refused.
#[derive(Args)]
pub struct Apply {
    /// File with manifests, directory with .yaml, .yml and .json files, or - for stdin; may be repeated
    #[arg(short, long = "from-file", value_name = "FILE|DIR|-", required = true)]
    file: Vec<PathBuf>,
}

impl Apply {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let mut found = Vec::new();
        for file in &self.file {
            gather(file, &mut found)?;
        }
        if found.is_empty() {
            return Err(Failure::usage("there is no manifest", "give a file, or a directory with .yaml files").into());
        }
        let documents = files::documents(&found)?;
        // A directory of manifests has other kinds, too.
        let is_type = |document: &Document| document.at(&["kind"]).is_none_or(|kind| kind.as_str() == Some("Type"));
        let types = documents.iter().map(|(_, document)| document).filter(|document| is_type(document));
        let manifests: Vec<String> = types.map(Document::to_json).collect();
        if manifests.is_empty() {
            return Err(Failure::usage("none of the manifests is of kind Type", "check the files").into());
        }
        show_types(hub, format, hub.apply_types(manifests).await?)
    }
}

/// The files that a path stands for, in order.
fn gather(path: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !path.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.with_context(|| format!("failed to list {}", path.display()))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let is_manifest = path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
        if path.is_dir() || is_manifest {
            gather(&path, found)?;
        }
    }
    Ok(())
}
