//! A body is judged the same however it was cut on its way; and what is accepted is JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use states::codec::{BadState, Limits, Received, Receiver, SpoolPlace};

fn receive<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Received, BadState> {
    let limits = Limits { depth: 100, segment: 64..256, ..Limits::default() };
    let mut receiver = Receiver::new(limits, SpoolPlace::new("/tmp"));
    for piece in pieces {
        receiver.push(piece)?;
    }
    receiver.finish(None)
}

fuzz_target!(|input: &[u8]| {
    // The first byte says how the rest is cut.
    let Some((cut, body)) = input.split_first() else { return };
    let whole = receive(std::iter::once(body));
    let pieces = receive(body.chunks(usize::from(*cut % 17) + 1));
    match (&whole, &pieces) {
        (Ok(whole), Ok(pieces)) => {
            assert_eq!(whole.facts, pieces.facts);
            assert_eq!(whole.segments, pieces.segments);
            assert_eq!(whole.facts.size, body.len() as u64);
            serde_json::from_slice::<&RawValue>(body).expect("what is accepted is JSON");
        }
        (Err(whole), Err(pieces)) => assert_eq!(whole.to_string(), pieces.to_string()),
        (whole, pieces) => panic!("whole: {whole:?}, in pieces: {pieces:?}"),
    }
});
