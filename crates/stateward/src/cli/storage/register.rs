//! `stateward storage register`

use std::path::PathBuf;

use clap::Args;

use crate::cli::failure::{Exit, Failure};
use crate::cli::files;
use crate::cli::output::{self, Format};
use crate::cli::ti::{input, show_created};
use crate::client::hub::Hub;
use crate::document::Document;

/// Register storage backends: create the records that say where they listen
///
/// A document is one record: typeRef of a Type that is attached to cap.core.type.hub.storage, and a value with url, acceptValue and
/// contextSchema (or additionalParametersSchema). With a name, workflows and people can call it by that. The form in which records
/// are shown (metadata.name, latestResourceVersion) is taken, too.
#[derive(Args)]
pub struct Register {
    /// File with documents, or - for stdin; may be repeated
    #[arg(short, long = "from-file", value_name = "FILE|-", required = true)]
    file: Vec<PathBuf>,
}

impl Register {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let mut inputs = Vec::new();
        for (place, document) in files::documents(&self.file)? {
            let input = input::creation(document).map_err(|fault| files::misfit(&place, &fault))?;
            // A record without an address is no backend; the hub would take it for a record like any other.
            let records = input.at(&["typeInstances"]).and_then(Document::as_list).unwrap_or_default();
            if records.iter().any(|record| record.at(&["value", "url"]).is_none()) {
                let message =
                    format!("{place}: value.url: it is needed: where the backend listens, such as host:50051");
                return Err(Failure::new(Exit::Failed, message, "`stateward ti create` creates other records").into());
            }
            inputs.push(input);
        }
        let mut created = Vec::new();
        for input in inputs {
            created.extend(hub.create(input).await?);
        }
        show_created(format, &created)?;
        let known = hub.known_backends().await?;
        for record in created.iter().filter(|record| known.iter().all(|backend| backend.id != record.id)) {
            output::talk(format_args!(
                "{} is not listed as a storage backend: is its Type known and attached to cap.core.type.hub.storage?",
                record.id
            ));
        }
        Ok(())
    }
}
