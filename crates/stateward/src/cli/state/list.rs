//! `stateward state list`

use clap::Args;
use serde_json::{Value, json};

use super::model::{self, State};
use super::pages;
use super::target::COLLECTION;
use crate::cli::failure::Failure;
use crate::cli::output::{self, Format};
use crate::client::{Client, Query};

/// List the states of the namespaces in which you may list
#[derive(Args)]
pub struct List {
    #[command(flatten)]
    filter: Filter,
    /// Those too that were deleted and can be restored
    #[arg(long)]
    deleted: bool,
}

/// Which states of a list are meant.
#[derive(Args, Clone, Debug, Default)]
pub struct Filter {
    /// Only this namespace
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Only states with this text in NAMESPACE/NAME
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
}

impl List {
    pub async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let deleted = self.deleted.then_some("true");
        let items = all(client, &self.filter, &[("deleted", deleted)]).await?;
        let states: Vec<State> = items.iter().map(|item| client.read(item)).collect::<Result<_, Failure>>()?;
        output::show(format, &json!({ "items": items, "total": items.len() }), || {
            let rows: Vec<Vec<String>> = states.iter().map(row).collect();
            let header = ["NAMESPACE", "NAME", "STORE", "VERSION", "SERIAL", "SIZE", "UPDATED", "BY", "CONDITION"];
            output::table(&header, &rows)
        })
    }
}

/// The states that the filter lets through, as the server tells them.
pub async fn all(client: &Client, filter: &Filter, more: Query<'_>) -> Result<Vec<Value>, Failure> {
    let mut query = vec![("namespace", filter.namespace.as_deref()), ("search", filter.search.as_deref())];
    query.extend(more);
    pages::all(client, &COLLECTION, &query).await
}

fn row(state: &State) -> Vec<String> {
    vec![
        state.namespace.clone(),
        state.name.clone(),
        state.store.clone(),
        model::count(state.version),
        model::cell(state.serial.as_ref()),
        model::size(state.size),
        model::cell(state.updated_at.as_ref()),
        model::cell(state.updated_by.as_ref()),
        state.condition(),
    ]
}
