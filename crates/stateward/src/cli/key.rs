//! `stateward key`: key files, on this machine.

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use keys::key_file::{self, KeyFileError};
use serde::Serialize;

use super::failure::{Exit, Failure};
use super::output::{self, Format, FormatParser};

/// Make, rotate and list key files, for keys.files
#[derive(Args)]
pub struct Key {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key file, which must not be there yet; prints the version
    New {
        /// The file; only its owner will be able to read it
        file: PathBuf,
    },
    /// Add a version, which seals from now on; prints it
    ///
    /// The older versions stay, so that what they sealed still opens. A running server sees the change by itself.
    Rotate {
        /// The key file
        file: PathBuf,
    },
    Show(Show),
}

/// List the versions of a key file, never the key
#[derive(Args)]
struct Show {
    /// The key file
    file: PathBuf,
    /// How to show them
    #[arg(short, long, value_parser = FormatParser, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Serialize)]
struct Version {
    version: String,
    newest: bool,
}

impl Key {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::New { file } => {
                let version = key_file::create(&file).map_err(failure)?;
                output::talk(format_args!(
                    "created {}; keep a copy in a safe place: without it, what it seals is lost",
                    file.display()
                ));
                output::print(&version)
            }
            Command::Rotate { file } => {
                let version = key_file::rotate(&file).map_err(failure)?;
                output::talk(format_args!("{} has a new version; renew your copy of it", file.display()));
                output::print(&version)
            }
            Command::Show(Show { file, output }) => {
                let ids = key_file::list(&file).map_err(failure)?;
                let last = ids.len().saturating_sub(1);
                let mark = |(index, version): (usize, String)| Version { version, newest: index == last };
                let versions: Vec<Version> = ids.into_iter().enumerate().map(mark).collect();
                output::show(output, &versions, || {
                    let word = |version: &Version| if version.newest { "newest" } else { "-" };
                    let row = |version: &Version| vec![version.version.clone(), word(version).to_owned()];
                    output::table(&["VERSION", "STATE"], &versions.iter().map(row).collect::<Vec<_>>())
                })
            }
        }
    }
}

fn failure(error: KeyFileError) -> Failure {
    let message = error.to_string();
    match error {
        KeyFileError::Io { cause, .. } => match cause.kind() {
            ErrorKind::NotFound => Failure::new(Exit::NotFound, message, "`stateward key new FILE` makes a key file"),
            ErrorKind::AlreadyExists => {
                Failure::new(Exit::Conflict, message, "choose another name: a key that is overwritten is lost for ever")
            }
            ErrorKind::PermissionDenied => {
                Failure::new(Exit::Denied, message, "run it as the user who owns the file and its directory")
            }
            _ => Failure::new(Exit::Failed, message, "check the path and the disk"),
        },
        KeyFileError::Busy { draft, .. } => {
            let hint = format!("wait for the other one; if there is none, remove {}", draft.display());
            Failure::new(Exit::Conflict, message, hint)
        }
        KeyFileError::Bad { .. } => {
            Failure::new(Exit::Failed, message, "a key file has a line 'VERSION BASE64' per version")
        }
    }
}
