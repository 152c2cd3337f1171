//! Where log lines go: stderr, for people on a terminal, as JSON elsewhere.

use std::io::IsTerminal;

use anyhow::{Context, anyhow};
use tracing_subscriber::EnvFilter;

use crate::config::Environment;
use crate::config::settings::{Log, LogFormat};

/// Starts logging for this process.
pub fn start(log: &Log, environment: &Environment) -> anyhow::Result<()> {
    let terminal = std::io::stderr().is_terminal();
    let filter = EnvFilter::builder().parse(&log.level).context("failed to read log.level")?;
    // A line that cannot be written is lost. To complain about it would write to the same place, and panic there: a full
    // disk under the log must not stop the server.
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    let started = match log.format {
        LogFormat::Json => builder.json().try_init(),
        LogFormat::Auto if !terminal => builder.json().try_init(),
        LogFormat::Auto | LogFormat::Human => {
            // https://no-color.org: any value that is not empty.
            let colour = terminal && environment.non_empty("NO_COLOR").is_none();
            builder.with_ansi(colour).try_init()
        }
    };
    started.map_err(|error| anyhow!("failed to start logging: {error}"))
}
