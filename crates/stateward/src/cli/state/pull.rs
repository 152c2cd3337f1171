//! `stateward state pull`

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use futures::TryStreamExt as _;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::target::Target;
use crate::cli::failure::{Exit, Failure, ReaderGone};
use crate::client::Client;
use crate::client::transfer::Pieces;

/// Write the exact bytes of a state to stdout or a file
#[derive(Args)]
pub struct Pull {
    #[command(flatten)]
    target: Target,
    /// The file to write instead of stdout; it appears when it is whole, with mode 0600
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// An older version, as `state versions` numbers them
    #[arg(long = "version", value_name = "N")]
    number: Option<u64>,
}

impl Pull {
    pub async fn run(self, client: &Client) -> anyhow::Result<()> {
        let (target, number) = (&self.target, self.number.map(|number| number.to_string()));
        let path = match &number {
            Some(number) => target.path(&["versions", number, "raw"]),
            None => target.path(&["raw"]),
        };
        let pieces = client.download(&path, &[target.store_query()]).await?.pieces();
        match &self.file {
            Some(file) => write_file(file, pieces).await,
            None => to_stdout(pieces).await,
        }
    }
}

async fn to_stdout(mut pieces: Pieces) -> anyhow::Result<()> {
    // Blocks, and may: this command does nothing else meanwhile.
    let mut stdout = std::io::stdout();
    let gone = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => anyhow::Error::new(ReaderGone),
        _ => error.into(),
    };
    while let Some(piece) = pieces.try_next().await? {
        stdout.write_all(&piece).map_err(gone)?;
    }
    stdout.flush().map_err(gone)
}

/// Writes a file so that others see the old one or the whole new one.
pub async fn write_file(file: &Path, pieces: Pieces) -> anyhow::Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(".stateward-").tempfile_in(directory);
    let wrong = |what: String, error: &std::io::Error| {
        Failure::new(
            Exit::Failed,
            format!("failed to write {what}: {error}"),
            "check the directory and its permissions",
        )
    };
    let temporary = temporary.map_err(|error| wrong(format!("in {}", directory.display()), &error))?;
    let mut writer = tokio::fs::File::from_std(temporary.as_file().try_clone()?);
    copy(pieces, &mut writer).await?;
    writer.sync_all().await?;
    temporary.persist(file).map_err(|error| wrong(file.display().to_string(), &error.error))?;
    Ok(())
}

async fn copy(mut pieces: Pieces, writer: &mut (impl AsyncWrite + Unpin)) -> anyhow::Result<()> {
    while let Some(piece) = pieces.try_next().await? {
        writer.write_all(&piece).await?;
    }
    Ok(writer.flush().await?)
}
