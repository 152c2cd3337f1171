//! `stateward ti delete`

use clap::Args;
use serde_json::json;

use crate::cli::output::{self, Format};
use crate::client::hub::{Hub, OnBackendFailure};

/// End records with all their versions
///
/// One after the other; those that cannot be ended are told, and make the command fail at its end. A record that others use
/// stays, and so does one whose backend does not answer, unless --orphan is given.
#[derive(Args)]
pub struct Delete {
    /// Ids or names
    #[arg(value_name = "ID|NAME", required = true)]
    records: Vec<String>,
    /// Who holds the locks of the records, where they are locked
    #[arg(long)]
    owner: Option<String>,
    /// End the records even where their backends fail, and leave there what is there; needs a permission of its own
    #[arg(long)]
    orphan: bool,
}

impl Delete {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let on_failure = if self.orphan { OnBackendFailure::Orphan } else { OnBackendFailure::Fail };
        let (mut deleted, mut failure) = (Vec::new(), None);
        for record in &self.records {
            let id = hub.id(record).await?;
            match hub.delete(&id, self.owner.as_deref(), on_failure).await {
                Ok(()) => deleted.push(record.clone()),
                Err(refused) => {
                    if self.records.len() > 1 {
                        output::talk(format_args!("{refused}"));
                    }
                    failure = failure.or(Some(refused));
                }
            }
        }
        if !deleted.is_empty() {
            let items: Vec<_> = deleted.iter().map(|id| json!({ "id": id })).collect();
            output::show(format, &json!({ "items": items }), || {
                let lines: Vec<String> =
                    deleted.iter().map(|id| format!("TypeInstance \"{}\" deleted\n", output::plain(id))).collect();
                lines.concat()
            })?;
        }
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }
}
