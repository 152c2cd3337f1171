//! `stateward state delete` and `stateward state restore`

use clap::Args;
use http::Method;
use serde_json::Value;

use super::model::{self, State};
use super::question::Yes;
use super::target::Target;
use crate::cli::output::{self, Format};
use crate::client::Client;

/// Delete a state; `state restore` takes it back while its versions are kept
#[derive(Args)]
pub struct Delete {
    #[command(flatten)]
    target: Target,
    /// The lock that you hold on the state
    #[arg(long, value_name = "ID")]
    lock_id: Option<String>,
    #[command(flatten)]
    yes: Yes,
}

/// Take back a delete or a move, or rebuild a state whose head vanished
#[derive(Args)]
pub struct Restore {
    #[command(flatten)]
    target: Target,
    /// The lock that you hold on the state
    #[arg(long, value_name = "ID")]
    lock_id: Option<String>,
}

impl Delete {
    pub async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let target = &self.target;
        self.yes.agree(&format!("Delete the state {}?", target.state))?;
        let query = target.query("ID", self.lock_id.as_deref());
        let answer = client.ask(Method::DELETE, &target.path(&[]), &query).await?;
        told(client, format, &answer)
    }
}

impl Restore {
    pub async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let target = &self.target;
        let query = target.query("ID", self.lock_id.as_deref());
        let answer = client.ask(Method::POST, &target.path(&["restore"]), &query).await?;
        told(client, format, &answer)
    }
}

fn told(client: &Client, format: Format, answer: &Value) -> anyhow::Result<()> {
    let state: State = client.read(answer)?;
    output::show(format, answer, || {
        let name = format!("{}/{}", state.namespace, state.name);
        let row = vec![name, model::count(state.version), model::cell(state.serial.as_ref()), state.condition()];
        output::table(&["STATE", "VERSION", "SERIAL", "CONDITION"], &[row])
    })
}
