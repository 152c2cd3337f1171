//! A sealed stream takes a few frames of memory, however long it is. Measured in a child process of its own.

use std::io::{Read, Write};
use std::process::Command;

use aws_lc_rs::digest::{Context, SHA256};

use crate::ring::{file_ring, scratch_key};

/// Set in the child: how many megabytes it seals and opens.
const CHILD: &str = "STATEWARD_TEST_SEALED_MEGABYTES";

#[tokio::test]
async fn a_long_stream_passes_in_bounded_memory() {
    if let Ok(megabytes) = std::env::var(CHILD) {
        return pass(megabytes.parse().expect("a number")).await;
    }
    let megabytes: u64 = testbed::scale().of(64, 1024);
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "memory::a_long_stream_passes_in_bounded_memory", "--nocapture"])
        .env(CHILD, megabytes.to_string())
        .output()
        .expect("the child runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let line = told.lines().find_map(|line| line.strip_prefix("grown kB: ")).expect("the child tells");
    let grown: u64 = line.trim().parse().expect("a number");
    assert!(grown < 4096, "{grown} kB more for {megabytes} MB");
}

async fn pass(megabytes: usize) {
    let ring = file_ring(&scratch_key());
    let file = tempfile::tempfile().expect("a file");
    // Once before, so that what is made once does not count.
    drop(ring.seal_stream("main", b"context", Vec::new()).await.expect("a sealer"));
    let before = peak();

    let mut piece = vec![0; 1 << 20];
    let mut random = fastrand::Rng::with_seed(1);
    let (mut sent, mut came) = (Context::new(&SHA256), Context::new(&SHA256));
    let mut sealer = ring.seal_stream("main", b"context", &file).await.expect("a sealer");
    for _megabyte in 0..megabytes {
        random.fill(&mut piece);
        sent.update(&piece);
        sealer.write_all(&piece).expect("written");
    }
    sealer.finish().expect("finished");

    std::io::Seek::rewind(&mut &file).expect("a file");
    let mut opener = ring.open_stream(b"context", &file).await.expect("an opener");
    loop {
        let length = opener.read(&mut piece).expect("read");
        if length == 0 {
            break;
        }
        came.update(&piece[..length]);
    }
    assert_eq!(sent.finish().as_ref(), came.finish().as_ref());
    let grown = peak() - before;
    #[expect(clippy::print_stdout, reason = "the parent reads it")]
    {
        println!("\ngrown kB: {grown}");
    }
}

/// The most memory that this process ever had, in kB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
