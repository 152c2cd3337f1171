//! One program of the control plane, which can be stopped and started again with the same arguments.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;

use crate::Process;

/// Generous: a loaded machine with two cores starts several control planes at once.
const START_LIMIT: Duration = Duration::from_mins(2);

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
        let mut process = self.process();
        let running = process.take().and_then(|mut running| running.ended().is_none().then_some(running));
        let running = match running {
            Some(running) => running,
            None => self.spawn()?,
        };
        process.insert(running).wait_until(START_LIMIT, ready)
    }

    /// From now on starts it again whenever it ends by itself, as a kubelet would; a stopped one stays stopped.
    pub(super) fn supervise(part: &Arc<Part>) {
        let part = Arc::downgrade(part);
        std::thread::spawn(move || {
            while let Some(part) = part.upgrade() {
                let mut process = part.process();
                if process.as_mut().is_some_and(|process| process.ended().is_some()) {
                    *process = part.spawn().ok();
                }
                drop(process);
                drop(part);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
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

    fn spawn(&self) -> Result<Process> {
        Process::spawn(self.name, Command::new(crate::peer(self.name)?).args(&self.arguments), &self.log)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
