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
    let new = admin("first".to_owned(), "stateward serve")?;
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
    let act = Entry::act(Who::new("stateward serve", Source::Server), what(), Outcome::Done).name(&record.id);
    let _on_record = audit.commit(act).await.context("failed to record the first token in the audit log")?;
    match shown {
        Some(text) => say(&format!("First token (shown this once, for the user 'admin'): {}", text.reveal())),
        None => say(&format!("First token (for the user 'admin') is in {}", file.display())),
    }
    Ok(())
}

/// Makes an admin token for somebody who has the data directory: on record before it is made.
pub(super) async fn rescue(tokens: &TokenStore, audit: &Audit, name: String) -> Result<TokenText> {
    let by = "stateward rescue";
    let (record, text) = access::prepare(admin(name, by)?)?;
    let who = || Who::new(by, Source::Server);
    let intent = audit.commit(Entry::intent(who(), what()).name(&record.id)).await;
    let intent = intent.context("failed to write the audit log, so nothing was made")?;
    let made = tokens.create(&record, &text).await;
    let outcome = if made.is_ok() { Outcome::Done } else { Outcome::Failed("token") };
    let act = Entry::act(who(), what(), outcome).name(&record.id).after(&intent);
    let _on_record = audit.commit(act).await.context("failed to record the token in the audit log")?;
    made.context("failed to make the token")?;
    Ok(text)
}

fn admin(name: String, created_by: &str) -> Result<NewToken> {
    Ok(NewToken {
        name,
        user: Some("admin".to_owned()),
        groups: Vec::new(),
        grants: vec!["admin@*".parse()?],
        expires_at: None,
        created_by: created_by.to_owned(),
    })
}

fn what() -> What {
    What::resource("create", "access.stateward.dev", "tokens")
}
