//! `stateward db`: looks after the database of the server.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use db::Db;
use serde::Serialize;

use super::failure::{Exit, Failure};
use super::key_flags::KeyFlags;
use super::output::{self, Format, FormatParser};
use crate::config::{Environment, resolve};
use crate::serve::database_config;

/// Look after the database
#[derive(Args)]
pub struct Database {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Backup(Backup),
}

/// Copy the embedded database to a file, also while the server uses it
///
/// The copy appears under its name only when it is complete and checked; a file that is there already is never
/// replaced. To restore: stop the server, put the copy in the place of `stateward.db` and remove `stateward.db-wal`
/// and `stateward.db-shm`. A PostgreSQL database is backed up by PostgreSQL's own `pg_dump`.
#[derive(Args)]
struct Backup {
    /// The file to make
    file: PathBuf,
    /// How to show what was made
    #[arg(short, long, value_parser = FormatParser, default_value_t, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    keys: KeyFlags,
}

#[derive(Serialize)]
struct Made {
    file: PathBuf,
    bytes: u64,
}

impl Database {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let Command::Backup(backup) = self.command;
        let settings = resolve(&backup.keys.0, environment).settings()?;
        let config = database_config(&settings)?;
        if let db::Config::Sqlite(sqlite) = &config
            && !sqlite.path.exists()
        {
            let message = format!("there is no database at {}", sqlite.path.display());
            let hint = "name the data directory of the server with --data-dir";
            return Err(Failure::new(Exit::NotFound, message, hint).into());
        }
        if backup.file.exists() {
            let message = format!("there is a file at {} already", backup.file.display());
            let hint = "choose another name: no copy is ever replaced";
            return Err(Failure::new(Exit::Conflict, message, hint).into());
        }
        let db = Db::open(config).await.context("failed to open the database")?;
        let made = db.backup(&backup.file).await;
        let bytes = made.with_context(|| format!("failed to make {}", backup.file.display()))?.bytes;
        db.close().await;
        let made = Made { file: backup.file, bytes };
        output::show(backup.output, &made, || format!("{} ({bytes} bytes, checked)\n", made.file.display()))
    }
}
