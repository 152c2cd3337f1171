//! `stateward ti move`

use clap::Args;

use crate::cli::output::{self, Format};
use crate::client::hub::Hub;
use crate::document::Document;

/// Move records to another storage backend: all versions are copied and compared before the old ones go
#[derive(Args)]
pub struct Move {
    /// Ids or names
    #[arg(value_name = "ID|NAME", required = true)]
    records: Vec<String>,
    /// The storage backend that keeps them from then on
    #[arg(long, value_name = "ID|NAME")]
    to: String,
    /// Who holds the locks of the records, where they are locked
    #[arg(long)]
    owner: Option<String>,
}

impl Move {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let records = hub.ids(&self.records).await?;
        let moved = hub.move_to(&records, &self.to, self.owner.as_deref()).await?;
        output::show_exactly(format, &Document::map([("items", moved.clone())]), || {
            let cells = |record: &Document| {
                let text = |keys: &[&str]| record.at(keys).and_then(Document::as_str).unwrap_or("-").to_owned();
                vec![text(&["id"]), text(&["name"]), text(&["backend", "id"])]
            };
            let rows: Vec<Vec<String>> = moved.as_list().unwrap_or_default().iter().map(cells).collect();
            output::table(&["MOVED", "NAME", "BACKEND"], &rows)
        })
    }
}
