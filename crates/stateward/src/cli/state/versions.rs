//! `stateward state versions`

use clap::Args;
use http::Method;

use super::model::{self, Items, Version};
use super::target::Target;
use crate::cli::output::{self, Format};
use crate::client::Client;

/// List the versions that are kept of a state, newest first
#[derive(Args)]
pub struct Versions {
    #[command(flatten)]
    target: Target,
}

impl Versions {
    pub async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let answer = client.ask(Method::GET, &self.target.path(&["versions"]), &[self.target.store_query()]).await?;
        let list: Items<Version> = client.read(&answer)?;
        output::show(format, &answer, || {
            let rows: Vec<Vec<String>> = list.items.iter().map(row).collect();
            output::table(&["VERSION", "SERIAL", "TERRAFORM", "SIZE", "WRITTEN", "BY", "SHA256"], &rows)
        })
    }
}

fn row(version: &Version) -> Vec<String> {
    let current = if version.current { " (current)" } else { "" };
    vec![
        format!("{}{current}", version.number),
        model::cell(version.serial.as_ref()),
        model::cell(version.written_with.as_ref()),
        model::size(version.size),
        model::cell(version.written_at.as_ref()),
        model::cell(version.written_by.as_ref()),
        model::cell(version.sha256.as_ref()),
    ]
}
