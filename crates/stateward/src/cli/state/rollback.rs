//! `stateward state rollback`

use clap::Args;
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::question::Yes;
use super::target::Target;
use crate::cli::output::{self, Format};
use crate::client::Client;

/// Make an older version the current one
///
/// The old bytes become a new version; only the digits of the serial change, so that the next plan takes it. A state that
/// OpenTofu encrypted comes back byte for byte.
#[derive(Args)]
pub struct Rollback {
    #[command(flatten)]
    target: Target,
    /// The version to go back to, as `state versions` numbers them
    #[arg(value_name = "VERSION")]
    version: u64,
    /// The lock that you hold on the state
    #[arg(long, value_name = "ID")]
    lock_id: Option<String>,
    #[command(flatten)]
    yes: Yes,
}

#[derive(Deserialize)]
struct Done {
    version: u64,
    serial: Option<String>,
}

impl Rollback {
    pub async fn run(self, client: &Client, format: Format) -> anyhow::Result<()> {
        let (target, version) = (&self.target, self.version);
        self.yes.agree(&format!("Make version {version} of {} the current one?", target.state))?;
        let mut body = json!({ "version": version });
        if let Some(id) = &self.lock_id {
            body["lock_id"] = json!(id);
        }
        let path = target.path(&["rollback"]);
        let answer = client.send_with(Method::POST, &path, &[target.store_query()], &body).await?;
        let done: Done = client.read(&answer)?;
        output::show(format, &answer, || {
            let row = vec![target.state.to_string(), done.version.to_string(), done.serial.unwrap_or_default()];
            output::table(&["STATE", "VERSION", "SERIAL"], &[row])
        })
    }
}
