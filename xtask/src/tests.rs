//! All tests, three suites at a time: most of them wait for disks, servers and deadlines rather than for a processor.
//!
//! What `cargo test` does, otherwise: each suite runs in the directory of its package, prints what libtest prints, and a
//! failure of one does not stop the others. What a suite prints is shown when it ends, so that they do not mix.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// One more than there are cores on the smallest machine that this is built on, where two left half of it idle.
const AT_ONCE: usize = 3;

/// Builds and runs every suite of the workspace; `arguments` go to cargo.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let mut suites = build(root, arguments)?;
    ensure!(!suites.is_empty(), "there is no test in {}", root.display());
    // The longest first, so that none of them is left alone at the end: a large program has many tests.
    suites.sort_by_key(|suite| std::cmp::Reverse(std::fs::metadata(&suite.executable).map_or(0, |file| file.len())));
    let (waiting, failed) = (Mutex::new(VecDeque::from(suites)), Mutex::new(Vec::new()));
    // A function, so that the lock is not held while the suite runs.
    let next = || locked(&waiting).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(suite) = next() {
                    if let Err(fault) = suite.run() {
                        locked(&failed).push(format!("{}: {fault:#}", suite.name));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let examples = cargo(root).args(["test", "--doc"]).args(arguments).status().context("failed to run cargo")?;
    if !examples.success() {
        failed.push("the examples in documentation".to_owned());
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed:\n  {}", failed.join("\n  ")) }
}

struct Suite {
    /// Package and target.
    name: String,
    executable: PathBuf,
    package: PathBuf,
}

impl Suite {
    fn run(&self) -> Result<()> {
        let began = Instant::now();
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("failed to run {}", self.executable.display()))?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n     Running {} ({} s)", self.name, began.elapsed().as_secs())?;
        out.write_all(&output.stdout)?;
        out.write_all(&output.stderr)?;
        out.flush()?;
        ensure!(output.status.success(), "{}", output.status);
        Ok(())
    }
}

/// What cargo tells about what it built, as far as it matters here.
#[derive(Deserialize)]
struct Built {
    executable: Option<PathBuf>,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn build(root: &Path, arguments: &[String]) -> Result<Vec<Suite>> {
    let mut command = cargo(root);
    command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]).args(arguments);
    let mut building = command.stdout(Stdio::piped()).spawn().context("failed to run cargo")?;
    let told = BufReader::new(building.stdout.take().context("cargo has no output")?);
    let mut suites = Vec::new();
    for line in told.lines() {
        let Ok(built) = serde_json::from_str::<Built>(&line?) else { continue };
        let (Some(executable), Some(target), Some(Profile { test: true })) =
            (built.executable, built.target, built.profile)
        else {
            continue;
        };
        let package = built.manifest_path.parent().context("a manifest is in a directory")?.to_owned();
        let of = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kind = target.kind.join(", ");
        suites.push(Suite { name: format!("{of}: {} ({kind})", target.name), executable, package });
    }
    ensure!(building.wait()?.success(), "the tests do not build");
    Ok(suites)
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
