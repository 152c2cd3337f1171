//! `stateward step`: what a workflow runs around its own steps: fetch records, fill in values, store what came out.
//!
//! Environment names, payloads and artifacts are those of the original's `argo-actions` and `ti-value-fetcher`, under whose names the
//! binary answers, too. [`artifact`] and [`payload`] have the rules (pure), the other files are one command each. Without a command
//! `APP_ACTION` says which.

mod artifact;
mod download;
mod payload;
mod resolve;
mod update;
mod upload;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::failure::{EXIT_CODES, Failure};
use crate::client::hub::Hub;
use crate::client::{Client, ClientArgs};
use crate::config::Environment;

/// Store and fetch records from within a workflow
///
/// Flags and variables say where payload and artifacts are; in a Pod its ServiceAccount is the identity. Without a command the
/// variable APP_ACTION says which: UploadAction, UpdateAction or DownloadAction. APP_LOCAL_HUB_ENDPOINT is the address of the server
/// where neither --server nor STATEWARD_SERVER is given.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Step {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand)]
enum Command {
    Upload(upload::Upload),
    Update(update::Update),
    Download(download::Download),
    Resolve(resolve::Resolve),
}

const ENDPOINT: &str = "APP_LOCAL_HUB_ENDPOINT";

impl Step {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let command = match self.command {
            Some(command) => command,
            None => Command::of(environment.non_empty("APP_ACTION"))?,
        };
        let endpoint = environment.non_empty(ENDPOINT).map(|address| (ENDPOINT, server_of(address)));
        let args = self.client.or_server(endpoint);
        let format = args.output;
        let client = Client::in_pod(&args, environment).await?;
        let hub = Hub::new(&client);
        match command {
            Command::Upload(command) => command.run(hub, format, environment).await,
            Command::Update(command) => command.run(hub, format, environment).await,
            Command::Download(command) => command.run(hub, environment).await,
            Command::Resolve(command) => command.run(hub, environment).await,
        }
    }
}

impl Command {
    fn of(action: Option<&str>) -> Result<Command, Failure> {
        match action {
            Some("UploadAction") => Ok(Command::Upload(upload::Upload::default())),
            Some("UpdateAction") => Ok(Command::Update(update::Update::default())),
            Some("DownloadAction") => Ok(Command::Download(download::Download::default())),
            Some(_) => Err(Failure::usage(
                "APP_ACTION names no action",
                "write UploadAction, UpdateAction or DownloadAction, or give a command",
            )),
            None => Err(Failure::usage(
                "there is neither a command nor APP_ACTION",
                "`stateward step --help` lists the commands",
            )),
        }
    }
}

/// The original names the route, too.
fn server_of(endpoint: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    endpoint.strip_suffix("/graphql").unwrap_or(endpoint).to_owned()
}

/// A path from its flag, else its variable, else where the original has it.
fn place(flag: Option<&PathBuf>, environment: &Environment, variable: &str, otherwise: &str) -> PathBuf {
    match (flag, environment.non_empty(variable)) {
        (Some(path), _) => path.clone(),
        (None, Some(path)) => PathBuf::from(path),
        (None, None) => PathBuf::from(otherwise),
    }
}

/// A path that has no other place.
fn needed(flag: Option<&PathBuf>, environment: &Environment, variable: &str, name: &str) -> Result<PathBuf, Failure> {
    flag.cloned()
        .or_else(|| environment.non_empty(variable).map(PathBuf::from))
        .ok_or_else(|| Failure::usage(format!("neither {name} nor {variable} is given"), "say where the file is"))
}

/// The artifacts that are there or not needed, by name, and the names of those that are missing.
fn artifacts(directory: &Path, payload: &payload::Payload) -> Result<(payload::Artifacts, Vec<String>), Failure> {
    let (mut found, mut missing) = (payload::Artifacts::new(), Vec::new());
    for name in &payload.names {
        let path = directory.join(name);
        if !path.exists() {
            if payload.has_content(name) {
                found.insert(name.clone(), artifact::Artifact::default());
            } else {
                missing.push(name.clone());
            }
            continue;
        }
        let text = super::files::text(&path)?;
        let document = crate::document::Document::read(&text);
        let document = document.map_err(|fault| super::files::unreadable(&path, &fault.to_string()))?;
        let artifact = artifact::Artifact::of(document);
        found.insert(name.clone(), artifact.map_err(|fault| super::files::unreadable(&path, &fault))?);
    }
    Ok((found, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_of_the_original_names_a_server() {
        for (endpoint, server) in [
            ("http://hub.default:8080/graphql", "http://hub.default:8080"),
            ("https://hub/graphql/", "https://hub"),
            ("https://hub/prefix/graphql", "https://hub/prefix"),
            ("https://hub", "https://hub"),
        ] {
            assert_eq!(server_of(endpoint), server);
        }
    }

    #[test]
    fn paths_come_from_flags_before_variables_before_the_places_of_the_original() {
        let environment: Environment = [("APP_X", "/variable"), ("APP_EMPTY", "")].into_iter().collect();
        let flag = PathBuf::from("/flag");
        let table = [
            (Some(&flag), "APP_X", "/flag"),
            (None, "APP_X", "/variable"),
            (None, "APP_EMPTY", "/otherwise"),
            (None, "APP_UNSET", "/otherwise"),
        ];
        for (flag, variable, expected) in table {
            assert_eq!(place(flag, &environment, variable, "/otherwise"), PathBuf::from(expected));
        }
        assert!(needed(None, &environment, "APP_UNSET", "--input").is_err());
    }
}
