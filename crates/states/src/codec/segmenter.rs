//! Cuts a document into segments as it is scanned and keeps the current one minified for as long as its white space
//! is canonical.
//!
//! The door is the [`Sink`]; closed segments go to a [`Packer`]. Lengths count original bytes. A segment ends at the
//! first byte inside a string where the rolling hash says so once the shortest length is reached, or at the first
//! possible byte once the longest is. Nothing depends on how the upload was split into pushes. On the first odd white
//! space the minified text is laid out again, which gives the original bytes back, and the rest of the segment
//! follows as sent: only one copy of a segment is ever held.

use std::ops::Range;

use super::gear::Gear;
use super::layout::{Gap, Next, Place, Resume, lay_out};
use super::line::{Last, Line};
use super::pack::Packer;
use super::scan::{Mark, Part, Role, Sink};
use super::segment::Shape;

#[derive(Debug)]
pub(super) struct Segmenter {
    packer: Packer,
    gear: Gear,
    lengths: Range<usize>,
    /// The segment so far: minified or as sent.
    text: Vec<u8>,
    shape: Shape,
    place: Place,
    /// White space since the last token, while minified.
    gap: Gap,
    /// Where the segment began, as an offset into the document.
    began: u64,
    /// The offset of the current push.
    offset: u64,
    /// Places in the current push: what is not yet in `text`, what is not yet hashed, where hashing for a cut starts
    /// and where a cut is due.
    copied: usize,
    hashed: usize,
    hot: usize,
    due: usize,
}

impl Segmenter {
    pub(super) fn new(packer: Packer, lengths: Range<usize>) -> Segmenter {
        Segmenter {
            packer,
            gear: Gear::new(&lengths),
            lengths,
            text: Vec::new(),
            shape: Shape::Minified(Resume { place: Place::Start, depth: 0 }),
            place: Place::Start,
            gap: Gap::NONE,
            began: 0,
            offset: 0,
            copied: 0,
            hashed: 0,
            hot: 0,
            due: 0,
        }
    }

    pub(super) fn packer(&mut self) -> &mut Packer {
        &mut self.packer
    }

    /// Closes the last segment; the document is complete and `length` bytes long.
    pub(super) fn finish(mut self, length: u64) -> Packer {
        if let Shape::Minified(_) = self.shape
            && self.gap != Gap::LAST
        {
            self.keep_as_sent();
        }
        if length > self.began {
            self.packer.close(&self.text, self.shape, length - self.began);
        }
        self.packer
    }

    fn aim(&mut self) {
        let place = |length: usize| usize::try_from((self.began + length as u64).saturating_sub(self.offset));
        self.hot = place(self.lengths.start).unwrap_or(usize::MAX);
        self.due = place(self.lengths.end.saturating_sub(1)).unwrap_or(usize::MAX);
    }

    fn copy(&mut self, bytes: &[u8], to: usize) {
        self.text.extend_from_slice(&bytes[self.copied..to]);
        self.copied = to;
    }

    fn cut(&mut self, bytes: &[u8], at: usize, depth: usize) {
        self.copy(bytes, at);
        self.packer.hash(&bytes[self.hashed..at]);
        self.hashed = at;
        let end = self.offset + at as u64;
        self.packer.close(&self.text, self.shape, end - self.began);
        self.text.clear();
        self.began = end;
        self.gap = Gap::NONE;
        self.gear.reset();
        self.shape = match (self.place, u32::try_from(depth)) {
            // Laying out ends the document with a newline; what follows it must not do so again.
            (Place::End, _) | (_, Err(_)) => Shape::AsSent,
            (place, Ok(depth)) => Shape::Minified(Resume { place, depth }),
        };
        self.aim();
    }

    /// The white space is not canonical: goes on as sent. The text up to here is, so laying it out gives it back.
    fn keep_as_sent(&mut self) {
        if let Shape::Minified(from) = self.shape {
            let mut original = Vec::with_capacity(self.text.len() * 2);
            lay_out(&self.text, from, &mut original, usize::MAX);
            self.gap.write(&mut original);
            self.text = original;
            self.gap = Gap::NONE;
            self.shape = Shape::AsSent;
        }
    }

    /// A token begins at `at`, with `depth` containers open before it.
    #[inline]
    fn token(&mut self, bytes: &[u8], at: usize, next: Next, depth: usize) {
        if let Shape::Minified(_) = self.shape {
            if Gap::between(self.place, next, depth) == self.gap {
                self.gap = Gap::NONE;
            } else {
                self.copy(bytes, at);
                self.keep_as_sent();
            }
        }
    }

    /// Cuts inside `span`, which is part of a string, wherever the hash or the length says so; `due_from` gives the
    /// first possible byte once the length does.
    #[cold]
    fn seek(&mut self, bytes: &[u8], span: Range<usize>, depth: usize, due_from: DueFrom) {
        let mut from = span.start;
        loop {
            let (hot, due) = (self.hot.max(from), self.due.max(from));
            let by_content = bytes.get(hot..due.min(span.end)).and_then(|bytes| self.gear.find(bytes));
            let cut = match by_content {
                Some(length) => hot + length,
                None if due >= span.end => return,
                None => match due_from(bytes, from..span.end, due) {
                    Some(at) => at + 1,
                    None => return,
                },
            };
            self.cut(bytes, cut, depth);
            from = cut;
        }
    }

    /// Whether the rolling hash finds no cut in a line; if it does, nothing happened.
    fn passes(&mut self, bytes: &[u8], line: &Line) -> bool {
        let before = self.gear.clone();
        for text in &line.texts {
            let hot = self.hot.max(text.start);
            if hot < text.end && self.gear.find(&bytes[hot..text.end]).is_some() {
                self.gear = before;
                return false;
            }
        }
        true
    }

    /// Cuts inside `span` at each byte where the length says so.
    fn cut_when_due(&mut self, bytes: &[u8], span: &Range<usize>, depth: usize) {
        while self.due < span.end {
            self.cut(bytes, self.due.max(span.start) + 1, depth);
        }
    }
}

type DueFrom = fn(&[u8], Range<usize>, usize) -> Option<usize>;

/// The first place from `due` on that is not a backslash that waits for what it escapes.
fn unescaped_from(bytes: &[u8], span: Range<usize>, due: usize) -> Option<usize> {
    let mut at = span.start;
    while at < span.end {
        at += usize::from(bytes[at] == b'\\');
        if at >= due {
            break;
        }
        at += 1;
    }
    Some(at).filter(|at| *at < span.end)
}

impl Sink for Segmenter {
    fn begin(&mut self, offset: u64) {
        self.offset = offset;
        self.copied = 0;
        self.hashed = 0;
        self.aim();
    }

    #[inline]
    fn mark(&mut self, bytes: &[u8], at: usize, mark: Mark, depth: usize) {
        let (next, before, place, after) = match mark {
            Mark::Open(_) => (Next::Value, depth - 1, Place::Opened, depth),
            Mark::Close if depth == 1 => (Next::Close, depth, Place::End, 0),
            Mark::Close => (Next::Close, depth, Place::Token, depth - 1),
            Mark::Comma => (Next::Separator, depth, Place::Comma, depth),
            Mark::Colon => (Next::Separator, depth, Place::Colon, depth),
        };
        self.token(bytes, at, next, before);
        self.place = place;
        if at >= self.due && (place != Place::End || self.shape == Shape::AsSent) {
            self.cut(bytes, at + 1, after);
        }
    }

    #[inline]
    fn opening_quote(&mut self, bytes: &[u8], at: usize, _role: Role, depth: usize) {
        self.token(bytes, at, Next::Value, depth);
        self.place = Place::Text;
        if at >= self.due {
            self.cut(bytes, at + 1, depth);
        }
    }

    #[inline]
    fn text(&mut self, bytes: &[u8], span: Range<usize>, _role: Role, depth: usize) {
        if span.end > self.hot {
            self.seek(bytes, span, depth, unescaped_from);
        }
    }

    fn escape(&mut self, bytes: &[u8], span: Range<usize>, _role: Role, depth: usize) {
        // A backslash here is what was escaped and waits for nothing.
        self.seek(bytes, span, depth, |_, _, due| Some(due));
    }

    #[inline]
    fn closing_quote(&mut self, bytes: &[u8], at: usize, _role: Role, depth: usize) {
        self.place = Place::Token;
        if at >= self.due {
            self.cut(bytes, at + 1, depth);
        }
    }

    #[inline]
    fn scalar(&mut self, bytes: &[u8], span: Range<usize>, part: Part, depth: usize) {
        if part == Part::First {
            self.token(bytes, span.start, Next::Value, depth);
        }
        self.place = Place::Token;
        self.cut_when_due(bytes, &span, depth);
    }

    #[inline]
    fn space(&mut self, bytes: &[u8], span: Range<usize>, depth: usize) {
        let mut from = span.start;
        loop {
            if let Shape::Minified(_) = self.shape {
                self.copy(bytes, from);
                from += self.gap.take(&bytes[from..span.end], depth);
                self.copied = from;
                if from == span.end {
                    return;
                }
                self.keep_as_sent();
            }
            if self.due >= span.end {
                return;
            }
            from = self.due.max(from) + 1;
            self.cut(bytes, from, depth);
        }
    }

    const LINES: bool = true;

    #[inline]
    fn line(&mut self, bytes: &[u8], at: usize, line: &Line) -> bool {
        let plain = matches!(self.shape, Shape::Minified(_)) && self.gap == Gap::NONE && line.end <= self.due;
        if !plain || (line.end > self.hot && !self.passes(bytes, line)) {
            return false;
        }
        self.copy(bytes, at);
        self.text.extend_from_slice(&bytes[line.start..line.gap.start]);
        self.text.extend_from_slice(&bytes[line.gap.end..line.end]);
        self.copied = line.end;
        self.place = match line.last {
            Last::Opened => Place::Opened,
            Last::Comma => Place::Comma,
            Last::Token => Place::Token,
        };
        true
    }

    fn end(&mut self, bytes: &[u8]) {
        self.copy(bytes, bytes.len());
        self.packer.hash(&bytes[self.hashed..]);
    }
}
