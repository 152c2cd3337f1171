//! `stateward ti edit`

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::Context as _;
use clap::Args;

use super::apply::show_updated;
use super::{export, get, input};
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::client::hub::{Hub, Revision};
use crate::config::Environment;
use crate::document::Document;

/// Change a record in an editor
///
/// Opens VISUAL or EDITOR (else vi) on the newest version. If somebody changes the record meanwhile, or the change is refused,
/// nothing is changed, and what you wrote is kept in a file. A value that the backend does not take is shown as a comment.
#[derive(Args)]
pub struct Edit {
    /// The id or name of the record
    #[arg(value_name = "ID|NAME")]
    record: String,
    /// Who holds the lock of the record, where it is locked
    #[arg(long)]
    owner: Option<String>,
}

impl Edit {
    pub async fn run(self, hub: Hub<'_>, format: Format, environment: &Environment) -> anyhow::Result<()> {
        let record = hub.record(&self.record, Revision::Latest).await?;
        let takes = get::takes(&record, &hub.known_backends().await?);
        let version = Revision::Latest.field();
        let unreadable = |fault| {
            Failure::new(Exit::Unavailable, format!("{}: {fault}", self.record), "try again when its backend answers")
        };
        let before = export::update(&record, version, takes).map_err(unreadable)?;
        let text = export::for_editor(&record, version, takes).map_err(unreadable)?;

        let file = tempfile::Builder::new().prefix("stateward-").suffix(".yaml").tempfile();
        let mut file = file.context("failed to make a file to edit")?;
        file.write_all(text.as_bytes()).context("failed to write the file to edit")?;
        open(file.path(), environment).await?;
        let edited = std::fs::read_to_string(file.path()).context("failed to read the edited file")?;

        let changed = match self.change(&edited, &before, &record) {
            Ok(None) => {
                output::talk(format_args!("nothing was changed"));
                return Ok(());
            }
            Ok(Some(change)) => hub.update(vec![change]).await,
            Err(failure) => Err(failure),
        };
        match changed {
            Ok(updated) => show_updated(format, &updated),
            Err(failure) => Err(kept(&edited, failure).into()),
        }
    }

    /// The change that the edited text means, unless it means none.
    fn change(&self, edited: &str, before: &Document, record: &Document) -> Result<Option<Document>, Failure> {
        let wrong = |fault: String| Failure::new(Exit::Failed, fault, "correct it, and `stateward ti apply -f` it");
        let after =
            Document::read(edited).map_err(|fault| wrong(format!("the edited text is no document: {fault}")))?;
        if after == *before || after.is_null() {
            return Ok(None);
        }
        let mut changes = input::changes(after).map_err(|fault| wrong(fault.to_string()))?;
        let (Some(mut change), true) = (changes.pop(), changes.is_empty()) else {
            return Err(wrong("the edited text has more than one record".to_owned()));
        };
        if change.get("id") != before.get("id") {
            return Err(wrong("the id was changed, and records keep theirs".to_owned()));
        }
        if let Some(owner) = &self.owner {
            change.put("ownerID", owner.as_str().into());
        }
        if let Some(number) = record.at(&[Revision::Latest.field(), "resourceVersion"]) {
            change.put("expectedResourceVersion", number.clone());
        }
        Ok(Some(change))
    }
}

/// Runs the editor on a file and waits for its end. It may have arguments, as shells split them.
async fn open(file: &Path, environment: &Environment) -> anyhow::Result<()> {
    let editor = environment.non_empty("VISUAL").or_else(|| environment.non_empty("EDITOR")).unwrap_or("vi");
    let mut command = tokio::process::Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file);
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let status = command.status().await.context("failed to start the editor")?;
    if status.success() {
        return Ok(());
    }
    let message = format!("the editor {} ended with {status}", output::plain(editor));
    Err(Failure::new(Exit::Failed, message, "nothing was changed; VISUAL and EDITOR name another editor").into())
}

/// Keeps what somebody wrote, in a file that only they can read.
fn kept(edited: &str, failure: Failure) -> Failure {
    let kept = tempfile::Builder::new().prefix("stateward-edit-").suffix(".yaml").tempfile().and_then(|mut file| {
        file.write_all(edited.as_bytes())?;
        Ok(file.keep()?.1)
    });
    match kept {
        Ok(path) => {
            let hint = format!("your text is kept in {}; {}", path.display(), failure.hint);
            Failure { hint, ..failure }
        }
        Err(error) => {
            let message = format!("{} (and your text could not be kept: {error})", failure.message);
            Failure { message, ..failure }
        }
    }
}
