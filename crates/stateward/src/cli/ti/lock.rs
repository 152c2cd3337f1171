//! `stateward ti lock` and `unlock`

use std::time::Duration;

use clap::Args;

use crate::cli::failure::Failure;
use crate::cli::output::{self, Format};
use crate::client::hub::Hub;
use crate::config::units;
use crate::document::Document;

/// Lock records so that only their owner changes them, all or none
#[derive(Args)]
pub struct Lock {
    /// Ids or names
    #[arg(value_name = "ID|NAME", required = true)]
    records: Vec<String>,
    /// Who holds them; whoever locks again as the same owner renews the lock
    #[arg(long)]
    owner: String,
    /// How long the lock lasts, such as 30s or 5m; until it is released if left out
    #[arg(long, value_name = "TIME", value_parser = lease)]
    expires_in: Option<Duration>,
}

/// Release records, all or none
#[derive(Args)]
pub struct Unlock {
    /// Ids or names
    #[arg(value_name = "ID|NAME", required = true)]
    records: Vec<String>,
    /// Who holds them
    #[arg(long, required_unless_present = "force", conflicts_with = "force")]
    owner: Option<String>,
    /// Break the locks, whoever holds them; needs the permission force-unlock
    #[arg(long)]
    force: bool,
}

impl Lock {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let lease = self.expires_in.map(|lease| format!("{}ms", lease.as_millis()));
        let records = hub.ids(&self.records).await?;
        let locked = hub.lock(&records, &self.owner, lease.as_deref()).await?;
        show(format, "LOCKED", locked)
    }
}

impl Unlock {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let records = hub.ids(&self.records).await?;
        let unlocked = match &self.owner {
            Some(owner) => hub.unlock(&records, owner).await?,
            None if self.force => hub.force_unlock(&records).await?,
            None => return Err(Failure::usage("there is no owner", "give --owner, or --force").into()),
        };
        show(format, "UNLOCKED", unlocked)
    }
}

/// Ids in one column.
pub fn show(format: Format, header: &str, ids: Document) -> anyhow::Result<()> {
    let rows = ids.as_list().unwrap_or_default().iter();
    let rows: Vec<Vec<String>> = rows.map(|id| vec![id.as_str().unwrap_or_default().to_owned()]).collect();
    output::show_exactly(format, &Document::map([("ids", ids)]), || output::table(&[header], &rows))
}

fn lease(text: &str) -> Result<Duration, String> {
    match units::duration(text) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("a time has a unit and is above zero, such as 30s or 5m, at most {}", units::LONGEST)),
    }
}
