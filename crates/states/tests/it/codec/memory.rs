//! Memory stays bounded whatever the size. Measured in a child process, because the others here share one.

use std::io::{Read, Write};
use std::process::Command;

use aws_lc_rs::digest::{Context, SHA256};
use states::codec::{Limits, Receiver, SpoolPlace, restore};
use testbed::states::{Options, RESOURCE_BYTES, stream};

use super::{stored_bytes, tell};

/// Set in the child: how many megabytes it receives and restores.
const CHILD: &str = "STATEWARD_TEST_CODEC_MEGABYTES";

#[test]
fn a_huge_state_passes_in_bounded_memory() {
    if let Ok(megabytes) = std::env::var(CHILD) {
        return pass(megabytes.parse().expect("a number"));
    }
    let megabytes = testbed::scale().of(48, 300);
    let spool = tempfile::tempdir().expect("a directory");
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "codec::memory::a_huge_state_passes_in_bounded_memory", "--nocapture"])
        .env(CHILD, megabytes.to_string())
        .env("TMPDIR", spool.path())
        .output()
        .expect("the child runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let figure = |name: &str| -> u64 {
        let line = told.lines().find_map(|line| line.strip_prefix(name)).expect("the child tells");
        line.trim().parse().expect("a number")
    };
    let (peak, before, stored) = (figure("peak kB:"), figure("before kB:"), figure("stored kB:"));
    tell(&format!("{megabytes} MB: peak {peak} kB, {before} kB before the state, {stored} kB stored"));
    assert!(peak < 64 * 1024 + stored, "peak of {peak} kB for {stored} kB stored");
    assert_eq!(std::fs::read_dir(spool.path()).expect("a directory").count(), 0, "something is left in the spool");
}

fn pass(megabytes: usize) {
    let before = peak();
    let resources = megabytes * 1_000_000 / RESOURCE_BYTES;
    let mut state = stream(resources, 77, &Options::default());
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    let mut receiver = Receiver::new(limits, SpoolPlace::new(std::env::temp_dir()));
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = state.read(&mut buffer).expect("generated");
        if length == 0 {
            break;
        }
        receiver.push(&buffer[..length]).expect("valid");
    }
    let received = receiver.finish(None).expect("valid");
    let mut hash = Hash(Context::new(&SHA256));
    for index in 0..received.segments.len() {
        let stored = received.stored(index).expect("readable");
        restore(&received.segments[index], &stored, None, &mut hash).expect("whole");
    }
    assert_eq!(hash.0.finish().as_ref(), received.facts.sha256);
    let stored = stored_bytes(&received.segments) / 1024;
    tell(&format!("\nbefore kB: {before}\npeak kB: {}\nstored kB: {stored}", peak()));
}

struct Hash(Context);

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The most memory that this process ever had, in kB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
