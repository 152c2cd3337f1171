//! `stateward storage list`

use serde::Deserialize;

use crate::cli::output::{self, Format};
use crate::client::hub::{Hub, TypeRef};
use crate::document::Document;

/// A backend in a table.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub id: String,
    pub name: Option<String>,
    type_ref: TypeRef,
    url: Option<String>,
    accept_value: bool,
    #[serde(rename = "default")]
    is_default: bool,
    type_instance_count: u64,
    pub health: Health,
}

#[derive(Deserialize)]
pub struct Health {
    pub status: String,
    pub message: Option<String>,
}

pub async fn run(hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
    let backends = hub.backends().await?;
    let rows: Vec<Row> = hub.read(&backends)?;
    output::show_exactly(format, &Document::map([("items", backends)]), || table(&rows))
}

pub fn table(rows: &[Row]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
    output::table(&["BACKEND ID", "NAME", "TYPE", "URL", "TAKES", "DEFAULT", "RECORDS", "HEALTH"], &rows)
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let or_dash = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".to_owned());
        // The built-in store has no address, and keeps values whatever its record says.
        let takes = if self.accept_value || self.url.is_none() { "values" } else { "contexts alone" };
        vec![
            self.id.clone(),
            or_dash(self.name.as_ref()),
            self.type_ref.to_string(),
            or_dash(self.url.as_ref()),
            takes.to_owned(),
            if self.is_default { "yes" } else { "no" }.to_owned(),
            self.type_instance_count.to_string(),
            self.health.told(),
        ]
    }
}

impl Health {
    pub fn told(&self) -> String {
        let status = self.status.to_ascii_lowercase();
        self.message.as_ref().map_or(status.clone(), |message| format!("{status}: {message}"))
    }
}
