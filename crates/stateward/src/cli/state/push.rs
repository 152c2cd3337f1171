//! `stateward state push`

use std::io::Read as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use futures::StreamExt as _;
use http::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;

use super::held::{self, with_lock};
use super::model::{self, State};
use super::spooled::Spooled;
use super::target::Target;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::client::Client;
use crate::client::transfer::Pieces;
use crate::config::Environment;

/// Write a file as the new version of a state
///
/// The bytes are kept exactly, their serial too. As with `terraform state push`, an older serial, another lineage, and
/// other content under the same serial are refused unless forced. The state is locked while it is written.
#[derive(Args)]
pub struct Push {
    #[command(flatten)]
    target: Target,
    /// The file with the state, or - for stdin
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// A lock that you hold already; the command then takes and releases none
    #[arg(long, value_name = "ID")]
    lock_id: Option<String>,
    /// Write it whatever its serial and lineage are
    #[arg(long)]
    force: bool,
}

#[derive(Deserialize)]
struct Done {
    version: Option<u64>,
}

impl Push {
    pub async fn run(self, client: &Client, format: Format, environment: &Environment) -> anyhow::Result<()> {
        let target = &self.target;
        let name = self.file.display().to_string();
        let spooled = Spooled::read(&name, open(&self.file).await?, environment).await?;
        let written = if let Some(id) = &self.lock_id {
            self.write(client, &spooled, id).await?
        } else {
            let id = uuid::Uuid::new_v4().to_string();
            let info = held::lock_info(&id, "state-push", "stateward state push", environment);
            with_lock(client, target, &info, async |id| self.write(client, &spooled, id).await).await?
        };
        let facts = &spooled.facts;
        let data = json!({
            "namespace": target.state.namespace(), "name": target.state.name(), "version": written.version,
            "serial": facts.serial, "lineage": facts.lineage, "size": facts.size, "sha256": spooled.sha256(),
        });
        output::show(format, &data, || {
            let version = written.version.map_or_else(|| "unchanged".to_owned(), |version| version.to_string());
            let serial = model::cell(facts.serial.as_ref());
            let row = vec![target.state.to_string(), version, serial, model::size(Some(facts.size))];
            output::table(&["STATE", "VERSION", "SERIAL", "SIZE"], &[row])
        })
    }

    async fn write(&self, client: &Client, spooled: &Spooled, id: &str) -> anyhow::Result<Done> {
        let target = &self.target;
        if !self.force {
            check(&target.state.to_string(), spooled, existing(client, target).await?.as_ref())?;
        }
        let upload = spooled.upload(spooled.pieces());
        let answer = client.upload(Method::PUT, &target.path(&["raw"]), &target.query("ID", Some(id)), upload).await?;
        Ok(client.read(&answer)?)
    }
}

/// What a place has already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    pub serial: Option<String>,
    pub lineage: Option<String>,
    pub sha256: Option<String>,
}

impl Existing {
    /// What a copy of it says.
    pub fn of(state: &Spooled) -> Existing {
        let facts = &state.facts;
        let (serial, lineage) = (facts.serial.clone(), facts.lineage.clone());
        Existing { serial, lineage, sha256: Some(state.sha256()) }
    }
}

/// What the state holds now, if anything.
pub async fn existing(client: &Client, target: &Target) -> Result<Option<Existing>, Failure> {
    let answer = match client.ask(Method::GET, &target.path(&[]), &[target.store_query()]).await {
        Ok(answer) => answer,
        Err(failure) if failure.exit == Exit::NotFound => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let state: State = client.read(&answer)?;
    let there = state.version.is_some() && state.deleted.is_none();
    Ok(there.then_some(Existing { serial: state.serial, lineage: state.lineage, sha256: state.sha256 }))
}

/// The rules of `terraform state push`: newer, or the same, and of the same lineage.
pub fn check(place: &str, new: &Spooled, existing: Option<&Existing>) -> Result<(), Failure> {
    let Some(existing) = existing else { return Ok(()) };
    if existing.sha256.as_deref() == Some(&new.sha256()) {
        return Ok(());
    }
    let (serial, lineage) = (new.facts.serial.as_deref(), new.facts.lineage.as_deref());
    let Some(fault) = fault(serial, lineage, existing) else { return Ok(()) };
    let message = format!("{place} is not overwritten: {fault}");
    Err(Failure::new(Exit::Conflict, message, "check that it is the right state; --force writes it all the same"))
}

fn fault(serial: Option<&str>, lineage: Option<&str>, existing: &Existing) -> Option<String> {
    let filled = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    if let (Some(new), Some(old)) = (filled(lineage), filled(existing.lineage.as_deref()))
        && new != old
    {
        return Some(format!("its lineage is {}, not {}", output::plain(&old), output::plain(&new)));
    }
    let number = |text: Option<&str>| text.and_then(|digits| digits.parse::<u128>().ok()).unwrap_or(0);
    let (new, old) = (number(serial), number(existing.serial.as_deref()));
    if new < old {
        return Some(format!("its serial {old} is newer than {new}"));
    }
    (new == old).then(|| format!("it has other content under the same serial {old}"))
}

/// The bytes of a file, or of stdin.
pub async fn open(file: &Path) -> anyhow::Result<Pieces> {
    if file == Path::new("-") {
        return Ok(stdin());
    }
    let opened = tokio::fs::File::open(file).await.map_err(|error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
        Failure::new(exit, format!("failed to open {}: {error}", file.display()), "check the path")
    })?;
    Ok(pieces(opened))
}

/// Stdin, read by a thread of its own: the runtime would wait for its end, which may never come.
fn stdin() -> Pieces {
    let (sender, receiver) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut piece = vec![0; 64 << 10];
            let read = match stdin.read(&mut piece) {
                Ok(0) => return,
                Ok(length) => {
                    piece.truncate(length);
                    Ok(Bytes::from(piece))
                }
                Err(error) => Err(anyhow::Error::from(error)),
            };
            let failed = read.is_err();
            if sender.blocking_send(read).is_err() || failed {
                return;
            }
        }
    });
    futures::stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) }).boxed()
}

/// Cuts a stream of bytes into pieces.
pub fn pieces(reader: impl AsyncRead + Send + Unpin + 'static) -> Pieces {
    futures::stream::try_unfold(reader, |mut reader| async move {
        let mut piece = Vec::with_capacity(64 << 10);
        let read = reader.read_buf(&mut piece).await?;
        Ok((read > 0).then(|| (Bytes::from(piece), reader)))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_unrelated_and_contradicting_states_are_refused() {
        let existing = Existing { serial: Some("10".to_owned()), lineage: Some("l".to_owned()), sha256: None };
        let said = |serial, lineage| fault(Some(serial), Some(lineage), &existing);
        assert_eq!(said("11", "l"), None);
        assert_eq!(said("99999999999999999999999", "l"), None);
        assert!(said("9", "l").unwrap().contains("newer than 9"));
        assert!(said("10", "l").unwrap().contains("other content"));
        assert!(said("11", "m").unwrap().contains("lineage"));
        assert_eq!(said("11", ""), None, "a state without a lineage is of any");
        let empty = Existing { serial: None, lineage: None, sha256: None };
        assert_eq!(fault(Some("1"), Some("l"), &empty), None);
    }
}
