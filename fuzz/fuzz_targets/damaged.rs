//! Stored bytes that are not what they were are refused, without a panic and without much memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use states::codec::{Encoding, Limits, Place, Receiver, Resume, Segment, Shape, SpoolPlace, restore};

const STATE: &str = "{\n  \"version\": 4,\n  \"serial\": 7,\n  \"resources\": [\n    {\n      \"a\": 1.50\n    }\n  ]\n}\n";

fuzz_target!(|input: &[u8]| {
    // A real segment with some of its stored bytes changed: where, and to what.
    let mut receiver = Receiver::new(Limits::default(), SpoolPlace::new("/tmp"));
    receiver.push(STATE.as_bytes()).expect("a state");
    let mut received = receiver.finish(None).expect("a state");
    let whole = received.stored(0).expect("the spool").to_vec();
    let mut changed = whole.clone();
    for pair in input.chunks_exact(2).take(8) {
        let place = usize::from(pair[0]) % changed.len();
        changed[place] ^= pair[1];
    }
    let mut out = Vec::new();
    if restore(&received.segments[0], &changed, None, &mut out).is_ok() {
        assert_eq!(out, STATE.as_bytes());
    } else {
        assert!(out.is_empty(), "a damaged segment was handed on");
        assert_ne!(changed, whole);
    }

    // A description that claims anything, with anything behind it.
    let number = |from: usize| input.get(from..from + 4).map_or(0, |bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let shape = match input.first() {
        Some(byte) if byte % 2 == 0 => Shape::AsSent,
        _ => Shape::Minified(Resume { depth: number(8), place: Place::Start }),
    };
    let segment = Segment {
        original: u64::from(number(0)),
        shaped: u64::from(number(4)),
        stored: input.len() as u64,
        hash: [0; 32],
        shape,
        encoding: Encoding::Zstd,
    };
    assert!(restore(&segment, input, None, &mut Vec::new()).is_err(), "nothing has that hash");
});
