//! How Terraform lays out JSON, and how to lay out minified JSON again: Go's `MarshalIndent` with two spaces and one
//! newline at the end. Pure.
//!
//! White space is a function of the token before it, the token after it and the depth, so that laying out can resume
//! at any byte of the minified text with nothing but a [`Resume`].

use serde::{Deserialize, Serialize};

use super::text;

/// What stands before a byte of minified text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Nothing: the document begins.
    Start,
    /// A bracket that opens.
    Opened,
    Comma,
    Colon,
    /// The middle of a string.
    Text,
    /// Any other token, or the middle of a number or literal.
    Token,
    /// The bracket that closes the document.
    End,
}

/// All that laying out needs to know of the text before a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    pub place: Place,
    /// How many containers are open.
    pub depth: u32,
}

/// What the white space before a token depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Value,
    Separator,
    Close,
}

/// White space of the canonical layout: a newline or none, then spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) newline: bool,
    pub(super) spaces: usize,
}

impl Gap {
    pub(super) const NONE: Gap = Gap { newline: false, spaces: 0 };
    /// What ends the document.
    pub(super) const LAST: Gap = Gap { newline: true, spaces: 0 };

    fn line(depth: usize) -> Gap {
        Gap { newline: true, spaces: 2 * depth }
    }

    /// The canonical white space between `place` and `next`; `depth` containers are open before `next`.
    #[inline]
    pub(super) fn between(place: Place, next: Next, depth: usize) -> Gap {
        match (place, next) {
            (Place::Comma, _) | (Place::Opened, Next::Value | Next::Separator) => Gap::line(depth),
            (Place::Token, Next::Close) => Gap::line(depth.saturating_sub(1)),
            (Place::Colon, _) => Gap { newline: false, spaces: 1 },
            _ => Gap::NONE,
        }
    }

    /// Takes the bytes of `space` that can be part of canonical white space where `depth` containers are open, and
    /// gives their number. Bounded, so that endless spaces are noticed before the next token.
    #[inline]
    pub(super) fn take(&mut self, space: &[u8], depth: usize) -> usize {
        let mut taken = 0;
        if *self == Gap::NONE && space.first() == Some(&b'\n') {
            self.newline = true;
            taken = 1;
        }
        let most = if self.newline { 2 * depth } else { 1 };
        let spaces = text::spaces(&space[taken..]).min(most - self.spaces);
        self.spaces += spaces;
        taken + spaces
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        if self.newline {
            out.push(b'\n');
        }
        out.resize(out.len() + self.spaces, b' ');
    }
}

/// Lays out minified `text` behind `out`; gives where it ended, or `None` as soon as `out` would hold more than `most`
/// bytes, which happens only to text that is not what was minified.
pub(super) fn lay_out(text: &[u8], from: Resume, out: &mut Vec<u8>, most: usize) -> Option<Resume> {
    let (mut place, mut depth) = (from.place, from.depth as usize);
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if place == Place::Text {
            let end = text_end(text, at);
            out.extend_from_slice(&text[at..end.after]);
            at = end.after;
            if end.closed {
                place = Place::Token;
            }
        } else {
            let next = match byte {
                b'}' | b']' => Next::Close,
                b',' | b':' => Next::Separator,
                _ => Next::Value,
            };
            let gap = Gap::between(place, next, depth);
            if out.len() + gap.spaces > most {
                return None;
            }
            gap.write(out);
            out.push(byte);
            at += 1;
            place = match byte {
                b'{' | b'[' => {
                    depth += 1;
                    Place::Opened
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 { Place::End } else { Place::Token }
                }
                b',' => Place::Comma,
                b':' => Place::Colon,
                b'"' => Place::Text,
                _ => Place::Token,
            };
        }
        if out.len() > most {
            return None;
        }
    }
    Some(Resume { place, depth: u32::try_from(depth).ok()? })
}

struct TextEnd {
    after: usize,
    closed: bool,
}

/// Where the string that `at` stands in ends, its quote included. Segments never end behind a lone backslash.
fn text_end(bytes: &[u8], at: usize) -> TextEnd {
    let mut at = at;
    loop {
        at = text::plain_end(bytes, at);
        match bytes.get(at) {
            Some(b'"') => return TextEnd { after: at + 1, closed: true },
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return TextEnd { after: bytes.len(), closed: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Gap, Place, Resume, lay_out};

    const STATE: &str = r#"{
  "version": 4,
  "empty": {},
  "none": [],
  "list": [
    1.50,
    "a\"b\\",
    {
      "\\": null
    },
    [
      true
    ]
  ]
}"#;

    const MINIFIED: &str = r#"{"version":4,"empty":{},"none":[],"list":[1.50,"a\"b\\",{"\\":null},[true]]}"#;

    #[test]
    fn minified_text_is_laid_out_as_terraform_does() {
        let mut out = Vec::new();
        let end = lay_out(MINIFIED.as_bytes(), Resume { place: Place::Start, depth: 0 }, &mut out, 1000);
        assert_eq!(end, Some(Resume { place: Place::End, depth: 0 }));
        Gap::LAST.write(&mut out);
        assert_eq!(String::from_utf8(out).expect("text"), format!("{STATE}\n"));
    }

    #[test]
    fn laying_out_resumes_at_every_byte_but_behind_a_backslash() {
        let text = MINIFIED.as_bytes();
        for cut in 0..text.len() {
            if cut > 0 && text[cut - 1] == b'\\' {
                continue;
            }
            let mut out = Vec::new();
            let middle = lay_out(&text[..cut], Resume { place: Place::Start, depth: 0 }, &mut out, 1000);
            lay_out(&text[cut..], middle.expect("short"), &mut out, 1000).expect("short");
            assert_eq!(String::from_utf8(out).expect("text"), STATE, "cut at {cut}");
        }
    }

    #[test]
    fn text_that_grows_beyond_what_was_recorded_is_refused() {
        let deep = vec![b'['; 10_000];
        assert_eq!(lay_out(&deep, Resume { place: Place::Start, depth: 0 }, &mut Vec::new(), 20_000), None);
    }
}
