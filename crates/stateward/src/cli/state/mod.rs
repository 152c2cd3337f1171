//! `stateward state`: Terraform and OpenTofu states. One file per subcommand, one line each below.

mod backend_config;
mod exec;

use clap::{Args, Subcommand};

use crate::client::ClientArgs;
use crate::config::Environment;

/// Work with Terraform and OpenTofu states
#[derive(Args)]
pub struct State {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand)]
enum Command {
    BackendConfig(backend_config::BackendConfig),
    Exec(Box<exec::Exec>),
}

impl State {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        match self.command {
            Command::BackendConfig(command) => command.run(&self.client, environment).await,
            Command::Exec(command) => command.run(self.client, environment).await,
        }
    }
}
