//! `stateward storage`: the backends that keep the values of records; one file per command.

mod list;
mod register;
mod retire;
mod test;

use clap::{Args, Subcommand};

use super::failure::EXIT_CODES;
use crate::client::hub::Hub;
use crate::client::{Client, ClientArgs};
use crate::config::Environment;

/// List, register, test and retire storage backends
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Storage {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand)]
enum Command {
    /// List the storage backends, how many records each keeps, and whether they answer
    List,
    Register(register::Register),
    Test(test::Test),
    Retire(retire::Retire),
}

impl Storage {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let format = self.client.output;
        let client = Client::new(&self.client, environment).await?;
        let hub = Hub::new(&client);
        match self.command {
            Command::List => list::run(hub, format).await,
            Command::Register(command) => command.run(hub, format).await,
            Command::Test(command) => command.run(hub, format).await,
            Command::Retire(command) => command.run(hub, format).await,
        }
    }
}
