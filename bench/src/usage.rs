//! What a process has used, as the kernel tells.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// The unit of `/proc/PID/stat` on every Linux that we run on.
const TICKS: u64 = 100;

/// CPU time of a process with all its threads.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the server has ended")?;
    // The name may hold anything but ends with the last parenthesis; user and system time are fields 14 and 15.
    let (_, rest) = stat.rsplit_once(')').context("a stat without a name")?;
    let ticks: u64 = rest.split_whitespace().skip(11).take(2).map(|field| field.parse().unwrap_or(0_u64)).sum();
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

/// The most memory that a process had at once since its start or [`forget_peak`], in bytes.
pub(crate) fn peak_memory(pid: u32) -> Result<u64> {
    of_status(pid, "VmHWM:")
}

/// The memory that a process has now, in bytes.
pub(crate) fn memory(pid: u32) -> Result<u64> {
    of_status(pid, "VmRSS:")
}

fn of_status(pid: u32, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process has ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let line = line.with_context(|| format!("a status without {field}"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}

pub(crate) fn forget_peak(pid: u32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("failed to reset VmHWM")
}

/// CPU time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_as_time_and_memory() {
        let start = thread_cpu();
        let own = std::process::id();
        let block = std::hint::black_box(vec![1_u8; 32 << 20]);
        while thread_cpu().saturating_sub(start) < Duration::from_millis(60) {}
        assert!(cpu(own).unwrap() >= Duration::from_millis(40));
        assert!(peak_memory(own).unwrap() >= block.len() as u64);
        assert!(memory(own).unwrap() >= block.len() as u64);
    }
}
