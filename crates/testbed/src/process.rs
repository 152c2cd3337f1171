//! Child processes that never outlive the test run.
//!
//! Values in statics are not dropped and a killed test run drops nothing, so a small shell, the reaper, holds the
//! list of children and directories and cleans up when the pipe from this process closes, whatever closed it.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// A running program with its log, in a process group of its own; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with stdout and stderr appended to `log`.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> Result<Process> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("failed to open the log {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("failed to start {name}"))?;
        reaper(&format!("pid {}", child.id()));
        Ok(Process { name: name.to_owned(), child, log: log.to_owned() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything the program has written so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal to the whole group.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, signal);
        }
    }

    /// `kill -9`, and waits for the end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.reap();
    }

    /// SIGTERM, then SIGKILL if it has not ended in time. Tells how it ended.
    pub fn stop(&mut self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM);
        match self.wait(within) {
            Ok(status) => Ok(status),
            Err(error) => {
                self.kill();
                Err(error)
            }
        }
    }

    /// Waits for the program to end by itself.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.ended() {
                reaper(&format!("gone {}", self.child.id()));
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("{} has not ended within {within:?}; its log ends:\n{}", self.name, self.log_tail());
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// Polls `ready` until it answers true; fails at once, with the log, when the program ends before that.
    pub fn wait_until(&mut self, within: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let deadline = Instant::now() + within;
        while !ready() {
            if let Some(status) = self.ended() {
                bail!("{} ended ({status}) before it was ready; its log ends:\n{}", self.name, self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("{} was not ready within {within:?}; its log ends:\n{}", self.name, self.log_tail());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The last lines of the log, for error messages.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }

    fn reap(&mut self) {
        let _ = self.child.wait();
        reaper(&format!("gone {}", self.child.id()));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.kill();
        } else {
            reaper(&format!("gone {}", self.child.id()));
        }
    }
}

/// Whether a process died at an armed fail point: aborted, with the line that `failpoint` leaves.
pub fn crashed_at(status: ExitStatus, log: &str, step: &str) -> bool {
    status.signal() == Some(Signal::ABORT.as_raw()) && log.contains(&format!("failpoint: crashed at {step}\n"))
}

/// A fresh directory that is removed when the test run ends, however it ends.
pub fn scratch(name: &str) -> Result<PathBuf> {
    let directory = tempfile::Builder::new().prefix(&format!("stateward-{name}-")).tempdir()?.keep();
    reaper(&format!("dir {}", directory.display()));
    Ok(directory)
}

/// Takes a mount away when the test run ends, however it ends.
pub(crate) fn unmount_at_the_end(mounted: &Path) {
    reaper(&format!("mount {}", mounted.display()));
}

/// A TCP port of 127.0.0.1 that is free now.
pub fn free_port() -> Result<u16> {
    free_port_with(0)
}

/// A TCP port of 127.0.0.1 that is free now, and so is the one `above` it.
pub(crate) fn free_port_with(above: u16) -> Result<u16> {
    let is_free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Below the range that the kernel takes for outgoing connections, so that the port is still free when the program
    // behind it starts, and when it is started again.
    for _attempt in 0..1000 {
        let port = fastrand::u16(10_000..32_000 - above);
        if is_free(port) && is_free(port + above) {
            return Ok(port);
        }
    }
    bail!("no free port of 127.0.0.1 in a thousand attempts")
}

fn reaper(line: &str) {
    static REAPER: LazyLock<Mutex<Option<Child>>> = LazyLock::new(|| {
        let child = Command::new("sh")
            .args(["-c", REAPER_SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Mutex::new(child.ok())
    });
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pipe) = reaper.as_mut().and_then(|child| child.stdin.as_mut()) {
        let _ = writeln!(pipe, "{line}");
    }
}

/// Newest children first: a controller-manager goes before the API server that it talks to.
const REAPER_SCRIPT: &str = r#"
pids=; dirs=; mounts=
while read -r word rest; do
  case $word in
    pid) pids="$rest $pids" ;;
    gone) left=; for p in $pids; do [ "$p" = "$rest" ] || left="$left $p"; done; pids=$left ;;
    dir) dirs="$dirs $rest" ;;
    mount) mounts="$mounts $rest" ;;
  esac
done
for p in $pids; do kill -s KILL -- -"$p" 2>/dev/null; done
for m in $mounts; do umount -l "$m" 2>/dev/null; done
# The killed may still be writing.
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  [ -z "$dirs" ] || rm -rf $dirs && break
  sleep 0.2
done
"#;
