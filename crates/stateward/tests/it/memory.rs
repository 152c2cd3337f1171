//! How much memory a server has taken.

use crate::server::Server;

/// What a release build has resident of its own file. A debug build, which tests run, has several times that: what it has
/// beyond does not count.
const PROGRAM: u64 = 24 << 20;

impl Server {
    /// The most that was resident since the start, or since [`Server::forget_peak`], in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid())).expect("a running server");
        let bytes = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a line with the field");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
        };
        bytes("VmHWM:") - bytes("RssFile:").saturating_sub(PROGRAM)
    }

    /// Begins to look for the peak anew.
    pub fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.process.pid()), "5").expect("reset the peak");
    }
}
