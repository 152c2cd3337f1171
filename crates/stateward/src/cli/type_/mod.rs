//! `stateward type`: what values of records look like.

mod apply;
mod get;

use clap::{Args, Subcommand};

use super::failure::EXIT_CODES;
use crate::client::hub::Hub;
use crate::client::{Client, ClientArgs};
use crate::config::Environment;

/// Apply and show Types
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Type {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand)]
enum Command {
    Apply(apply::Apply),
    Get(get::Get),
}

impl Type {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let format = self.client.output;
        let client = Client::new(&self.client, environment).await?;
        let hub = Hub::new(&client);
        match self.command {
            Command::Apply(command) => command.run(hub, format).await,
            Command::Get(command) => command.run(hub, format).await,
        }
    }
}
