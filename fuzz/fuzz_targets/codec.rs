//! What is accepted comes back byte for byte, and can be asked for outputs, resources and a new serial.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use states::codec::{Limits, Receiver, Sensitive, SpoolPlace, outputs, resources, restore, with_serial};

fuzz_target!(|body: &[u8]| {
    let limits = Limits { segment: 64..256, ..Limits::default() };
    let mut receiver = Receiver::new(limits, SpoolPlace::new("/tmp"));
    if receiver.push(body).is_err() {
        return;
    }
    let Ok(mut received) = receiver.finish(None) else { return };
    let mut restored = Vec::new();
    for index in 0..received.segments.len() {
        let stored = received.stored(index).expect("the spool");
        restore(&received.segments[index], &stored, None, &mut restored).expect("what was just stored");
    }
    assert_eq!(restored, body);

    let mut source = |out: &mut dyn Write| out.write_all(&restored);
    for sensitive in [Sensitive::Shown, Sensitive::LeftOut] {
        let _ = outputs(&mut source, sensitive, &mut Vec::new());
    }
    let _ = resources(&mut source, &mut |_| {});
    let mut raised = Vec::new();
    if with_serial(&mut source, 4_294_967_296, &mut raised).is_ok() {
        let mut receiver = Receiver::new(Limits::default(), SpoolPlace::new("/tmp"));
        receiver.push(&raised).expect("still a state");
        let facts = receiver.finish(None).expect("still a state").facts;
        assert_eq!(facts.serial.as_deref(), Some("4294967296"));
        assert_eq!(facts.lineage, received.facts.lineage);
    }
});
