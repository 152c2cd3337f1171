//! `stateward step upload`

use std::path::PathBuf;

use clap::Args;

use super::payload::{Kind, Payload};
use super::{artifacts, place};
use crate::cli::failure::{Exit, Failure};
use crate::cli::files;
use crate::cli::output::{self, Format};
use crate::cli::ti::show_created;
use crate::client::hub::Hub;
use crate::config::Environment;
use crate::document::Document;

/// Create the records that a workflow has put out
///
/// The payload is the input of createTypeInstances without values; each record's artifact, a file named after its alias, has them: value,
/// backend.context or additionalParameters, or, without these keys, the whole document as the value. A record that has one of them in the
/// payload needs no artifact. All records are created or none. A step that runs again with the same files does not create them twice.
#[derive(Args, Default)]
pub struct Upload {
    /// The payload [env: APP_UPLOAD_CONFIG_PAYLOAD_FILEPATH] [default: /upload/payload]
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// The directory of the artifacts [env: APP_UPLOAD_CONFIG_TYPE_INSTANCES_DIR] [default: /upload/typeInstances]
    #[arg(long, value_name = "DIR")]
    type_instances: Option<PathBuf>,
    /// Create the records whose artifacts are there, and the relations among them; ends with 10 if some were left out
    #[arg(long)]
    partial: bool,
    /// The key under which a repeated upload is the same one, if not one made of all that is sent
    #[arg(long, value_name = "TEXT")]
    idempotency_key: Option<String>,
}

impl Upload {
    pub async fn run(self, hub: Hub<'_>, format: Format, environment: &Environment) -> anyhow::Result<()> {
        let file = place(self.payload.as_ref(), environment, "APP_UPLOAD_CONFIG_PAYLOAD_FILEPATH", "/upload/payload");
        let directory = "APP_UPLOAD_CONFIG_TYPE_INSTANCES_DIR";
        let directory = place(self.type_instances.as_ref(), environment, directory, "/upload/typeInstances");
        let payload = read(&file, Kind::Upload)?;
        if payload.is_empty() {
            return show_created(format, &[]);
        }
        let (found, missing) = artifacts(&directory, &payload)?;
        if !self.partial {
            all_there(&directory, &missing)?;
        }
        if found.is_empty() {
            return Err(left_out(&missing).into());
        }
        let backends = if payload.backends().is_empty() { Vec::new() } else { hub.known_backends().await? };
        let context_alone = |id: &str| {
            backends.iter().any(|backend| backend.is_called(id) && !backend.accept_value && backend.is_external())
        };
        let mut input = payload.upload(&found, context_alone);
        if input.at(&["idempotencyKey"]).is_none() {
            let key = self.idempotency_key.unwrap_or_else(|| payload.key(&input));
            input.put("idempotencyKey", key.as_str().into());
        }
        show_created(format, &hub.create(input).await?)?;
        if missing.is_empty() { Ok(()) } else { Err(left_out(&missing).into()) }
    }
}

pub fn read(file: &std::path::Path, kind: Kind) -> Result<Payload, Failure> {
    let text = files::text(file)?;
    let document = Document::read(&text).map_err(|fault| files::unreadable(file, &fault.to_string()))?;
    Payload::read(document, kind).map_err(|fault| files::unreadable(file, &fault))
}

pub fn all_there(directory: &std::path::Path, missing: &[String]) -> Result<(), Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    let message =
        format!("nothing was sent: {} has no artifact for {}", directory.display(), output::plain(&missing.join(", ")));
    Err(Failure::new(Exit::NotFound, message, "--partial sends those that are there"))
}

pub fn left_out(missing: &[String]) -> Failure {
    let message = format!("left out for want of an artifact: {}", output::plain(&missing.join(", ")));
    Failure::new(Exit::Partial, message, "without --partial nothing is sent unless all artifacts are there")
}
