//! Random documents and random damage: the same verdict as `serde_json`, the same bytes back, and never a panic.

use fastrand::Rng;
use serde::de::IgnoredAny;
use states::codec::{Limits, Receiver};

use super::{ODD, receive, restored, spool};

/// How a random document is laid out.
#[derive(Clone, Copy)]
enum Space {
    None,
    Canonical,
    Random,
}

fn space(random: &mut Rng, out: &mut String) {
    while random.u8(..4) == 0 {
        out.push(random.choice([' ', ' ', '\n', '\t', '\r']).unwrap_or(' '));
    }
}

fn line(random: &mut Rng, out: &mut String, layout: Space, depth: usize) {
    match layout {
        Space::None => {}
        Space::Canonical => {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        }
        Space::Random => space(random, out),
    }
}

const ESCAPES: [&str; 8] = ["\\\"", "\\\\", "\\/", "\\b", "\\n", "\\u003c", "\\uD800", "\\u00e4"];

fn string(random: &mut Rng, out: &mut String) {
    out.push('"');
    for _ in 0..random.usize(..20) {
        match random.u8(..16) {
            0 => out.push_str(ESCAPES[random.usize(..ESCAPES.len())]),
            1 => out.push(random.choice(['ä', '€', '𝄞', '\u{7f}', '\u{ffff}']).unwrap_or('ä')),
            2 => out.push(random.choice(['{', '}', '[', ']', ',', ':', ' ']).unwrap_or(' ')),
            _ => out.push(random.alphanumeric()),
        }
    }
    out.push('"');
}

fn value(random: &mut Rng, out: &mut String, layout: Space, depth: usize) {
    match random.u8(..if depth > 6 { 5 } else { 9 }) {
        0 => out.push_str(["true", "false", "null"][random.usize(..3)]),
        1 | 2 => {
            let numbers = ["0", "-0", "1.50", "12345678901234567890123", "1e9", "-7E-3", "0.1e+2", "42"];
            out.push_str(numbers[random.usize(..numbers.len())]);
        }
        3 | 4 => string(random, out),
        5 | 6 => object(random, out, layout, depth),
        _ => {
            out.push('[');
            let count = random.usize(..5);
            for number in 0..count {
                line(random, out, layout, depth + 1);
                value(random, out, layout, depth + 1);
                if number + 1 < count {
                    out.push(',');
                } else {
                    line(random, out, layout, depth);
                }
            }
            out.push(']');
        }
    }
}

fn object(random: &mut Rng, out: &mut String, layout: Space, depth: usize) {
    out.push('{');
    let count = random.usize(..6);
    for number in 0..count {
        line(random, out, layout, depth + 1);
        if depth == 0 {
            // Twice the same is allowed further in only.
            out.push_str(&format!("\"key {number}\""));
        } else {
            string(random, out);
        }
        if let Space::Random = layout {
            space(random, out);
        }
        out.push(':');
        match layout {
            Space::None => {}
            Space::Canonical => out.push(' '),
            Space::Random => space(random, out),
        }
        value(random, out, layout, depth + 1);
        if number + 1 < count {
            out.push(',');
        } else {
            line(random, out, layout, depth);
        }
    }
    out.push('}');
}

fn document(random: &mut Rng) -> String {
    let mut out = String::new();
    let layout = [Space::None, Space::Canonical, Space::Canonical, Space::Random][random.usize(..4)];
    object(random, &mut out, layout, 0);
    line(random, &mut out, layout, 0);
    if random.u8(..4) == 0 {
        let odd = random.usize(..=out.len());
        if out.is_char_boundary(odd) {
            out.insert(odd, ' ');
        }
    }
    out
}

fn random_limits(random: &mut Rng) -> Limits {
    let shortest = random.usize(1..200);
    let segment = shortest..shortest + random.usize(1..400);
    let memory = random.usize(..1000);
    Limits { segment, memory, ..Limits::default() }
}

/// What we accept is what `serde_json` accepts, but for text that is not UTF-8, which it does not look at, and for
/// rules about the outermost object.
fn agree(body: &[u8], accepted: bool) {
    let trimmed = body.iter().find(|byte| !b" \t\r\n".contains(byte));
    let object = trimmed == Some(&b'{');
    let valid = object && std::str::from_utf8(body).is_ok() && serde_json::from_slice::<IgnoredAny>(body).is_ok();
    assert_eq!(accepted, valid, "{:?}", String::from_utf8_lossy(body));
}

#[test]
fn random_documents_come_back_exactly() {
    let mut random = Rng::with_seed(testbed::seed("random documents"));
    let mut minified = 0;
    for _ in 0..testbed::scale().of(2_000, 100_000) {
        let body = document(&mut random);
        let limits = random_limits(&mut random);
        let piece = random.usize(1..100);
        match receive(body.as_bytes(), limits.clone(), piece) {
            Ok(mut received) => {
                agree(body.as_bytes(), true);
                assert_eq!(String::from_utf8_lossy(&restored(&mut received)), body, "{limits:?}");
                let other = receive(body.as_bytes(), limits, body.len()).expect("valid");
                assert!(other.segments == received.segments, "{body}");
                minified += received.segments.iter().filter(|segment| super::minified(segment)).count();
            }
            Err(_) => agree(body.as_bytes(), false),
        }
    }
    assert!(minified > 0, "no canonical document was generated");
}

#[test]
fn damaged_documents_get_the_verdict_of_serde_json_and_never_panic() {
    let mut random = Rng::with_seed(testbed::seed("random damage"));
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..testbed::scale().of(20_000, 1_000_000) {
        let mut body = if round % 4 == 0 { ODD.to_owned() } else { document(&mut random) }.into_bytes();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..body.len());
            match random.u8(..4) {
                0 => body[at] ^= 1 << random.u8(..8),
                1 => drop(body.remove(at)),
                2 => body.insert(at, *random.choice(b"{}[]\",:\\ 0-e.tu\n\xc3\x80").unwrap_or(&b'x')),
                _ => body.truncate(at.max(1)),
            }
            if body.is_empty() {
                body.push(b' ');
            }
        }
        let piece = random.usize(1..300);
        match receive(&body, random_limits(&mut random), piece) {
            Ok(mut received) => {
                accepted += 1;
                agree(&body, true);
                assert!(restored(&mut received) == body, "{:?}", String::from_utf8_lossy(&body));
            }
            Err(states::codec::BadState::DuplicateKey { .. }) => {}
            Err(fault) => {
                refused += 1;
                assert!(!fault.to_string().is_empty());
                agree(&body, false);
            }
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Rng::with_seed(testbed::seed("random bytes"));
    for _ in 0..testbed::scale().of(10_000, 1_000_000) {
        let mut receiver = Receiver::new(Limits { segment: 5..20, ..Limits::default() }, spool());
        let alphabet = b"{}[]\"\\:,0123.eE+-truefalsn \n\tu\x00\x80\xf0\xff";
        let mut pushed = receiver.push(b"{\"a\":");
        for _ in 0..random.usize(..30) {
            let piece: Vec<u8> = (0..random.usize(..6)).map(|_| alphabet[random.usize(..alphabet.len())]).collect();
            pushed = receiver.push(&piece);
            if pushed.is_err() {
                break;
            }
        }
        assert_eq!(pushed.is_err(), receiver.push(b"").is_err(), "a fault is forgotten");
        drop(receiver.finish(None));
    }
}
