//! The first token of a standalone server: how its owner gets in.

use std::io::IsTerminal as _;

use access::audit::{Audit, Entry, Outcome, Source, What, Who};
use access::{NewToken, TokenStore, TokenText};
use anyhow::{Context, Result};

use super::data_dir::{DataDir, write_private};
use super::say;

pub(crate) const FILE: &str = "first-token";

/// Makes the first token unless one was ever made. A terminal is shown it once; else it goes to a file that only the
/// owner may read, and the path is told.
pub(super) async fn ensure(tokens: &TokenStore, data: &DataDir, audit: &Audit) -> Result<()> {
    let new = NewToken {
        name: "first".to_owned(),
        user: Some("admin".to_owned()),
        groups: Vec::new(),
        grants: vec!["admin@*".parse()?],
        expires_at: None,
        created_by: "stateward serve".to_owned(),
    };
    let terminal = std::io::stdout().is_terminal();
    let file = data.path().join(FILE);
    let mut shown = None;
    let mut written = false;
    let keep = |text: &TokenText| -> Result<()> {
        if terminal {
            shown = Some(text.clone());
            return Ok(());
        }
        written = true;
        write_private(&file, format!("{}\n", text.reveal()).as_bytes())
    };
    let made = tokens.create_first(new, keep).await.context("failed to make the first token")?;
    let Some(record) = made else {
        // Another process on the same database was faster: what was written here is nobody's token.
        if written {
            std::fs::remove_file(&file).with_context(|| format!("failed to remove {}", file.display()))?;
        }
        return Ok(());
    };
    let what = What::resource("create", "access.stateward.dev", "tokens");
    let act = Entry::act(Who::new("stateward serve", Source::Server), what, Outcome::Done).name(&record.name);
    let _on_record = audit.commit(act).await.context("failed to record the first token in the audit log")?;
    match shown {
        Some(text) => say(&format!("First token (shown this once, for the user 'admin'): {}", text.reveal())),
        None => say(&format!("First token (for the user 'admin') is in {}", file.display())),
    }
    Ok(())
}
