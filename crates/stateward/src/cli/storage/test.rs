//! `stateward storage test`

use clap::Args;

use super::list::{Row, table};
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::client::hub::Hub;
use crate::document::Document;

/// Ask storage backends whether they serve; fails unless all of them do
#[derive(Args)]
pub struct Test {
    /// Ids or names
    #[arg(value_name = "ID|NAME", required = true)]
    backends: Vec<String>,
}

impl Test {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let (mut items, mut rows) = (Vec::new(), Vec::new());
        for backend in &self.backends {
            let found = hub.backend(backend).await?;
            rows.push(hub.read::<Row>(&found)?);
            items.push(found);
        }
        output::show_exactly(format, &Document::map([("items", Document::List(items))]), || table(&rows))?;
        match rows.iter().find(|row| row.health.status != "READY") {
            None => Ok(()),
            Some(row) => {
                let name = row.name.as_ref().unwrap_or(&row.id);
                let message =
                    format!("storage backend {} is {}", output::plain(name), output::plain(&row.health.told()));
                Err(Failure::new(
                    Exit::Unavailable,
                    message,
                    "is it running where its url says? `stateward backend` serves one",
                )
                .into())
            }
        }
    }
}
