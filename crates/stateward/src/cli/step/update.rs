//! `stateward step update`

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;

use super::payload::Kind;
use super::upload::{all_there, left_out, read};
use super::{artifacts, place};
use crate::cli::output::Format;
use crate::cli::ti::show_updated;
use crate::client::hub::Hub;
use crate::config::Environment;
use crate::document::Document;

/// Give records new versions from what a workflow has put out
///
/// The payload is a list of the inputs of updateTypeInstances without values; each record's artifact is a file named after its id, and not
/// needed where the payload has a value or a context. All records are changed or none.
#[derive(Args, Default)]
pub struct Update {
    /// The payload [env: APP_UPDATE_CONFIG_PAYLOAD_FILEPATH] [default: /update/payload]
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// The directory of the artifacts [env: APP_UPDATE_CONFIG_TYPE_INSTANCES_DIR] [default: /update/typeInstances]
    #[arg(long, value_name = "DIR")]
    type_instances: Option<PathBuf>,
    /// Change the records whose artifacts are there; ends with 10 if some were left out
    #[arg(long)]
    partial: bool,
}

impl Update {
    pub async fn run(self, hub: Hub<'_>, format: Format, environment: &Environment) -> anyhow::Result<()> {
        let file = place(self.payload.as_ref(), environment, "APP_UPDATE_CONFIG_PAYLOAD_FILEPATH", "/update/payload");
        let directory = "APP_UPDATE_CONFIG_TYPE_INSTANCES_DIR";
        let directory = place(self.type_instances.as_ref(), environment, directory, "/update/typeInstances");
        let payload = read(&file, Kind::Update)?;
        if payload.is_empty() {
            return show_updated(format, &Document::List(Vec::new()));
        }
        let (found, missing) = artifacts(&directory, &payload)?;
        if !self.partial {
            all_there(&directory, &missing)?;
        }
        if found.is_empty() {
            return Err(left_out(&missing).into());
        }
        let context_alone = context_alone(hub, found.keys()).await?;
        let changes = payload.update(&found, |id| context_alone.contains(id));
        show_updated(format, &hub.update(changes).await?)?;
        if missing.is_empty() { Ok(()) } else { Err(left_out(&missing).into()) }
    }
}

/// Those of the records whose backends take no values.
async fn context_alone<'a>(hub: Hub<'_>, ids: impl Iterator<Item = &'a String>) -> anyhow::Result<HashSet<String>> {
    let backends = hub.known_backends().await?;
    let mut found = HashSet::new();
    for id in ids {
        let (_, backend) = hub.backend_of(id).await?;
        if backends.iter().any(|known| known.id == backend && !known.accept_value && known.is_external()) {
            found.insert(id.clone());
        }
    }
    Ok(found)
}
