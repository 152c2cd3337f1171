//! One program of the control plane, which can be stopped and started again with the same arguments.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::Process;

/// Generous: a loaded machine with two cores starts several control planes at once.
const START_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct Part {
    name: &'static str,
    arguments: Vec<String>,
    log: PathBuf,
    process: Mutex<Option<Process>>,
}

impl Part {
    pub(super) fn new(name: &'static str, arguments: Vec<String>, log: PathBuf) -> Part {
        Part { name, arguments, log, process: Mutex::default() }
    }

    /// Starts it if it does not run, and waits until `ready` says yes.
    pub(super) fn start(&self, ready: impl FnMut() -> bool) -> Result<()> {
        let mut running = self.process();
        if running.as_mut().is_none_or(|process| process.ended().is_some()) {
            let program = crate::peer(self.name)?;
            // The dead one is dropped first: it tells the reaper, which must not hold a pid that may be used again.
            *running = None;
            *running = Some(Process::spawn(self.name, Command::new(program).args(&self.arguments), &self.log)?);
        }
        match running.as_mut() {
            Some(process) => process.wait_until(START_LIMIT, ready),
            None => bail!("{} is not running", self.name),
        }
    }

    /// Ends it at once, as a crash would; etcd and the API server keep nothing that is lost by that.
    pub(super) fn stop(&self) {
        *self.process() = None;
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::pid)
    }

    pub(super) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
