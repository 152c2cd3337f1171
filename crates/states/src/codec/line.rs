//! One line as Terraform writes it, read at once: nearly all of a state consists of such lines. Pure.
//!
//! The door is [`Line::read`]. It knows a part of what the scanner knows and gives up on everything else, such as a
//! character beyond ASCII or a line that is not all there; the scanner then goes through it byte by byte, and comes to
//! the same result.

use std::ops::Range;

use super::number::Number;
use super::scan::Container;
use super::text;

/// A line without the newline before it. Places are in the bytes of one push.
#[derive(Debug)]
pub(super) struct Line {
    /// Where the first token begins, and where the last one ended.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The one space between a key and its value; where the line begins if it has no key.
    pub(super) gap: Range<usize>,
    /// What stands between quotes.
    pub(super) texts: [Range<usize>; 2],
    /// What it does to the depth.
    pub(super) turn: Turn,
    pub(super) last: Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    /// It closes the container around it, before anything else.
    Close,
    /// Its last token opens a container.
    Open(Container),
}

/// What a line ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Opened,
    Comma,
    Token,
}

/// What stands before a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// A comma or a bracket that opens: a member follows.
    Separator,
    /// A value: only the end of its container can follow.
    Value,
}

impl Line {
    /// The line behind the newline at `at`, where `depth` containers are open, the innermost one `inside`.
    #[inline]
    pub(super) fn read(bytes: &[u8], at: usize, depth: usize, inside: Container, before: Before) -> Option<Line> {
        let indentation = text::spaces(&bytes[at + 1..]);
        let start = at + 1 + indentation;
        if before == Before::Value {
            let close = if inside == Container::Object { b'}' } else { b']' };
            let fits = indentation == 2 * (depth - 1) && *bytes.get(start)? == close;
            let line =
                Line { start, end: 0, gap: start..start, texts: [0..0, 0..0], turn: Turn::Close, last: Last::Token };
            return if fits { line.ended(bytes, start + 1) } else { None };
        }
        if indentation != 2 * depth {
            return None;
        }
        let (mut value, mut gap, mut key) = (start, start..start, 0..0);
        if inside == Container::Object {
            key = string(bytes, start)?;
            if bytes.get(key.end + 1..key.end + 3)? != b": " {
                return None;
            }
            gap = key.end + 2..key.end + 3;
            value = gap.end;
        }
        let mut line = Line { start, end: 0, gap, texts: [key, 0..0], turn: Turn::None, last: Last::Token };
        let end = match *bytes.get(value)? {
            b'"' => {
                line.texts[1] = string(bytes, value)?;
                line.texts[1].end + 1
            }
            b'{' => return line.container(bytes, value, Container::Object, b'}'),
            b'[' => return line.container(bytes, value, Container::Array, b']'),
            b't' => word(bytes, value, b"true")?,
            b'f' => word(bytes, value, b"false")?,
            b'n' => word(bytes, value, b"null")?,
            b'-' | b'0'..=b'9' => number(bytes, value)?,
            _ => return None,
        };
        line.ended(bytes, end)
    }

    /// The last value ended before `end`, which is a comma or the next line.
    #[inline]
    fn ended(mut self, bytes: &[u8], end: usize) -> Option<Line> {
        match *bytes.get(end)? {
            b',' => (self.end, self.last) = (end + 1, Last::Comma),
            b'\n' => (self.end, self.last) = (end, Last::Token),
            _ => return None,
        }
        Some(self)
    }

    fn container(mut self, bytes: &[u8], at: usize, container: Container, close: u8) -> Option<Line> {
        match *bytes.get(at + 1)? {
            b'\n' => {
                (self.end, self.turn, self.last) = (at + 1, Turn::Open(container), Last::Opened);
                Some(self)
            }
            byte if byte == close => self.ended(bytes, at + 2),
            _ => None,
        }
    }
}

/// What stands between the quote at `at` and the next.
#[inline]
fn string(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    if *bytes.get(at)? != b'"' {
        return None;
    }
    let start = at + 1;
    let mut at = start;
    loop {
        at = text::plain_end(bytes, at);
        match *bytes.get(at)? {
            b'"' => return Some(start..at),
            b'\\' => match *bytes.get(at + 1)? {
                b'u' if bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => at += 6,
                escaped if text::is_escape(escaped) => at += 2,
                _ => return None,
            },
            _ => return None,
        }
    }
}

#[inline]
fn word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let end = at + word.len();
    (bytes.get(at..end)? == word).then_some(end)
}

#[inline]
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let (mut at, mut number) = (at, Number::Start);
    while let Some(next) = number.next(*bytes.get(at)?).ok()? {
        number = next;
        at += 1;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, inside: Container, before: Before) -> Option<(usize, Turn, Last)> {
        Line::read(text.as_bytes(), 0, 2, inside, before).map(|line| (line.end, line.turn, line.last))
    }

    #[test]
    fn a_line_is_read_to_its_end_or_not_at_all() {
        use Before::{Separator, Value};
        use Container::{Array, Object};
        let table = [
            ("\n    \"a\": 1,\n", Object, Separator, Some((12, Turn::None, Last::Comma))),
            ("\n    \"a\": \"\\u00e4\\\"\"\n", Object, Separator, Some((20, Turn::None, Last::Token))),
            ("\n    \"a\": {\n", Object, Separator, Some((11, Turn::Open(Object), Last::Opened))),
            ("\n    \"a\": [],\n", Object, Separator, Some((13, Turn::None, Last::Comma))),
            ("\n    null,\n", Array, Separator, Some((10, Turn::None, Last::Comma))),
            ("\n    -1.50e+7\n", Array, Separator, Some((13, Turn::None, Last::Token))),
            ("\n    [\n", Array, Separator, Some((6, Turn::Open(Array), Last::Opened))),
            ("\n  },\n", Object, Value, Some((5, Turn::Close, Last::Comma))),
            ("\n  ]\n", Array, Value, Some((4, Turn::Close, Last::Token))),
            // Other white space, what is no JSON, what a container does not have, what is not all there.
            ("\n   \"a\": 1,\n", Object, Separator, None),
            ("\n    \"a\":1,\n", Object, Separator, None),
            ("\n    \"a\":  1,\n", Object, Separator, None),
            ("\n    \"a\": 1 ,\n", Object, Separator, None),
            ("\n    \"a\": 01,\n", Object, Separator, None),
            ("\n    \"a\": nul,\n", Object, Separator, None),
            ("\n    \"a\": \"\\x\",\n", Object, Separator, None),
            ("\n    \"a\": \"\\u00g4\",\n", Object, Separator, None),
            ("\n    \"a\": \"ä\",\n", Object, Separator, None),
            ("\n    \"a\": {},", Array, Separator, None),
            ("\n    \"a\": {]\n", Object, Separator, None),
            ("\n    1,\n", Object, Separator, None),
            ("\n  },\n", Object, Separator, None),
            ("\n    },\n", Object, Value, None),
            ("\n  ]\n", Object, Value, None),
            ("\n    \"a\": 1", Object, Separator, None),
            ("\n    \"a\": \"b", Object, Separator, None),
            ("\n    \"a\": \"b\\", Object, Separator, None),
            ("\n", Object, Separator, None),
        ];
        for (text, inside, before, expected) in table {
            assert_eq!(read(text, inside, before), expected, "{text:?}");
        }
    }
}
