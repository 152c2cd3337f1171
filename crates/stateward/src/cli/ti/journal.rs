//! `stateward ti journal`: what was begun with storage backends and is not finished.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use super::delete::left_outside;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::client::hub::{Hub, LeftOutside};
use crate::document::Document;

/// Show and settle what was begun with storage backends and is not finished
#[derive(Args)]
pub struct Journal {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List what is not finished, and why
    Ls,
    /// Try now, instead of when the server would
    Retry(Entries),
    /// Give up: the hub forgets it, and lists what may be left in the backend
    Abandon(Entries),
}

#[derive(Args)]
struct Entries {
    /// Ids of entries
    #[arg(value_name = "ID", required = true)]
    entries: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: String,
    operation: String,
    #[serde(rename = "backendID")]
    backend: String,
    type_instances: Vec<String>,
    started_at: String,
    attempts: u32,
    error: Option<String>,
}

impl Journal {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        match self.command {
            Command::Ls => list(hub, format).await,
            Command::Retry(entries) => {
                let retry = async |id: &str| hub.retry_journal(id).await.map(|()| Vec::new());
                settle(format, "RETRIED", &entries.entries, retry).await
            }
            Command::Abandon(entries) => {
                settle(format, "ABANDONED", &entries.entries, async |id| hub.abandon_journal(id).await).await
            }
        }
    }
}

async fn list(hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
    let journal = hub.journal().await?;
    let entries: Vec<Entry> = hub.read(&journal)?;
    output::show_exactly(format, &Document::map([("items", journal)]), || {
        let rows: Vec<Vec<String>> = entries.into_iter().map(cells).collect();
        let header = ["ENTRY", "OPERATION", "BACKEND", "TYPE INSTANCES", "STARTED", "ATTEMPTS", "ERROR"];
        output::table(&header, &rows)
    })
}

fn cells(entry: Entry) -> Vec<String> {
    vec![
        entry.id,
        entry.operation,
        entry.backend,
        entry.type_instances.join(","),
        entry.started_at,
        entry.attempts.to_string(),
        entry.error.unwrap_or_else(|| "-".to_owned()),
    ]
}

/// Goes on to the end of the list, shows what was settled, and then fails if one of them failed.
async fn settle(
    format: Format,
    header: &str,
    ids: &[String],
    act: impl AsyncFn(&str) -> Result<Vec<LeftOutside>, Failure>,
) -> anyhow::Result<()> {
    let (mut settled, mut left, mut failure) = (Vec::new(), Vec::new(), None);
    for id in ids {
        match act(id).await {
            Ok(outside) => {
                settled.push(id);
                left.extend(outside);
            }
            Err(mut refused) => {
                if refused.exit == Exit::NotFound {
                    refused.hint = String::from("`stateward ti journal ls` shows what is open");
                }
                output::talk(format_args!("{}: {refused}", output::plain(id)));
                failure = failure.or(Some(refused));
            }
        }
    }
    let rows: Vec<Vec<String>> = settled.iter().map(|id| vec![(*id).clone()]).collect();
    let answer = json!({ "ids": settled, "leftOutside": left });
    output::show(format, &answer, || output::table(&[header], &rows) + &left_outside(&left))?;
    failure.map_or(Ok(()), |failure| Err(failure.into()))
}
