//! How much memory a server has taken.

use crate::server::Server;

impl Server {
    /// The most that was resident since the start, or since [`Server::forget_peak`], in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid())).expect("a running server");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line with the peak");
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kilobytes << 10
    }

    /// Begins to look for the peak anew.
    pub fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.process.pid()), "5").expect("reset the peak");
    }
}
