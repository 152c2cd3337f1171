//! `stateward explore --watch`: what changes, line by line, until it is interrupted or the server ends it.

use serde_json::Value;

use super::model::Row;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::client::Client;

/// More than one event ever has.
const LONGEST_EVENT: usize = 1 << 20;

pub async fn follow(client: &Client, format: Format, question: &str) -> anyhow::Result<()> {
    let mut events = client.download(&["v1", "changes"], &[("query", Some(question))]).await?;
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(chunk) = events.next().await? {
        bytes.extend_from_slice(&chunk);
        // Only whole events are text: a piece may end within a letter.
        while let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = bytes.drain(..end + 2).collect();
            show(client, format, &String::from_utf8_lossy(&event))?;
        }
        if bytes.len() > LONGEST_EVENT {
            return Err(Failure::new(Exit::Failed, "an event of the server has no end", "check --server").into());
        }
    }
    Err(Failure::new(Exit::Unavailable, "the server ended the stream", "start again to go on").into())
}

/// One event; comments, which keep the connection alive, are none.
fn show(client: &Client, format: Format, event: &str) -> anyhow::Result<()> {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let (Some(kind), Some(data)) = (field("event"), field("data")) else { return Ok(()) };
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    if format != Format::Table {
        return output::print(&serde_json::json!({ "event": kind, "data": data }).to_string());
    }
    match kind {
        "changed" => {
            let row: Row = client.read(&data)?;
            output::print(&format!("changed  {}", output::plain(&row.cells().join("  "))))
        }
        "gone" => output::print(&format!("gone     {}", output::plain(data["id"].as_str().unwrap_or_default()))),
        "reset" => {
            output::talk(format_args!("too much has happened: run the search again"));
            Ok(())
        }
        "end" => {
            let reason = output::plain(data["reason"].as_str().unwrap_or_default());
            Err(Failure::new(Exit::Unavailable, format!("the server ended the stream: {reason}"), "start again").into())
        }
        _ => Ok(()),
    }
}
