//! The command line: one enum of commands, one file each.
//!
//! The door is [`run`]. To add a command: a file beside its siblings and a line in [`Command`] and in [`run`]. A
//! command prints data to stdout through [`output`] and talk to stderr, and ends with a [`failure::Failure`] that
//! carries its exit code and a hint.

mod audit;
mod backend;
mod cluster;
mod completion;
mod config;
mod configmap_backend;
mod database;
mod docs;
mod each;
mod explore;
pub mod failure;
mod files;
mod go;
mod key;
mod key_flags;
mod logging;
mod man;
pub mod names;
pub mod output;
mod rescue;
mod serve;
mod state;
mod step;
mod storage;
mod ti;
mod token;
mod type_;
mod version;
mod workflow;

use clap::{Parser, Subcommand};

use crate::config::Environment;

/// Keeps, delegates, mints, shows and safely ends state that Kubernetes does not own.
#[derive(Parser)]
#[command(name = "stateward", version, after_help = failure::EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    ConfigmapBackend(Box<configmap_backend::ConfigmapBackend>),
    Backend(Box<backend::Backend>),
    State(Box<state::State>),
    #[command(visible_alias = "typeinstance", aliases = ["typeinstances", "TypeInstance"])]
    Ti(Box<ti::Ti>),
    Storage(Box<storage::Storage>),
    Type(Box<type_::Type>),
    Workflow(Box<workflow::Workflow>),
    Step(Box<step::Step>),
    Explore(Box<explore::Explore>),
    Cluster(Box<cluster::Cluster>),
    Token(Box<token::Token>),
    Rescue(rescue::Rescue),
    Key(key::Key),
    Audit(audit::Audit),
    #[command(name = "db")]
    Database(database::Database),
    Config(config::Config),
    Version(version::Version),
    Completion(completion::Completion),
    Man(man::Man),
    GenerateDocs(docs::GenerateDocs),
}

/// Runs one command to its end.
pub async fn run(cli: Cli, environment: &Environment) -> anyhow::Result<()> {
    match cli.command {
        // A server is a large future: on the heap, so that the small commands do not carry it.
        Command::Serve(command) => Box::pin(command.run(environment)).await,
        Command::ConfigmapBackend(command) => Box::pin(command.run(environment)).await,
        Command::Backend(command) => Box::pin(command.run(environment)).await,
        Command::State(command) => command.run(environment).await,
        Command::Ti(command) => command.run(environment).await,
        Command::Storage(command) => command.run(environment).await,
        Command::Type(command) => command.run(environment).await,
        Command::Workflow(command) => command.run(environment).await,
        Command::Step(command) => command.run(environment).await,
        Command::Explore(command) => command.run(environment).await,
        Command::Cluster(command) => command.run(environment).await,
        Command::Token(command) => command.run(environment).await,
        Command::Rescue(command) => command.run(environment).await,
        Command::Key(command) => command.run(),
        Command::Audit(command) => command.run(environment).await,
        Command::Database(command) => command.run(environment).await,
        Command::Config(command) => command.run(environment),
        Command::Version(command) => command.run(),
        Command::Completion(command) => command.run(),
        Command::Man(command) => command.run(),
        Command::GenerateDocs(command) => command.run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
