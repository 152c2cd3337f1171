//! Where log lines go: stderr, for people on a terminal, as JSON elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::settings::{Log, LogFormat};
use crate::config::{Environment, Problem};

/// Starts logging for this process.
pub fn start(log: &Log, environment: &Environment) -> anyhow::Result<()> {
    start_to(io::stderr, log, environment)
}

/// Says what is odd in the configuration, which nobody sees who does not ask `config check`.
pub fn warn_of(oddities: &[Problem]) {
    for oddity in oddities {
        tracing::warn!("{oddity}");
    }
}

/// Starts logging where lines may wait for one another: at most this long, and only those that warn of nothing. What is
/// left is written when the answer is dropped. No time writes every line at once.
pub fn start_buffered(log: &Log, environment: &Environment, every: Duration) -> anyhow::Result<Option<Flushed>> {
    if every.is_zero() {
        return start(log, environment).map(|()| None);
    }
    let lines = Lines(Arc::default());
    start_to(lines.clone(), log, environment)?;
    let flushed = lines.clone();
    let flush = move || {
        loop {
            std::thread::sleep(every);
            flushed.flush();
        }
    };
    std::thread::Builder::new().name("log".to_owned()).spawn(flush).context("failed to start a thread for the log")?;
    Ok(Some(Flushed(lines)))
}

fn start_to<W>(writer: W, log: &Log, environment: &Environment) -> anyhow::Result<()>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let terminal = io::stderr().is_terminal();
    let filter = EnvFilter::builder().parse(&log.level).context("failed to read log.level")?;
    // A line that cannot be written is lost. To complain about it would write to the same place, and panic there: a full
    // disk under the log must not stop the server.
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).log_internal_errors(false);
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

/// Lines that wait to be written.
#[derive(Clone, Debug)]
struct Lines(Arc<Mutex<Vec<u8>>>);

/// More than this never waits.
const WAITING_BYTES: usize = 64 << 10;

impl Lines {
    fn flush(&self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = io::stderr().write_all(&waiting);
        waiting.clear();
    }
}

/// Writes the lines that still wait when it is dropped.
#[derive(Debug)]
pub struct Flushed(Lines);

impl Drop for Flushed {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// One line on its way.
struct Line<'a> {
    lines: &'a Lines,
    urgent: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waiting = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend_from_slice(bytes);
        self.urgent |= waiting.len() > WAITING_BYTES;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.urgent {
            self.lines.flush();
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, urgent: false }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        Line { lines: self, urgent: *metadata.level() <= Level::WARN }
    }
}
