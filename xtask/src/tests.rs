//! All tests, three suites at a time: most of them wait for disks, servers and deadlines rather than for a processor.
//!
//! What `cargo test` does, otherwise: each suite runs in the directory of its package, prints what libtest prints, and a
//! failure of one does not stop the others. What a suite prints goes to a file beside its executable and is shown when it
//! ends, so that they do not mix; one that does not end is ended, and what it printed is shown all the same.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// One more than there are cores on the smallest machine that this is built on, where two left half of it idle.
const AT_ONCE: usize = 3;

/// Several times what the longest suite takes.
const LIMIT: Duration = Duration::from_mins(45);

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
        writeln!(std::io::stdout(), "     Running {}", self.name)?;
        let began = Instant::now();
        let ended = self.end_within(LIMIT);
        let printed = std::fs::read(self.log()).unwrap_or_default();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n         Ran {} ({} s)", self.name, began.elapsed().as_secs())?;
        out.write_all(&printed)?;
        out.flush()?;
        ended
    }

    fn log(&self) -> PathBuf {
        self.executable.with_extension("log")
    }

    /// Runs to the end, which is forced at the limit.
    fn end_within(&self, limit: Duration) -> Result<()> {
        let began = Instant::now();
        let log = File::create(self.log()).with_context(|| format!("failed to make {}", self.log().display()))?;
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let mut running = command.spawn().with_context(|| format!("failed to run {}", self.executable.display()))?;
        let guard = Guard::of(&running)?;
        let status = loop {
            if let Some(status) = running.try_wait()? {
                break status;
            }
            if began.elapsed() > limit {
                drop(guard);
                running.wait()?;
                bail!("it had not ended after {} s and was killed", limit.as_secs());
            }
            sleep(Duration::from_millis(50));
        };
        guard.dismiss()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

/// Kills a process and its group when it is dropped without being dismissed, also when this process ends: a group of its
/// own does not hear of an interrupt from the terminal.
struct Guard(Child);

impl Guard {
    fn of(process: &Child) -> Result<Guard> {
        let script = "read -r word; [ \"$word\" = dismissed ] || kill -s KILL -- \"-$0\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, &process.id().to_string()]).stdin(Stdio::piped()).process_group(0);
        Ok(Guard(command.spawn().context("failed to run sh")?))
    }

    fn dismiss(mut self) -> Result<()> {
        if let Some(pipe) = &mut self.0.stdin {
            writeln!(pipe, "dismissed")?;
        }
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The end of the pipe is the word to kill, if there was none before.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
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

#[cfg(test)]
mod ends {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn suite(name: &str, script: &str) -> Suite {
        let package = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&package).unwrap();
        let executable = package.join("suite");
        std::fs::write(&executable, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&executable, std::fs::Permissions::from_mode(0o755)).unwrap();
        Suite { name: name.to_owned(), executable, package }
    }

    #[test]
    fn a_suite_that_does_not_end_is_killed_with_all_that_it_started() {
        let hung = suite("hung", "echo begun; sleep 3600 & echo $! > child; wait");
        let error = hung.end_within(Duration::from_secs(5)).unwrap_err();
        assert!(error.to_string().contains("had not ended after 5 s"), "{error}");
        let child = std::fs::read_to_string(hung.package.join("child")).unwrap();
        // A zombie may be left for a moment, until whoever inherited it has looked.
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        let is_gone = || state().is_empty() || state().contains(") Z ");
        for _ in 0..600 {
            if is_gone() {
                break;
            }
            sleep(Duration::from_millis(100));
        }
        assert!(is_gone(), "{}", state());
        assert_eq!(std::fs::read_to_string(hung.log()).unwrap(), "begun\n");
        std::fs::remove_dir_all(&hung.package).unwrap();
    }

    #[test]
    fn a_suite_that_ends_tells_how() {
        let minute = Duration::from_mins(1);
        let good = suite("good", "echo fine");
        good.end_within(minute).unwrap();
        assert_eq!(std::fs::read_to_string(good.log()).unwrap(), "fine\n");
        let bad = suite("bad", "echo why >&2; exit 3");
        assert!(bad.end_within(minute).unwrap_err().to_string().contains('3'));
        assert_eq!(std::fs::read_to_string(bad.log()).unwrap(), "why\n");
        for suite in [good, bad] {
            std::fs::remove_dir_all(&suite.package).unwrap();
        }
    }
}
