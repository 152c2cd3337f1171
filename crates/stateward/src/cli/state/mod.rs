//! `stateward state`: look at states, move them, lock them; one file per command or small family.
//!
//! To add a command: a file beside its siblings, a line in the list of modules, in [`Command`] and in [`State::run`].

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
    BackendConfig(backend_config::BackendConfig),
    Exec(Box<exec::Exec>),
}

impl State {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let format = self.client.output;
        // The first two know how to reach the server by themselves.
        let command = match self.command {
            Command::BackendConfig(command) => return command.run(&self.client, environment).await,
            Command::Exec(command) => return command.run(self.client, environment).await,
            command => command,
        };
        let client = Client::new(&self.client, environment).await?;
        match command {
            Command::List(command) => command.run(&client, format).await,
            Command::Show(command) => command.run(&client, format).await,
            Command::Pull(command) => command.run(&client).await,
            Command::Push(command) => command.run(&client, format, environment).await,
            Command::Versions(command) => command.run(&client, format).await,
            Command::Diff(command) => command.run(&client, format, environment).await,
            Command::Rollback(command) => command.run(&client, format).await,
            Command::Delete(command) => command.run(&client, format).await,
            Command::Restore(command) => command.run(&client, format).await,
            Command::Lock(command) => command.run(&client, format).await,
            Command::Locks(command) => command.run(&client, format).await,
            Command::Unlock(command) => command.run(&client).await,
            Command::Migrate(command) => command.run(&client, format, environment).await,
            Command::BackendConfig(_) | Command::Exec(_) => Ok(()),
        }
    }
}
