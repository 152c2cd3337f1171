//! `stateward workflow render`

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::{Given, check};
use crate::cli::output::{self, Format};
use crate::client::hub::Hub;
use crate::document::Document;
use crate::workflow::Run;

/// Write what the steps upload, update and download are given
///
/// With --out the files upload/payload, update/payload and download/config are written, which `stateward step` reads, and artifacts.yaml,
/// which says which artifact of which step is the file of which record. Without it everything goes to stdout.
#[derive(Args)]
pub struct Render {
    #[command(flatten)]
    given: Given,
    /// The directory to write into
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Who creates and changes the records: one text per run, so that a repeated upload is known
    #[arg(long, value_name = "TEXT")]
    created_by: Option<String>,
    /// Who holds the locks of the records that are changed, if not whoever creates
    #[arg(long)]
    owner: Option<String>,
    /// Where the workflow finds downloaded records
    #[arg(long, value_name = "DIR", default_value = "/")]
    download_dir: String,
}

impl Render {
    pub async fn run(self, hub: Hub<'_>, format: Format) -> anyhow::Result<()> {
        let (created_by, owner, download_dir) = (self.created_by, self.owner, self.download_dir);
        let mut run = Run { created_by, owner, download_dir, ..Run::default() };
        let plan = self.given.plan(hub, &mut run).await?;
        let (upload, update, download) = (plan.upload(&run), plan.update(&run), plan.download(&run));
        let Some(directory) = self.out else {
            let whole = Document::map([
                ("upload", upload),
                ("update", update),
                ("download", download.as_str().into()),
                ("artifacts", plan.artifacts()),
            ]);
            let format = if format == Format::Table { Format::Yaml } else { format };
            return output::show_exactly(format, &whole, String::new);
        };
        for (name, text) in [
            ("upload/payload", upload.to_yaml()),
            ("update/payload", update.to_yaml()),
            ("download/config", download),
            ("artifacts.yaml", plan.artifacts().to_yaml()),
        ] {
            let path = directory.join(name);
            let parent = path.parent().unwrap_or(&directory);
            std::fs::create_dir_all(parent).with_context(|| format!("failed to make {}", parent.display()))?;
            std::fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
        }
        output::show_exactly(format, &plan.artifacts(), || check::table(&plan))
    }
}
