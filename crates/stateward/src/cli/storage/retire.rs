//! `stateward storage retire`

use clap::Args;
use serde::Deserialize;

use crate::cli::output::{self, Format};
use crate::cli::ti::left_outside;
use crate::client::hub::{Hub, LeftOutside};

/// End a storage backend and its record
///
/// With --move-to its records go to another backend first. With --orphan they end, whether the backend answers or not, and what it
/// keeps of them is left there: the command lists it.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("end").required(true))]
pub struct Retire {
    /// The id or name of the backend
    #[arg(value_name = "ID|NAME")]
    backend: String,
    /// The backend that keeps its records from then on
    #[arg(long, value_name = "ID|NAME", group = "end")]
    move_to: Option<String>,
    /// End its records, and leave their values where they are
    #[arg(long, group = "end")]
    orphan: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Retired {
    moved: Vec<String>,
    left_outside: Vec<LeftOutside>,
}

impl Retire {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let answer = hub.retire(&hub.id(&self.backend).await?, self.move_to.as_deref()).await?;
        let Retired { moved, left_outside: left } = hub.read(&answer)?;
        output::show_exactly(format, &answer, || {
            let moved: Vec<Vec<String>> = moved.into_iter().map(|id| vec![id, "moved".to_owned()]).collect();
            let moved = if moved.is_empty() && !left.is_empty() {
                String::new()
            } else {
                output::table(&["TYPE INSTANCE ID", "BECAME"], &moved)
            };
            moved + &left_outside(&left)
        })
    }
}
