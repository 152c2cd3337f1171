//! `stateward workflow`: whether a workflow can be run, and what is put around its steps.

mod check;
mod render;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::failure::{EXIT_CODES, Exit, Failure};
use super::files;
use crate::client::hub::Hub;
use crate::client::{Client, ClientArgs};
use crate::config::Environment;
use crate::workflow::manifest::Manifests;
use crate::workflow::{Fault, Plan, Run};

/// Check workflows against the registered storage backends, and write the payloads of their steps
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Workflow {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Check),
    Render(Box<render::Render>),
}

/// What both commands take.
#[derive(Args)]
struct Given {
    /// File with the Implementation; those of its Interface and of the actions within it may follow, or be in the same file
    #[arg(short, long = "from-file", value_name = "FILE|-", required = true)]
    file: Vec<PathBuf>,
    /// The id of a record that goes into the workflow, under the name that the manifest has for it; may be repeated
    #[arg(long = "type-instance", value_name = "NAME=ID", value_parser = pair)]
    inputs: Vec<(String, String)>,
    /// The storage backend that an alias of the requirements stands for, if there is more than one; may be repeated
    #[arg(long = "backend", value_name = "ALIAS=ID|NAME", value_parser = pair)]
    backends: Vec<(String, String)>,
}

impl Workflow {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let format = self.client.output;
        let client = Client::new(&self.client, environment).await?;
        let hub = Hub::new(&client);
        match self.command {
            Command::Check(command) => command.run(hub, format).await,
            Command::Render(command) => command.run(hub, format).await,
        }
    }
}

impl Given {
    async fn plan(&self, hub: Hub<'_>, run: &mut Run) -> Result<Plan, Failure> {
        let mut manifests = Manifests::default();
        for (place, document) in files::documents(&self.file)? {
            manifests.add(&document).map_err(|fault| files::misfit(&place, &fault))?;
        }
        run.inputs = self.inputs.iter().cloned().collect::<BTreeMap<_, _>>();
        run.backends = self.backends.iter().cloned().collect();
        Plan::of(&manifests, &hub.known_backends().await?, run).map_err(|fault| {
            let (exit, hint) = match &fault {
                Fault::NoBackend { .. } => (Exit::NotFound, "`stateward storage register` registers one"),
                Fault::UnknownAlias(_) => (Exit::Failed, "an alias is given to a storage backend in spec.requires"),
                Fault::NotStorage(_) => {
                    (Exit::Failed, "name a requirement under cap.core.type.hub.storage, or leave the backend out")
                }
                Fault::Field { .. } => (Exit::Failed, "correct the manifest; docs/hub.md shows one"),
            };
            Failure::new(exit, fault.to_string(), hint)
        })
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is written NAME=VALUE".to_owned()),
    }
}
