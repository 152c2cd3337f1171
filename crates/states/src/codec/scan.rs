//! The one state machine that knows JSON: it validates a document as its bytes arrive and tells a [`Sink`] what each
//! byte is.
//!
//! The door is [`Scanner::push`]. It builds nothing and holds one byte per open container: who wants to remember
//! something does so in the sink. Numbers and escapes are never decoded, so nothing can be lost. Stricter than
//! `serde_json` about UTF-8, equal to it otherwise; a lone surrogate escape passes, as Go lets it.

use std::ops::Range;

use super::fault::BadState;
use super::line::{Before, Last, Line, Turn};
use super::number::Number;
use super::text::{self, Wide};

/// What a string stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Key,
    Value,
}

/// A byte of structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Open(Container),
    Close,
    Comma,
    Colon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Object,
    Array,
}

/// Whether a piece begins a number or literal or goes on with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    First,
    More,
}

/// Is told what the bytes of one push are, in their order. Spans index `bytes`; `depth` counts the containers around
/// the byte, where a bracket counts as inside of its own container. A token may arrive in several pieces.
pub(super) trait Sink {
    /// A push begins; its first byte is byte `offset` of the document.
    fn begin(&mut self, _offset: u64) {}
    fn mark(&mut self, bytes: &[u8], at: usize, mark: Mark, depth: usize);
    fn opening_quote(&mut self, bytes: &[u8], at: usize, role: Role, depth: usize);
    /// What stands between the quotes, as written. Only the last byte of a span can be a backslash that waits for
    /// what it escapes.
    fn text(&mut self, bytes: &[u8], span: Range<usize>, role: Role, depth: usize);
    /// The rest of an escape whose beginning came with an earlier push.
    fn escape(&mut self, bytes: &[u8], span: Range<usize>, role: Role, depth: usize) {
        self.text(bytes, span, role, depth);
    }
    fn closing_quote(&mut self, bytes: &[u8], at: usize, role: Role, depth: usize);
    /// Bytes of a number, `true`, `false` or `null`.
    fn scalar(&mut self, bytes: &[u8], span: Range<usize>, part: Part, depth: usize);
    /// The number or literal ended before `at`.
    fn scalar_end(&mut self, _depth: usize) {}
    /// White space between tokens.
    fn space(&mut self, _bytes: &[u8], _span: Range<usize>, _depth: usize) {}
    /// Whether [`Sink::line`] is worth asking.
    const LINES: bool = false;
    /// Takes a whole line behind the newline at `at`, below the members of the document itself. If it does not, it is
    /// told of every token instead.
    fn line(&mut self, _bytes: &[u8], _at: usize, _line: &Line) -> bool {
        false
    }
    /// The push is over.
    fn end(&mut self, _bytes: &[u8]) {}
}

#[derive(Clone, Copy, Debug)]
enum State {
    Start,
    Value,
    ItemOrClose,
    KeyOrClose,
    Key,
    Colon,
    CommaOrClose,
    End,
    Text(Role),
    Wide(Role, Wide),
    Escape(Role),
    Hex(Role, u8),
    Number(Number),
    Literal(&'static [u8]),
}

/// Validates one document. After an error it is spent.
#[derive(Debug)]
pub(super) struct Scanner {
    state: State,
    stack: Vec<Container>,
    deepest: usize,
    offset: u64,
}

impl Scanner {
    pub(super) fn new(deepest: usize) -> Scanner {
        Scanner { state: State::Start, stack: Vec::new(), deepest, offset: 0 }
    }

    /// How many bytes were pushed.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn push<S: Sink>(&mut self, bytes: &[u8], sink: &mut S) -> Result<(), BadState> {
        sink.begin(self.offset);
        let mut at = 0;
        while at < bytes.len() {
            at = match self.state {
                State::Text(role) => self.text(bytes, at, role, sink)?,
                State::Number(number) => self.number(bytes, at, number, Part::More, sink)?,
                State::Literal(rest) => self.literal(bytes, at, rest, Part::More, sink)?,
                State::Wide(role, wide) => self.wide(bytes, at, role, wide, sink)?,
                State::Escape(role) => self.escape(bytes, at, role, sink)?,
                State::Hex(role, missing) => self.hex(bytes, at, role, missing, sink)?,
                _ if text::is_space(bytes[at]) => {
                    if let Some(end) = self.line(bytes, at, sink) {
                        end
                    } else {
                        let end = text::space_end(bytes, at);
                        sink.space(bytes, at..end, self.stack.len());
                        end
                    }
                }
                _ => self.structure(bytes, at, sink)?,
            };
        }
        self.offset += bytes.len() as u64;
        sink.end(bytes);
        Ok(())
    }

    /// Whether the document is complete.
    pub(super) fn finish(&self) -> Result<(), BadState> {
        let expected = match self.state {
            State::End => return Ok(()),
            State::Start if self.offset == 0 => return Err(BadState::Empty),
            State::Start => return Err(BadState::NotAnObject { offset: self.offset }),
            State::Value => "a value",
            State::ItemOrClose => "a value or ']'",
            State::KeyOrClose => "a key or '}'",
            State::Key => "a key",
            State::Colon => "':'",
            State::CommaOrClose => self.comma_or_close(),
            State::Text(_) | State::Wide(..) | State::Escape(_) | State::Hex(..) => "the rest of a string",
            State::Number(_) | State::Literal(_) => "the rest of a value",
        };
        Err(BadState::Truncated { offset: self.offset, expected })
    }

    /// The fast way: a line that is as Terraform writes it, if one begins here and the sink takes it.
    #[inline]
    fn line<S: Sink>(&mut self, bytes: &[u8], at: usize, sink: &mut S) -> Option<usize> {
        if !S::LINES || bytes[at] != b'\n' || self.stack.len() < 2 {
            return None;
        }
        let inside = *self.stack.last()?;
        let before = match self.state {
            State::Key | State::KeyOrClose | State::ItemOrClose => Before::Separator,
            // In an object this is what follows a colon.
            State::Value if inside == Container::Array => Before::Separator,
            State::CommaOrClose => Before::Value,
            _ => return None,
        };
        let line = Line::read(bytes, at, self.stack.len(), inside, before)?;
        let too_deep = matches!(line.turn, Turn::Open(_)) && self.stack.len() >= self.deepest;
        if too_deep || !sink.line(bytes, at, &line) {
            return None;
        }
        match line.turn {
            Turn::None => {}
            Turn::Close => drop(self.stack.pop()),
            Turn::Open(container) => self.stack.push(container),
        }
        self.state = match (line.last, self.stack.last()) {
            (Last::Opened, Some(Container::Object)) => State::KeyOrClose,
            (Last::Opened, _) => State::ItemOrClose,
            (Last::Comma, Some(Container::Object)) => State::Key,
            (Last::Comma, _) => State::Value,
            (Last::Token, _) => State::CommaOrClose,
        };
        Some(line.end)
    }

    fn position(&self, at: usize) -> u64 {
        self.offset + at as u64
    }

    fn comma_or_close(&self) -> &'static str {
        match self.stack.last() {
            Some(Container::Array) => "',' or ']'",
            _ => "',' or '}'",
        }
    }

    fn structure<S: Sink>(&mut self, bytes: &[u8], at: usize, sink: &mut S) -> Result<usize, BadState> {
        let byte = bytes[at];
        let expected = match self.state {
            State::Start if byte == b'{' => return self.open(bytes, at, Container::Object, sink),
            State::Start => return Err(BadState::NotAnObject { offset: self.position(at) }),
            State::End => return Err(BadState::TrailingBytes { offset: self.position(at) }),
            State::CommaOrClose => match (byte, self.stack.last()) {
                (b',', top) => {
                    self.state = if top == Some(&Container::Object) { State::Key } else { State::Value };
                    sink.mark(bytes, at, Mark::Comma, self.stack.len());
                    return Ok(at + 1);
                }
                (b'}', Some(Container::Object)) | (b']', Some(Container::Array)) => {
                    return Ok(self.close(bytes, at, sink));
                }
                _ => self.comma_or_close(),
            },
            State::Colon if byte == b':' => {
                self.state = State::Value;
                sink.mark(bytes, at, Mark::Colon, self.stack.len());
                return Ok(at + 1);
            }
            State::Colon => "':'",
            State::KeyOrClose if byte == b'}' => return Ok(self.close(bytes, at, sink)),
            State::Key | State::KeyOrClose if byte == b'"' => return self.quote(bytes, at, Role::Key, sink),
            State::Key => "a key",
            State::KeyOrClose => "a key or '}'",
            State::ItemOrClose if byte == b']' => return Ok(self.close(bytes, at, sink)),
            _ => match byte {
                b'"' => return self.quote(bytes, at, Role::Value, sink),
                b'{' => return self.open(bytes, at, Container::Object, sink),
                b'[' => return self.open(bytes, at, Container::Array, sink),
                b't' => return self.literal(bytes, at, b"true", Part::First, sink),
                b'f' => return self.literal(bytes, at, b"false", Part::First, sink),
                b'n' => return self.literal(bytes, at, b"null", Part::First, sink),
                b'-' | b'0'..=b'9' => return self.number(bytes, at, Number::Start, Part::First, sink),
                _ => "a value",
            },
        };
        Err(BadState::Unexpected { offset: self.position(at), expected })
    }

    fn open<S: Sink>(
        &mut self,
        bytes: &[u8],
        at: usize,
        container: Container,
        sink: &mut S,
    ) -> Result<usize, BadState> {
        if self.stack.len() >= self.deepest {
            return Err(BadState::TooDeep { offset: self.position(at), limit: self.deepest });
        }
        self.stack.push(container);
        self.state = match container {
            Container::Object => State::KeyOrClose,
            Container::Array => State::ItemOrClose,
        };
        sink.mark(bytes, at, Mark::Open(container), self.stack.len());
        Ok(at + 1)
    }

    fn close<S: Sink>(&mut self, bytes: &[u8], at: usize, sink: &mut S) -> usize {
        sink.mark(bytes, at, Mark::Close, self.stack.len());
        self.stack.pop();
        self.state = self.after_value();
        at + 1
    }

    fn after_value(&self) -> State {
        if self.stack.is_empty() { State::End } else { State::CommaOrClose }
    }

    fn quote<S: Sink>(&mut self, bytes: &[u8], at: usize, role: Role, sink: &mut S) -> Result<usize, BadState> {
        sink.opening_quote(bytes, at, role, self.stack.len());
        self.text(bytes, at + 1, role, sink)
    }

    /// Goes on with a string: everything up to its end, or to the end of the push.
    fn text<S: Sink>(&mut self, bytes: &[u8], from: usize, role: Role, sink: &mut S) -> Result<usize, BadState> {
        let mut at = from;
        self.state = loop {
            at = text::plain_end(bytes, at);
            let Some(&byte) = bytes.get(at) else { break State::Text(role) };
            if byte == b'"' {
                if from < at {
                    sink.text(bytes, from..at, role, self.stack.len());
                }
                sink.closing_quote(bytes, at, role, self.stack.len());
                self.state = if role == Role::Key { State::Colon } else { self.after_value() };
                return Ok(at + 1);
            }
            at += 1;
            if byte == b'\\' {
                let Some(&escaped) = bytes.get(at) else { break State::Escape(role) };
                at += 1;
                if escaped == b'u' {
                    let missing = self.hex_digits(bytes, &mut at, 4)?;
                    if missing > 0 {
                        break State::Hex(role, missing);
                    }
                } else if !text::is_escape(escaped) {
                    return Err(BadState::BadEscape { offset: self.position(at - 1) });
                }
            } else if byte < 0x20 {
                return Err(BadState::ControlCharacter { offset: self.position(at - 1) });
            } else {
                let wide = Wide::begin(byte).ok_or(BadState::NotUtf8 { offset: self.position(at - 1) })?;
                let wide = self.wide_bytes(bytes, &mut at, wide)?;
                if wide != Wide::COMPLETE {
                    break State::Wide(role, wide);
                }
            }
        };
        sink.text(bytes, from..at, role, self.stack.len());
        Ok(at)
    }

    /// The rest of a character that was cut by the end of a push.
    fn wide<S: Sink>(
        &mut self,
        bytes: &[u8],
        from: usize,
        role: Role,
        wide: Wide,
        sink: &mut S,
    ) -> Result<usize, BadState> {
        let mut at = from;
        let wide = self.wide_bytes(bytes, &mut at, wide)?;
        self.state = if wide == Wide::COMPLETE { State::Text(role) } else { State::Wide(role, wide) };
        sink.text(bytes, from..at, role, self.stack.len());
        Ok(at)
    }

    /// What an escape that was cut by the end of a push is about.
    fn escape<S: Sink>(&mut self, bytes: &[u8], at: usize, role: Role, sink: &mut S) -> Result<usize, BadState> {
        self.state = match bytes[at] {
            b'u' => State::Hex(role, 4),
            byte if text::is_escape(byte) => State::Text(role),
            _ => return Err(BadState::BadEscape { offset: self.position(at) }),
        };
        sink.escape(bytes, at..at + 1, role, self.stack.len());
        Ok(at + 1)
    }

    /// The digits of an escape that was cut by the end of a push.
    fn hex<S: Sink>(
        &mut self,
        bytes: &[u8],
        from: usize,
        role: Role,
        missing: u8,
        sink: &mut S,
    ) -> Result<usize, BadState> {
        let mut at = from;
        let missing = self.hex_digits(bytes, &mut at, missing)?;
        self.state = if missing == 0 { State::Text(role) } else { State::Hex(role, missing) };
        sink.escape(bytes, from..at, role, self.stack.len());
        Ok(at)
    }

    /// Takes up to `missing` digits from `at` on; gives how many are still missing because the push ended.
    fn hex_digits(&self, bytes: &[u8], at: &mut usize, missing: u8) -> Result<u8, BadState> {
        let mut missing = missing;
        while missing > 0 {
            match bytes.get(*at) {
                Some(byte) if byte.is_ascii_hexdigit() => *at += 1,
                Some(_) => return Err(BadState::BadEscape { offset: self.position(*at) }),
                None => break,
            }
            missing -= 1;
        }
        Ok(missing)
    }

    /// Takes what follows the first byte of a character from `at` on; complete unless the push ended.
    fn wide_bytes(&self, bytes: &[u8], at: &mut usize, wide: Wide) -> Result<Wide, BadState> {
        let mut wide = wide;
        while wide != Wide::COMPLETE {
            let Some(&byte) = bytes.get(*at) else { break };
            wide = wide.next(byte).ok_or(BadState::NotUtf8 { offset: self.position(*at) })?;
            *at += 1;
        }
        Ok(wide)
    }

    fn number<S: Sink>(
        &mut self,
        bytes: &[u8],
        from: usize,
        number: Number,
        part: Part,
        sink: &mut S,
    ) -> Result<usize, BadState> {
        let (mut at, mut number) = (from, number);
        while let Some(&byte) = bytes.get(at) {
            match number.next(byte) {
                Ok(Some(next)) => number = next,
                Ok(None) => {
                    if from < at {
                        sink.scalar(bytes, from..at, part, self.stack.len());
                    }
                    sink.scalar_end(self.stack.len());
                    self.state = self.after_value();
                    return Ok(at);
                }
                Err(expected) => return Err(BadState::BadNumber { offset: self.position(at), expected }),
            }
            at += 1;
        }
        self.state = State::Number(number);
        sink.scalar(bytes, from..at, part, self.stack.len());
        Ok(at)
    }

    fn literal<S: Sink>(
        &mut self,
        bytes: &[u8],
        at: usize,
        rest: &'static [u8],
        part: Part,
        sink: &mut S,
    ) -> Result<usize, BadState> {
        let length = rest.len().min(bytes.len() - at);
        let found = &bytes[at..at + length];
        if let Some(wrong) = found.iter().zip(rest).position(|(found, expected)| found != expected) {
            return Err(BadState::Unexpected { offset: self.position(at + wrong), expected: "true, false or null" });
        }
        sink.scalar(bytes, at..at + length, part, self.stack.len());
        if length == rest.len() {
            sink.scalar_end(self.stack.len());
            self.state = self.after_value();
        } else {
            self.state = State::Literal(&rest[length..]);
        }
        Ok(at + length)
    }
}
