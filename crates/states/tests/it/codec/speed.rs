//! How fast it is: printed, not asserted, because a debug build on a busy machine says nothing. `make bench` judges.

use std::time::{Duration, Instant};

use serde::de::IgnoredAny;
use states::codec::{Limits, Receiver};
use testbed::states::{Options, RESOURCE_BYTES, generate};

use super::{receive, restored, spool, stored_bytes, tell};

/// The fastest of a few runs.
fn fastest(mut run: impl FnMut()) -> Duration {
    let rounds = testbed::scale().of(3, 15);
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn what_a_state_of_ten_megabytes_costs() {
    let megabytes = testbed::scale().of(2, 10);
    let state = generate(megabytes * 1_000_000 / RESOURCE_BYTES, 1, &Options::default());
    let validate = fastest(|| drop(serde_json::from_slice::<IgnoredAny>(&state)));
    let compress = fastest(|| drop(zstd::bulk::compress(&state, 3)));
    let write = fastest(|| {
        let mut receiver = Receiver::new(Limits::default(), spool());
        receiver.push(&state).expect("valid");
        receiver.finish(None).expect("valid");
    });
    let mut received = receive(&state, Limits::default(), 1 << 16).expect("valid");
    let mut back = Vec::new();
    let read = fastest(|| back = restored(&mut received));
    assert!(back == state, "the state came back changed");
    let speed = |time: Duration| state.len() as f64 / 1e6 / time.as_secs_f64();
    tell(&format!(
        "{:.1} MB: validate {:.0} MB/s, zstd-3 {:.0} MB/s, receive {:.0} MB/s ({:.2}x validate + zstd-3), restore {:.0} MB/s, stored {} bytes",
        state.len() as f64 / 1e6,
        speed(validate),
        speed(compress),
        speed(write),
        write.as_secs_f64() / (validate + compress).as_secs_f64(),
        speed(read),
        stored_bytes(&received.segments),
    ));
}
