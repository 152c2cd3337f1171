//! `stateward ti`: typed records (TypeInstances); one file per command or small family.
//!
//! To add a command: a file beside its siblings, a line in the list of modules, in [`Command`] and in its `run`. [`input`] and
//! [`export`] have the forms in which records are written (pure).

mod apply;
mod create;
mod delete;
mod edit;
mod export;
mod get;
pub mod input;
mod journal;
mod lock;
mod relocate;

use clap::{Args, Subcommand};

use super::failure::EXIT_CODES;
use crate::client::hub::Hub;
use crate::client::{Client, ClientArgs};
use crate::config::Environment;

pub use apply::show_updated;
pub use create::show_created;
pub use delete::left_outside;

/// Create, show, change, lock, move and end typed records (TypeInstances)
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Ti {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand)]
enum Command {
    Create(create::Create),
    Get(get::Get),
    Apply(apply::Apply),
    Edit(edit::Edit),
    Delete(delete::Delete),
    Lock(lock::Lock),
    Unlock(lock::Unlock),
    Move(relocate::Move),
    Journal(journal::Journal),
}

impl Ti {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let format = self.client.output;
        let client = Client::new(&self.client, environment).await?;
        let hub = Hub::new(&client);
        match self.command {
            Command::Create(command) => command.run(hub, format).await,
            Command::Get(command) => command.run(hub, format).await,
            Command::Apply(command) => command.run(hub, format).await,
            Command::Edit(command) => command.run(hub, format, environment).await,
            Command::Delete(command) => command.run(hub, format).await,
            Command::Lock(command) => command.run(hub, format).await,
            Command::Unlock(command) => command.run(hub, format).await,
            Command::Move(command) => command.run(hub, format).await,
            Command::Journal(command) => command.run(hub, format).await,
        }
    }
}
