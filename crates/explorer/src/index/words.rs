//! What a word is: how texts are cut for searching, the same for rows and for questions.
//!
//! A word is a run of letters, digits and `_`, and dots between digits (`1.25.3`), in small letters. Uids, hashes, times, long
//! numbers and long runs (certificates, base64) are no words: they are in one row each and nobody types them.

/// Longer runs are data, not words.
const LONGEST: usize = 40;
/// Shorter runs are in every row.
const SHORTEST: usize = 2;
/// Longer numbers are versions of resources and the like.
const LONGEST_NUMBER: usize = 6;
/// Runs of hexadecimal digits from here on are hashes.
const SHORTEST_HASH: usize = 12;

/// Gives each word of a text to `found`, and each run that looks like one and is none to `skipped`.
pub(crate) fn words(text: &str, mut found: impl FnMut(&str), mut skipped: impl FnMut(&str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !begins_word(bytes[at]) {
            at += 1;
            continue;
        }
        let begin = at;
        if let Some(len) = uid(&bytes[at..]).or_else(|| time(&bytes[at..])) {
            at += len;
            skipped(&text[begin..at]);
            continue;
        }
        while at < bytes.len() && (begins_word(bytes[at]) || is_inner_dot(bytes, at)) {
            at += 1;
        }
        let run = &text[begin..at];
        if is_word(run.as_bytes()) { found(run) } else { skipped(run) }
    }
}

/// The same text in small letters.
pub(crate) fn fold(text: &str, into: &mut String) {
    if text.is_ascii() {
        let begin = into.len();
        into.push_str(text);
        into[begin..].make_ascii_lowercase();
    } else {
        into.extend(text.chars().flat_map(char::to_lowercase));
    }
}

pub(crate) fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    fold(text, &mut folded);
    folded
}

/// Whether a value is one that fields of bodies are found by.
pub(super) fn is_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_other = uid(bytes).or_else(|| time(bytes)).is_some() || is_hash(bytes);
    !text.is_empty() && text.len() <= 2 * LONGEST && !is_other
}

/// Letters beyond ASCII count as letters; so does what is none there.
fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_inner_dot(bytes: &[u8], at: usize) -> bool {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    bytes[at] == b'.' && digit(at - 1) && digit(at + 1)
}

fn is_word(run: &[u8]) -> bool {
    let long_number = run.len() > LONGEST_NUMBER && run.iter().all(u8::is_ascii_digit);
    (SHORTEST..=LONGEST).contains(&run.len()) && !long_number && !is_hash(run)
}

fn is_hash(run: &[u8]) -> bool {
    run.len() >= SHORTEST_HASH && run.iter().all(u8::is_ascii_hexdigit) && run.iter().any(u8::is_ascii_digit)
}

/// The length of a uid at the start: 8-4-4-4-12 hexadecimal digits.
fn uid(bytes: &[u8]) -> Option<usize> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let head = bytes.get(..36)?;
    let fits = |(at, byte): (usize, &u8)| if DASHES.contains(&at) { *byte == b'-' } else { byte.is_ascii_hexdigit() };
    let ends = bytes.get(36).is_none_or(|byte| !begins_word(*byte));
    (head[8] == b'-' && ends && head.iter().enumerate().all(fits)).then_some(36)
}

/// The length of a time at the start: `2026-01-02T03:04:05` and what follows of it.
fn time(bytes: &[u8]) -> Option<usize> {
    const SHAPE: &[u8; 19] = b"0000-00-00T00:00:00";
    let head = bytes.get(..SHAPE.len())?;
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
    if head[4] != b'-' || !head.iter().zip(SHAPE).all(fits) {
        return None;
    }
    let rest = bytes[SHAPE.len()..].iter().take_while(|byte| byte.is_ascii_digit() || b".Z+:-".contains(byte)).count();
    Some(SHAPE.len() + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_into_words_and_what_is_none_is_told() {
        let table = [
            ("Applied revision: main@sha1:8f3ac21b9d77", "Applied revision main sha1", "8f3ac21b9d77"),
            ("docker.io/library/nginx:1.25.3-alpine", "docker io library nginx 1.25.3 alpine", ""),
            ("a b1 c", "b1", "a c"),
            ("10.0.0.1:8080, 1234567", "10.0.0.1 8080", "1234567"),
            ("end 5. 6.x", "end", "5 6 x"),
            ("0190f3a2-1111-7222-8333-0123456789ab", "", "0190f3a2-1111-7222-8333-0123456789ab"),
            ("0190f3a2-1111-7222-8333-0123456789abc", "0190f3a2 1111 7222 8333", "0123456789abc"),
            ("at 2026-01-02T03:04:05.123Z: done", "at done", "2026-01-02T03:04:05.123Z:"),
            ("2026-01-02 only", "2026 01 02 only", ""),
            ("effaceddefaced", "effaceddefaced", ""),
            ("größe ÄRGER _x", "größe ÄRGER _x", ""),
            (&"x".repeat(41), "", &"x".repeat(41)),
            ("", "", ""),
        ];
        for (text, expected, left) in table {
            let (mut found, mut skipped) = (Vec::new(), Vec::new());
            words(text, |word| found.push(word.to_owned()), |run| skipped.push(run.to_owned()));
            assert_eq!((found.join(" ").as_str(), skipped.join(" ").as_str()), (expected, left), "{text}");
        }
    }

    #[test]
    fn small_letters_are_those_of_every_script() {
        assert_eq!(folded("AbC ÄÖ İ"), "abc äö i\u{307}");
    }
}
