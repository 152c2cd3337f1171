//! `stateward state show`

use clap::Args;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::model::{self, Items, State};
use super::pages;
use super::target::Target;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{self, Format, plain};
use crate::client::Client;

/// Show what is known of a state: metadata, lock, outputs that you may see, and resources on request
#[derive(Args)]
pub struct Show {
    #[command(flatten)]
    target: Target,
    /// List the resources, or those that hold this text
    #[arg(long, value_name = "SEARCH", num_args = 0..=1, default_missing_value = "")]
    resources: Option<String>,
}

/// An output with its type and value as the state has them.
#[derive(Deserialize, Serialize)]
struct Output {
    name: String,
    #[serde(rename = "type")]
    kind: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Box<RawValue>>,
    #[serde(default)]
    sensitive: bool,
}

/// What programs get.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    state: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Vec<Output>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Resource {
    address: String,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    provider: Option<String>,
    id: Option<String>,
}

impl Show {
    pub async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let target = &self.target;
        let answer = client.ask(Method::GET, &target.path(&[]), &[target.store_query()]).await?;
        let state: State = client.read(&answer)?;
        let readable = state.version.is_some() && state.deleted.is_none() && state.moved.is_none();
        let outputs = if readable { outputs(client, target).await? } else { None };
        let resources = match &self.resources {
            Some(search) if readable => Some(resources(client, target, search).await?),
            _ => None,
        };
        let listed: Vec<Resource> =
            resources.iter().flatten().map(|item| client.read(item)).collect::<Result<_, _>>()?;
        let shown = Shown { state: answer, outputs, resources };
        output::show_exactly(format, &shown, || {
            let mut text = facts(&state);
            let outputs: Vec<Vec<String>> = shown.outputs.iter().flatten().map(output_row).collect();
            if !outputs.is_empty() {
                text.push_str(&format!("\n{}", output::table(&["OUTPUT", "VALUE"], &outputs)));
            }
            if shown.resources.is_some() {
                let rows: Vec<Vec<String>> = listed.iter().map(resource_row).collect();
                text.push_str(&format!("\n{}", output::table(&["RESOURCE", "TYPE", "PROVIDER", "ID"], &rows)));
            }
            text
        })
    }
}

/// The outputs; `None` where the caller may not see them or the client encrypted them.
async fn outputs(client: &Client, target: &Target) -> Result<Option<Vec<Output>>, Failure> {
    match client.get_exactly::<Items<Output>>(&target.path(&["outputs"]), &[target.store_query()]).await {
        Ok(list) => Ok(Some(list.items)),
        Err(failure) if matches!(failure.exit, Exit::Denied | Exit::Conflict) => {
            output::talk(format_args!("outputs are not shown: {failure}"));
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

async fn resources(client: &Client, target: &Target, search: &str) -> Result<Vec<Value>, Failure> {
    let search = Some(search).filter(|text| !text.is_empty());
    pages::all(client, &target.path(&["resources"]), &[target.store_query(), ("search", search)]).await
}

fn output_row(output: &Output) -> Vec<String> {
    let value = match (&output.value, output.sensitive) {
        (Some(value), _) => value.to_string(),
        (None, true) => "(sensitive)".to_owned(),
        (None, false) => "-".to_owned(),
    };
    vec![output.name.clone(), value]
}

fn resource_row(resource: &Resource) -> Vec<String> {
    vec![
        resource.address.clone(),
        model::cell(resource.kind.as_ref()),
        model::cell(resource.provider.as_ref()),
        model::cell(resource.id.as_ref()),
    ]
}

fn facts(state: &State) -> String {
    let written = match (&state.updated_at, &state.updated_by) {
        (Some(at), Some(by)) => format!("{at} by {by}"),
        (at, _) => model::cell(at.as_ref()),
    };
    let encryption = match (state.encrypted_by_client, state.sealed) {
        (true, true) => "by the client and at rest",
        (true, false) => "by the client",
        (false, true) => "at rest",
        (false, false) => "none",
    };
    let bytes = state.size.map_or_else(|| "-".to_owned(), |size| format!("{} ({size} bytes)", model::size(Some(size))));
    let mut lines = vec![
        ("State", format!("{}/{}", state.namespace, state.name)),
        ("Store", state.store.clone()),
        ("Version", format!("{} of {} kept", model::count(state.version), state.versions)),
        ("Serial", model::cell(state.serial.as_ref())),
        ("Lineage", model::cell(state.lineage.as_ref())),
        ("Written with", model::cell(state.terraform_version.as_ref())),
        ("Size", bytes),
        ("SHA-256", model::cell(state.sha256.as_ref())),
        ("Encryption", encryption.to_owned()),
        ("Updated", written),
    ];
    match &state.lock {
        Some(lock) => {
            lines.push(("Locked by", lock.holder()));
            lines.push(("Lock ID", lock.id.clone()));
            let (operation, info) = (model::cell(lock.operation.as_ref()), model::cell(lock.info.as_ref()));
            lines.push(("Lock for", format!("{operation}, {info}")));
            let expired = if lock.expired { ", expired" } else { "" };
            lines.push(("Lock since", format!("{}{expired}", model::cell(lock.taken_at.as_ref()))));
        }
        None => lines.push(("Locked by", "nobody".to_owned())),
    }
    if let Some(deleted) = &state.deleted {
        let (at, by) = (model::cell(deleted.at.as_ref()), model::cell(deleted.by.as_ref()));
        lines.push(("Deleted", format!("{at} by {by}")));
    }
    if let Some(moved) = &state.moved {
        let (at, by) = (model::cell(moved.at.as_ref()), model::cell(moved.by.as_ref()));
        lines.push(("Moved to", format!("{}, {at} by {by}", moved.to)));
    }
    let line = |(name, value): &(&str, String)| format!("{:<14}{}\n", format!("{name}:"), plain(value));
    lines.iter().map(line).collect::<Vec<_>>().concat()
}
