//! `stateward workflow check`

use clap::Args;

use super::Given;
use crate::cli::output::{self, Format};
use crate::client::hub::Hub;
use crate::workflow::{Plan, Run};

/// Tell whether a workflow can be run, and where its records would be kept
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    given: Given,
}

impl Check {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let plan = self.given.plan(hub, &mut Run::default()).await?;
        output::show_exactly(format, &plan.artifacts(), || table(&plan))
    }
}

pub fn table(plan: &Plan) -> String {
    let outputs = plan.outputs.iter().map(|output| {
        let backend = match (&output.backend, &output.alias) {
            (Some(id), Some(alias)) => format!("{id} ({alias})"),
            (Some(id), None) => id.clone(),
            (None, _) => "(default)".to_owned(),
        };
        vec![
            "create".to_owned(),
            output.name.clone(),
            output.step.clone(),
            output.from.clone(),
            output.type_ref.to_string(),
            backend,
        ]
    });
    let updates = plan.updates.iter().map(|update| {
        let (name, id) = (update.name.clone(), update.id.clone());
        vec!["update".to_owned(), name, update.step.clone(), update.from.clone(), id, "-".to_owned()]
    });
    let rows: Vec<Vec<String>> = outputs.chain(updates).collect();
    output::table(&["ACT", "NAME", "STEP", "ARTIFACT", "TYPE OR ID", "BACKEND"], &rows)
}
