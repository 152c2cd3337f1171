//! `stateward ti create`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::input;
use crate::cli::failure::Failure;
use crate::cli::files;
use crate::cli::output::{self, Format};
use crate::client::hub::{Created, Hub};

/// Create records from files
///
/// Each document, YAML or JSON, is created whole or not at all: typeInstances with their usesRelations, or one record alone. A
/// record names its backend by id or name, and gives it a value, a context (additionalParameters) or both. Numbers are kept as
/// they are written.
#[derive(Args)]
pub struct Create {
    /// File with documents, or - for stdin; may be repeated
    #[arg(short, long = "from-file", value_name = "FILE|-", required = true)]
    file: Vec<PathBuf>,
}

impl Create {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let mut inputs = Vec::new();
        for (place, document) in files::documents(&self.file)? {
            inputs.push(input::creation(document).map_err(|fault| files::misfit(&place, &fault))?);
        }
        let (mut created, mut failure) = (Vec::new(), None::<Failure>);
        for input in inputs {
            match hub.create(input).await {
                Ok(records) => created.extend(records),
                Err(refused) => {
                    failure = Some(refused);
                    break;
                }
            }
        }
        // What is there is told, also when a later document failed.
        if !created.is_empty() || failure.is_none() {
            show_created(format, &created)?;
        }
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }
}

/// Which alias became which record.
pub fn show_created(format: Format, created: &[Created]) -> anyhow::Result<()> {
    let items: Vec<_> = created.iter().map(|record| json!({ "alias": record.alias, "id": record.id })).collect();
    output::show(format, &json!({ "items": items }), || {
        let rows: Vec<Vec<String>> =
            created.iter().map(|record| vec![record.alias.clone(), record.id.clone()]).collect();
        output::table(&["ALIAS", "ASSIGNED ID"], &rows)
    })
}
