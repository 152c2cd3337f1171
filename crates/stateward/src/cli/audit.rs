//! `stateward audit`: reads the audit log on the machine that keeps it.

use std::fmt::Write as _;
use std::path::Path;

use access::audit::{
    self, Audit as Log, Key, Report, Tail, Witness, has_heads, missing_instance, read_head, read_instance, verify,
};
use anyhow::Context;
use clap::{Args, Subcommand};
use db::Db;

use super::failure::{Exit, Failure};
use super::key_flags::KeyFlags;
use super::output::{self, Format, FormatParser};
use crate::config::{Environment, Settings, resolve};
use crate::serve::cluster::Cluster;
use crate::serve::data_dir::DataDir;
use crate::serve::{audit_config, database_config, missing_log};

/// Check and read the audit log
#[derive(Args)]
pub struct Audit {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Verify(Verify),
    Tail(TailLines),
    Accept(Accept),
}

/// Check that no line was edited, inserted, removed or moved
///
/// Reads the log of the data directory, also while the server writes it, and compares its end with what the database
/// remembers and, with a cluster, the Lease. A half-written last line after a crash, rotation and expiry are told apart
/// from tampering. Ends with 7 if the log is not what was written.
#[derive(Args)]
struct Verify {
    /// How to show it
    #[arg(short, long, value_parser = FormatParser, default_value_t, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    keys: KeyFlags,
}

/// Show the newest lines, one JSON object each
#[derive(Args)]
struct TailLines {
    /// How many
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    lines: usize,
    /// Go on with lines as they come
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    keys: KeyFlags,
}

/// Set a log that was tampered with aside, and begin a new one
///
/// `serve` refuses to start on such a log. This keeps the old files, in a directory `evidence-<time>` beside them, and
/// begins a new segment that says so. The server must be stopped.
#[derive(Args)]
struct Accept {
    #[command(flatten)]
    keys: KeyFlags,
}

impl Audit {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        match self.command {
            Command::Verify(verify) => verify.run(environment).await,
            Command::Tail(tail) => tail.run(environment).await,
            Command::Accept(accept) => accept.run(environment).await,
        }
    }
}

impl Verify {
    async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let settings = resolve(&self.keys.0, environment).settings()?;
        let audit::Config { directory, key_file, .. } = audit_config(&settings);
        if settings.database.url.is_none() {
            existing(&settings)?;
        }
        // Before the key: a log that is gone may have taken its key along.
        let heads = heads(&settings, environment, &directory).await?;
        if !directory.is_dir() {
            return Err(nothing_in(&directory).into());
        }
        let key = Key::load(&key_file).with_context(|| format!("failed to read {}", key_file.display()))?;
        let key = key.ok_or_else(|| {
            let message = format!("there is no key at {}", key_file.display());
            Failure::new(Exit::NotFound, message, "name the key of this log with --audit-key-file")
        })?;
        let reported = directory.clone();
        let report = tokio::task::spawn_blocking(move || verify(&reported, &key, &heads)).await?;
        let report = report.with_context(|| format!("failed to read the log in {}", directory.display()))?;
        output::show(self.output, &report, || summary(&report))?;
        if report.tampered() {
            return Err(Failure::new(Exit::Unverified, "the audit log is not what was written", EVIDENCE).into());
        }
        Ok(())
    }
}

const EVIDENCE: &str = "keep a copy as evidence; `stateward audit accept` sets the log aside and begins a new one";

/// What is remembered outside the log: taken before the log is read, so that a living writer is never ahead of it. A check
/// changes nothing: a database that is not there stays away, and an older one is read as it is.
async fn heads(
    settings: &Settings,
    environment: &Environment,
    directory: &Path,
) -> anyhow::Result<Vec<(Witness, audit::Head)>> {
    let failed = || format!("failed to read {}", directory.display());
    let instance = read_instance(directory).with_context(failed)?;
    let mut missing = missing_instance(directory).with_context(failed)?;
    let mut known = None;
    let db = Db::open_as_it_is(database_config(settings)?).await;
    if let Some(db) = db.context("failed to open the database with the head of the log")? {
        let unread = "failed to read the database with the head of the log";
        if has_heads(&db).await.context(unread)? {
            if missing.is_none() {
                missing = missing_log(settings, &db, instance.as_deref()).await?;
            }
            if let Some(instance) = &instance {
                known = read_head(&db, instance).await.context(unread)?;
            }
        }
        db.close().await;
    }
    if let Some(log) = missing {
        let message =
            format!("the audit log {log}, which is remembered outside of it, is not in {}", directory.display());
        return Err(Failure::new(Exit::Unverified, message, EVIDENCE).into());
    }
    let Some(instance) = instance else { return Ok(Vec::new()) };
    let mut heads = vec![(Witness::Database, known.unwrap_or(audit::Head::NONE))];
    heads.extend(lease_head(settings, environment, &instance).await?.map(|head| (Witness::Lease, head)));
    Ok(heads)
}

/// The head in the Lease; `None` without a cluster, or when it has none yet.
async fn lease_head(
    settings: &Settings,
    environment: &Environment,
    instance: &str,
) -> anyhow::Result<Option<audit::Head>> {
    let Some(cluster) = Cluster::connect(settings, environment).await? else { return Ok(None) };
    cluster.audit_head(instance).await.context("failed to read the Lease with the head of the log")
}

fn summary(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let mark = if finding.fault.is_tampering() { "tampered" } else { "note" };
        let _ = writeln!(text, "{mark}: {finding}");
    }
    let verdict = if report.tampered() { "NOT what was written" } else { "as it was written" };
    let (files, lines) = (report.files, report.lines);
    let _ = writeln!(text, "{lines} lines in {files} files: {verdict}");
    text
}

impl TailLines {
    async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let settings = resolve(&self.keys.0, environment).settings()?;
        let directory = existing(&settings)?.directory;
        let failed = || format!("failed to read the log in {}", directory.display());
        let mut tail = Tail::last(&directory, self.lines).with_context(failed)?;
        let mut lines = tail.read().with_context(failed)?;
        loop {
            if !lines.is_empty() {
                output::print(&lines.join("\n"))?;
            }
            if !self.follow {
                return Ok(());
            }
            lines = tail.follow().await.with_context(failed)?;
        }
    }
}

impl Accept {
    async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let settings = resolve(&self.keys.0, environment).settings()?;
        let _data = DataDir::open(&settings.data_dir)?;
        let db = Db::open(database_config(&settings)?).await.context("failed to open the database")?;
        db.migrate(access::MIGRATIONS).await.context("failed to migrate the database")?;
        let config = audit_config(&settings);
        let name = read_instance(&config.directory).and_then(|inside| match inside {
            None => missing_instance(&config.directory),
            inside => Ok(inside),
        });
        let name = name.with_context(|| format!("failed to read {}", config.directory.display()))?;
        let remembered = match &name {
            Some(name) => lease_head(&settings, environment, name).await?,
            None => None,
        };
        let log = Log::open_after_tampering(config, db.clone(), remembered).await;
        let log = log.context("failed to begin a new log")?;
        if settings.database.url.is_none() {
            audit::forget_other_logs(&db, log.instance()).await.context("failed to forget the old log")?;
        }
        log.close().await;
        db.close().await;
        output::talk(format_args!("a new segment has begun; `stateward audit verify` shows it"));
        Ok(())
    }
}

fn existing(settings: &Settings) -> Result<audit::Config, Failure> {
    let config = audit_config(settings);
    // A server that ever ran has one of them; who took the log away has left another.
    let database = settings.data_dir.join("stateward.db").exists();
    if config.directory.is_dir() || database || matches!(missing_instance(&config.directory), Ok(Some(_)) | Err(_)) {
        return Ok(config);
    }
    Err(nothing_in(&config.directory))
}

fn nothing_in(directory: &Path) -> Failure {
    let message = format!("there is no audit log in {}", directory.display());
    Failure::new(Exit::NotFound, message, "name the data directory of the server with --data-dir")
}
