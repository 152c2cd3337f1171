//! What is not a state is refused with the byte and what was expected there, and nothing of its content.

use states::codec::{BadState, Damaged, Encoding, Limits, Receiver, Segment, SpoolPlace, restore};

use super::{ODD, limits, receive, spool};

fn refused(body: &[u8]) -> BadState {
    let limits = Limits { depth: 20, ..Limits::default() };
    let fault = receive(body, limits.clone(), body.len()).expect_err("this is no state");
    for piece in 1..4 {
        let other = receive(body, limits.clone(), piece).expect_err("this is no state");
        assert_eq!(other.to_string(), fault.to_string(), "in pieces of {piece}");
    }
    fault
}

#[test]
fn each_fault_names_its_byte_and_what_was_expected() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "the body is empty, expected a JSON object"),
        (b" \n ", "a state is a JSON object, expected '{' at byte 3"),
        (b"[1]", "a state is a JSON object, expected '{' at byte 0"),
        (b"secret", "a state is a JSON object, expected '{' at byte 0"),
        (b"\xef\xbb\xbf{}", "a state is a JSON object, expected '{' at byte 0"),
        (b"{", "the body ends at byte 1, where a key or '}' was expected"),
        (b"{\"a\"", "the body ends at byte 4, where ':' was expected"),
        (b"{\"a\":", "the body ends at byte 5, where a value was expected"),
        (b"{\"a\":1", "the body ends at byte 6, where the rest of a value was expected"),
        (b"{\"a\":1 ", "the body ends at byte 7, where ',' or '}' was expected"),
        (b"{\"a\":[1 ", "the body ends at byte 8, where ',' or ']' was expected"),
        (b"{\"a\":[", "the body ends at byte 6, where a value or ']' was expected"),
        (b"{\"a\":1,", "the body ends at byte 7, where a key was expected"),
        (b"{\"a\":\"se", "the body ends at byte 8, where the rest of a string was expected"),
        (b"{\"a\":tru", "the body ends at byte 8, where the rest of a value was expected"),
        (b"{} {}", "the JSON object ends before byte 3, expected nothing but white space after it"),
        (b"{}x", "the JSON object ends before byte 2, expected nothing but white space after it"),
        (b"{a:1}", "not JSON at byte 1: expected a key or '}'"),
        (b"{\"a\" 1}", "not JSON at byte 5: expected ':'"),
        (b"{\"a\":}", "not JSON at byte 5: expected a value"),
        (b"{\"a\":1,}", "not JSON at byte 7: expected a key"),
        (b"{\"a\":[1,]}", "not JSON at byte 8: expected a value"),
        (b"{\"a\":[1}", "not JSON at byte 7: expected ',' or ']'"),
        (b"{\"a\":1]", "not JSON at byte 6: expected ',' or '}'"),
        (b"{\"a\":trux}", "not JSON at byte 8: expected true, false or null"),
        (b"{\"a\":01}", "bad number at byte 6: expected no digit after a leading zero"),
        (b"{\"a\":-}", "bad number at byte 6: expected a digit"),
        (b"{\"a\":1.}", "bad number at byte 7: expected a digit"),
        (b"{\"a\":1ex}", "bad number at byte 7: expected a digit or a sign"),
        (b"{\"a\":1e+}", "bad number at byte 8: expected a digit"),
        (b"{\"a\":\"\xff\"}", "not UTF-8 at byte 6"),
        (b"{\"a\":\"\xc3\"}", "not UTF-8 at byte 7"),
        (b"{\"a\":\"\xed\xa0\x80\"}", "not UTF-8 at byte 7"),
        (b"{\"a\":\"\xf4\x90\x80\x80\"}", "not UTF-8 at byte 7"),
        (b"{\"a\":\"\xc0\x80\"}", "not UTF-8 at byte 6"),
        (b"{\"a\":\"\\x\"}", "bad escape at byte 7: expected one of \"\\/bfnrt or u and four hexadecimal digits"),
        (b"{\"a\":\"\\u12g4\"}", "bad escape at byte 10: expected one of \"\\/bfnrt or u and four hexadecimal digits"),
        (b"{\"a\":\"\n\"}", "a string holds a bare control character at byte 6, expected it escaped"),
        (b"{\"a\":1,\"a\":2}", "the key that ends at byte 9 stands in the state twice, expected it once"),
        (b"{\"a\":1,\"\\u0061\":2}", "the key that ends at byte 14 stands in the state twice, expected it once"),
        (b"{\"a\":[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]}", "byte 24 opens more than 20 nested objects and arrays"),
    ];
    for (body, message) in cases {
        assert_eq!(refused(body).to_string(), *message, "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn every_prefix_of_a_state_is_refused() {
    let state = ODD.trim_end().as_bytes();
    for end in 0..state.len() {
        assert!(receive(&state[..end], limits(20..60), 13).is_err(), "{end} of {} bytes", state.len());
    }
}

#[test]
fn a_deep_or_large_body_is_refused_before_it_costs_memory() {
    let mut receiver = Receiver::new(Limits::default(), spool());
    receiver.push(b"{\"a\":").expect("so far so good");
    let fault = receiver.push(&vec![b'['; 1 << 20]).expect_err("too deep");
    assert!(matches!(fault, BadState::TooDeep { limit: 512, .. }), "{fault}");
    assert!(matches!(receiver.push(b"["), Err(BadState::TooDeep { .. })), "a spent receiver repeats its fault");
    assert!(matches!(receiver.finish(None), Err(BadState::TooDeep { .. })));

    let small = Limits { body_bytes: 10, ..Limits::default() };
    assert!(matches!(receive(b"{\"a\":12345}", small.clone(), 4), Err(BadState::TooLarge { limit: 10 })));
    assert!(receive(b"{\"a\":1234}", small, 4).is_ok());
}

#[test]
fn the_outermost_object_cannot_be_used_to_fill_memory() {
    let keys: Vec<String> = (0..300).map(|number| format!("\"k{number}\":1")).collect();
    let body = format!("{{{}}}", keys.join(","));
    assert!(matches!(receive(body.as_bytes(), Limits::default(), 10), Err(BadState::TooManyKeys { limit: 256, .. })));
    let body = format!("{{\"{}\":1}}", "k".repeat(5000));
    assert!(matches!(receive(body.as_bytes(), Limits::default(), 10), Err(BadState::KeyTooLong { .. })));
    let body = format!("{{\"lineage\":\"{}\",\"a\":{body}}}", "l".repeat(5000));
    let received = receive(body.as_bytes(), Limits::default(), 10).expect("deeper keys may be long");
    assert_eq!(received.facts.lineage, None);
}

#[test]
fn a_body_that_is_not_what_content_md5_says_is_refused() {
    let digest = |state: &[u8]| receive(state, Limits::default(), 10).expect("valid").facts.md5;
    let finish = |md5| {
        let mut receiver = Receiver::new(Limits::default(), spool());
        receiver.push(b"{}").expect("valid");
        receiver.finish(Some(md5))
    };
    // md5sum of the two bytes, from another program.
    let right = [0x99, 0x91, 0x4b, 0x93, 0x2b, 0xd3, 0x7a, 0x50, 0xb9, 0x83, 0xc5, 0xe7, 0xc9, 0x0a, 0xe9, 0x3b];
    assert_eq!(digest(b"{}"), right);
    assert!(finish(right).is_ok());
    assert!(matches!(finish([0; 16]), Err(BadState::WrongMd5)));
}

#[test]
fn a_spool_without_its_directory_is_our_fault() {
    let gone = SpoolPlace::new("/nonexistent/spool");
    let tight = Limits { memory: 0, segment: 10..20, ..Limits::default() };
    let mut receiver = Receiver::new(tight, gone);
    let outcome = receiver.push(ODD.as_bytes());
    assert!(matches!(outcome, Err(BadState::Spool(_))), "{outcome:?}");
}

#[test]
fn damaged_stored_bytes_are_noticed_before_a_reader_sees_them() {
    let received = receive(ODD.as_bytes(), Limits::default(), 1000).expect("valid");
    let stored = received.stored(0).expect("readable").to_vec();
    let segment = received.segments[0].clone();
    let restored = |segment: &Segment, stored: &[u8]| {
        let mut out = Vec::new();
        let outcome: Result<(), Damaged> = restore(segment, stored, None, &mut out);
        let seen = if outcome.is_ok() { ODD } else { "" };
        assert_eq!(String::from_utf8_lossy(&out), seen, "a reader saw damaged bytes");
        outcome
    };
    assert!(restored(&segment, &stored).is_ok());
    let mut refused = 0;
    for bit in 0..stored.len() * 8 {
        let mut flipped = stored.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        // Some bits of a frame carry nothing, and then the state comes back; the closure checks that nothing else does.
        refused += usize::from(restored(&segment, &flipped).is_err());
    }
    assert!(refused > stored.len() * 7, "{refused} of {} flipped bits were noticed", stored.len() * 8);
    assert!(restored(&segment, &stored[..stored.len() - 1]).is_err());
    let mut other = segment.clone();
    other.hash[0] ^= 1;
    assert!(matches!(restored(&other, &stored), Err(Damaged::Checksum)));
    other.clone_from(&segment);
    other.original = u64::MAX;
    assert!(matches!(restored(&other, &stored), Err(Damaged::Length { .. })));
    other.clone_from(&segment);
    other.encoding = Encoding::ZstdDelta([0; 32]);
    assert!(matches!(restored(&other, &stored), Err(Damaged::NoBase)));
}
