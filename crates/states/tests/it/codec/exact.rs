//! Read-back is byte-exact, whatever the state looks like.

use aws_lc_rs::digest::{SHA256, digest};
use states::codec::{Limits, Segment};
use testbed::states::{Options, RESOURCE_BYTES, generate};

use super::{ODD, limits, minified, receive, restored, stored_bytes};

#[test]
fn every_oddity_of_a_state_comes_back_as_it_was_sent() {
    let encrypted = r#"{"serial":3,"lineage":"l","meta":{"key_provider.pbkdf2.k":"eyJ9"},"encrypted_data":"AAECAw==","encryption_version":"v0"}"#;
    let states = [
        ODD.to_owned(),
        ODD.trim_end().to_owned(),
        format!("{ODD}\n"),
        format!("{ODD} \t\r\n   "),
        format!("\n {ODD}"),
        ODD.replace('\n', "\r\n"),
        ODD.replace("  ", "\t"),
        ODD.replace("  ", "    "),
        ODD.replace("\": ", "\":"),
        ODD.replace("\": ", "\" : "),
        ODD.replace("{}", "{ }"),
        ODD.replace("[]", "[\n      ]"),
        encrypted.to_owned(),
        "{}".to_owned(),
        "{}\n".to_owned(),
    ];
    for state in states {
        for segment in [1 << 20..4 << 20, 16..64, 1..2, 100..300] {
            let mut received = receive(state.as_bytes(), limits(segment.clone()), 1000).expect("valid");
            assert_eq!(
                String::from_utf8(restored(&mut received)).expect("text"),
                state,
                "with segments of {segment:?}"
            );
            assert_eq!(received.facts.size, state.len() as u64);
            assert_eq!(received.facts.sha256, digest(&SHA256, state.as_bytes()).as_ref());
        }
    }
}

#[test]
fn facts_are_read_from_the_outermost_object_only() {
    let received = receive(ODD.as_bytes(), Limits::default(), 7).expect("valid");
    let facts = &received.facts;
    assert_eq!(facts.serial.as_deref(), Some("7"));
    assert_eq!(facts.lineage.as_deref(), Some("3f1c"));
    assert_eq!(facts.terraform_version.as_deref(), Some("1.12.1"));
    assert!(!facts.encrypted);

    let tricky = br#"{"resources":[{"serial":1,"lineage":"x"}],"s\u0065rial":18446744073709551616,"lineage":"a\u0062","outputs":{"encrypted_data":1,"encryption_version":1}}"#;
    let received = receive(tricky, Limits::default(), 3).expect("valid");
    assert_eq!(received.facts.serial.as_deref(), Some("18446744073709551616"));
    assert_eq!(received.facts.lineage.as_deref(), Some("ab"));
    assert!(!received.facts.encrypted);

    for odd in
        [r#"{"serial":-1}"#, r#"{"serial":1.5}"#, r#"{"serial":"1"}"#, r#"{"serial":{"a":1}}"#, r#"{"serial":null}"#]
    {
        let received = receive(odd.as_bytes(), Limits::default(), 100).expect("valid");
        assert_eq!(received.facts.serial, None, "{odd}");
    }
    let encrypted = br#"{"serial":9,"lineage":"l","meta":{},"encrypted_data":"AA==","encryption_version":"v0"}"#;
    let received = receive(encrypted, Limits::default(), 100).expect("valid");
    assert!(received.facts.encrypted);
    assert_eq!(received.facts.serial.as_deref(), Some("9"));
}

#[test]
fn a_state_of_terraform_is_stored_minified_in_segments_of_the_agreed_length() {
    let resources = testbed::scale().of(8, 100) * (1 << 20) / RESOURCE_BYTES;
    let state = generate(resources, 11, &Options::default());
    let mut received = receive(&state, Limits::default(), 100_000).expect("valid");
    let segments = &received.segments;
    assert!(segments.iter().all(minified));
    let (last, others) = segments.split_last().expect("at least one");
    assert!(others.len() >= 2, "{} segments", segments.len());
    for segment in others {
        assert!((1 << 20..=(4 << 20) + 64).contains(&segment.original), "{segment:?}");
    }
    assert!(last.original <= 4 << 20);
    assert_eq!(segments.iter().map(|segment| segment.original).sum::<u64>(), state.len() as u64);
    assert!(stored_bytes(segments) * 8 < state.len() as u64, "{} of {}", stored_bytes(segments), state.len());
    assert!(restored(&mut received) == state, "the state came back changed");
}

#[test]
fn only_the_segment_with_odd_white_space_is_stored_as_sent() {
    let resources = 6 * (1 << 20) / RESOURCE_BYTES;
    let state = generate(resources, 12, &Options::default());
    let text = String::from_utf8(state).expect("text");
    let middle = text.len() / 2;
    let spot = middle + text[middle..].find(": ").expect("a key");
    let state = format!("{}:  {}", &text[..spot], &text[spot + 2..]);
    let mut received = receive(state.as_bytes(), Limits::default(), 65_000).expect("valid");
    let as_sent: Vec<&Segment> = received.segments.iter().filter(|segment| !minified(segment)).collect();
    assert_eq!(as_sent.len(), 1, "{:?}", received.segments);
    assert!(received.segments.len() >= 3);
    assert!(restored(&mut received) == state.as_bytes(), "the state came back changed");
}

#[test]
fn how_an_upload_is_split_changes_nothing() {
    let odd = ODD.replace("\"power\": ", "\"power\":\t \n");
    for state in [ODD, &odd] {
        for segment in [1 << 20..4 << 20, 20..60, 1..7] {
            let whole = receive(state.as_bytes(), limits(segment.clone()), state.len()).expect("valid");
            for split in 1..state.len() {
                let mut receiver = states::codec::Receiver::new(limits(segment.clone()), super::spool());
                receiver.push(&state.as_bytes()[..split]).expect("valid");
                receiver.push(&state.as_bytes()[split..]).expect("valid");
                let received = receiver.finish(None).expect("valid");
                assert_eq!(received.facts, whole.facts, "split at {split}");
                assert!(received.segments == whole.segments, "split at {split}, segments {segment:?}");
            }
            for piece in 1..9 {
                let received = receive(state.as_bytes(), limits(segment.clone()), piece).expect("valid");
                assert!(received.segments == whole.segments, "pieces of {piece}, segments {segment:?}");
            }
        }
    }
}

#[test]
fn endless_tokens_and_white_space_are_cut_too() {
    let bodies = [
        format!("{{\"a\":\"{}\"}}", "x".repeat(100_000)),
        format!("{{\"a\":\"{}\"}}", "\\\\".repeat(50_000)),
        format!("{{\"a\":\"{}\"}}", "\\\"".repeat(50_000)),
        format!("{{\"a\":\"{}\"}}", "\\u0041".repeat(20_000)),
        format!("{{\"a\":\"{}\"}}", "𝄞".repeat(20_000)),
        format!("{{\"a\":{}}}", "7".repeat(100_000)),
        format!("{{\"a\":[{}1]}}", "1,".repeat(50_000)),
        format!("{{\"a\":{}1}}", " ".repeat(100_000)),
        format!("{{}}\n{}", " ".repeat(100_000)),
        format!("{{\n  \"a\": {}{}\n}}\n", "[".repeat(400), "]".repeat(400)),
    ];
    for body in bodies {
        let mut received = receive(body.as_bytes(), limits(1000..4000), 777).expect("valid");
        for segment in &received.segments {
            assert!(segment.original <= 4000 + 1024, "{segment:?}");
        }
        assert!(restored(&mut received) == body.as_bytes(), "{} came back changed", &body[..20]);
        let other = receive(body.as_bytes(), limits(1000..4000), 64).expect("valid");
        assert!(other.segments == received.segments, "{}", &body[..20]);
    }
}

#[test]
fn the_description_of_a_segment_survives_json() {
    let received = receive(ODD.as_bytes(), limits(20..60), 100).expect("valid");
    let text = serde_json::to_string(&received.segments).expect("serialisable");
    let back: Vec<Segment> = serde_json::from_str(&text).expect("deserialisable");
    assert_eq!(back, received.segments);
}
