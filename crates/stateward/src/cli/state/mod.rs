//! `stateward state`: look at states, move them, lock them; one file per command or small family.
//!
//! To add a command: a file beside its siblings, a line in the list of modules, in [`Managed`] or [`Command`] and in its
//! `run`.

mod backend_config;
mod delete;
mod diff;
mod exec;
mod held;
mod list;
mod lock;
mod migrate;
mod model;
mod pages;
mod pull;
mod push;
mod question;
mod rollback;
mod show;
mod spooled;
mod target;
mod versions;

use clap::{Args, Subcommand};

use super::failure::EXIT_CODES;
use super::output::Format;
use crate::client::{Client, ClientArgs};
use crate::config::Environment;

/// List, show, move, compare, lock and roll back Terraform and OpenTofu states
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct State {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Managed(Managed),
    BackendConfig(backend_config::BackendConfig),
    Exec(Box<exec::Exec>),
}

/// Those that ask the management API.
#[derive(Subcommand)]
enum Managed {
    List(list::List),
    Show(show::Show),
    Pull(pull::Pull),
    Push(push::Push),
    Versions(versions::Versions),
    Diff(diff::Diff),
    Rollback(rollback::Rollback),
    Delete(delete::Delete),
    Restore(delete::Restore),
    Lock(lock::Lock),
    Locks(lock::Locks),
    Unlock(lock::Unlock),
    Migrate(Box<migrate::Migrate>),
}

impl State {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        match self.command {
            Command::Managed(command) => {
                let client = Client::new(&self.client, environment).await?;
                command.run(&client, self.client.output, environment).await
            }
            Command::BackendConfig(command) => command.run(&self.client, environment).await,
            Command::Exec(command) => command.run(self.client, environment).await,
        }
    }
}

impl Managed {
    async fn run(self, client: &Client, format: Format, environment: &Environment) -> anyhow::Result<()> {
        match self {
            Managed::List(command) => command.run(client, format).await,
            Managed::Show(command) => command.run(client, format).await,
            Managed::Pull(command) => command.run(client).await,
            Managed::Push(command) => command.run(client, format, environment).await,
            Managed::Versions(command) => command.run(client, format).await,
            Managed::Diff(command) => command.run(client, format, environment).await,
            Managed::Rollback(command) => command.run(client, format).await,
            Managed::Delete(command) => command.run(client, format).await,
            Managed::Restore(command) => command.run(client, format).await,
            Managed::Lock(command) => command.run(client, format).await,
            Managed::Locks(command) => command.run(client, format).await,
            Managed::Unlock(command) => command.run(client).await,
            Managed::Migrate(command) => command.run(client, format, environment).await,
        }
    }
}
