//! `stateward ti delete`

use clap::Args;
use serde_json::json;

use crate::cli::output::{self, Format};
use crate::client::hub::{Hub, LeftOutside};

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
    /// End the records even where their backends fail, and list what is left there; needs a permission of its own
    #[arg(long)]
    orphan: bool,
}

impl Delete {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let (mut deleted, mut left, mut failure) = (Vec::new(), Vec::new(), None);
        for record in &self.records {
            let id = hub.id(record).await?;
            let owner = self.owner.as_deref();
            let ended = if self.orphan {
                hub.orphan(&id, owner).await
            } else {
                hub.delete(&id, owner).await.map(|()| Vec::new())
            };
            match ended {
                Ok(outside) => {
                    deleted.push(record.clone());
                    left.extend(outside);
                }
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
            let answer =
                if self.orphan { json!({ "items": items, "leftOutside": left }) } else { json!({ "items": items }) };
            output::show(format, &answer, || {
                let lines: Vec<String> =
                    deleted.iter().map(|id| format!("TypeInstance \"{}\" deleted\n", output::plain(id))).collect();
                lines.concat() + &left_outside(&left)
            })?;
        }
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }
}

/// What is left at backends, as a table of its own; nothing if nothing is.
pub fn left_outside(left: &[LeftOutside]) -> String {
    if left.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = left.iter().map(LeftOutside::cells).collect();
    output::table(&LeftOutside::HEADER, &rows)
}
