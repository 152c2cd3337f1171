//! Takes one upload: validates, hashes, minifies, cuts and compresses it as its bytes arrive.
//!
//! The door is [`Receiver`]; [`Shaper`] is the same without the hashes of the whole, for those who compute them
//! elsewhere at the same time. Memory is bounded by [`Limits`]: one segment, its compressed form and what the spool may
//! hold. Nothing is stored anywhere but in the spool, which goes with its owner.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::digests::{Digested, Digests};
use super::fault::BadState;
use super::header::Header;
use super::line::Line;
use super::pack::Packer;
use super::scan::{Mark, Part, Role, Scanner, Sink};
use super::segment::Segment;
use super::segmenter::Segmenter;
use super::spool::{Spool, SpoolPlace};

/// What an upload may cost.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest body.
    pub body_bytes: u64,
    /// The most nested objects and arrays.
    pub depth: usize,
    /// How many compressed bytes wait in memory before a file is used.
    pub memory: usize,
    /// The shortest and the longest segment, in original bytes. The longest is exceeded by one token and its
    /// indentation at most.
    pub segment: Range<usize>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { body_bytes: 1 << 30, depth: 512, memory: 8 << 20, segment: 1 << 20..4 << 20 }
    }
}

/// What an upload turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub size: u64,
    pub sha256: [u8; 32],
    pub md5: [u8; 16],
    /// The digits as written; `None` if there is no serial or it is not a whole number.
    pub serial: Option<String>,
    pub lineage: Option<String>,
    pub terraform_version: Option<String>,
    /// OpenTofu encrypted it on the client: only its serial and lineage can be read.
    pub encrypted: bool,
}

/// Hashing and scanning take turns on pieces of this size, so that both find them in the cache.
const PIECE: usize = 64 << 10;

/// A push parser for one upload. After the first fault it is spent and repeats it.
#[derive(Debug)]
pub struct Receiver {
    shaper: Shaper,
    digests: Digests,
}

/// All of a [`Receiver`] but the hashes of the whole.
#[derive(Debug)]
pub struct Shaper {
    scanner: Scanner,
    intake: Intake,
    body_bytes: u64,
    fault: Option<BadState>,
}

#[derive(Debug)]
struct Intake {
    header: Header,
    segments: Segmenter,
}

impl Receiver {
    pub fn new(limits: Limits, spool: SpoolPlace) -> Receiver {
        Receiver { shaper: Shaper::new(limits, spool), digests: Digests::new() }
    }

    /// For what is put away for a long time: smaller, and slower.
    pub fn thorough(limits: Limits, spool: SpoolPlace) -> Receiver {
        let packer = Packer::thorough(Spool::new(spool, limits.memory));
        Receiver { shaper: Shaper::with(limits, packer), digests: Digests::new() }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<(), BadState> {
        self.shaper.check()?;
        bytes.chunks(PIECE).try_for_each(|piece| {
            self.digests.update(piece);
            self.shaper.push(piece)
        })
    }

    /// The body is complete; `content_md5` is what the sender says of it.
    pub fn finish(self, content_md5: Option<[u8; 16]>) -> Result<Received, BadState> {
        self.shaper.finish(self.digests.finish(), content_md5)
    }
}

impl Shaper {
    pub fn new(limits: Limits, spool: SpoolPlace) -> Shaper {
        let packer = Packer::new(Spool::new(spool, limits.memory));
        Shaper::with(limits, packer)
    }

    fn with(limits: Limits, packer: Packer) -> Shaper {
        Shaper {
            scanner: Scanner::new(limits.depth),
            intake: Intake { header: Header::new(), segments: Segmenter::new(packer, limits.segment) },
            body_bytes: limits.body_bytes,
            fault: None,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<(), BadState> {
        self.check()?;
        let taken = bytes.chunks(PIECE).try_for_each(|piece| self.take(piece));
        self.fault = taken.as_ref().err().cloned();
        taken
    }

    /// The fault that was found, if one was.
    fn check(&self) -> Result<(), BadState> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), BadState> {
        if self.scanner.offset() + piece.len() as u64 > self.body_bytes {
            return Err(BadState::TooLarge { limit: self.body_bytes });
        }
        let scanned = self.scanner.push(piece, &mut self.intake);
        // A fault of the header stands before whatever the scanner stumbled over later in this piece.
        self.intake.header.check()?;
        scanned?;
        Ok(self.intake.segments.packer().check()?)
    }

    /// The body is complete and has these hashes; `content_md5` is what the sender says of it.
    pub fn finish(self, digested: Digested, content_md5: Option<[u8; 16]>) -> Result<Received, BadState> {
        self.check()?;
        self.scanner.finish()?;
        let (size, header) = (self.scanner.offset(), self.intake.header);
        let packed = self.intake.segments.finish(size).finish()?;
        if content_md5.is_some_and(|md5| md5 != digested.md5) {
            return Err(BadState::WrongMd5);
        }
        let encrypted = header.encrypted();
        let facts = Facts {
            size,
            sha256: digested.sha256,
            md5: digested.md5,
            serial: header.serial,
            lineage: header.lineage,
            terraform_version: header.terraform_version,
            encrypted,
        };
        Ok(Received { facts, segments: packed.segments, spool: Arc::new(packed.spool) })
    }
}

/// For what is written instead of uploaded, such as a rollback; the fault is inside of the error.
impl io::Write for Receiver {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A complete and valid upload, waiting in its spool.
#[derive(Debug)]
pub struct Received {
    pub facts: Facts,
    pub segments: Vec<Segment>,
    spool: Arc<Spool>,
}

impl Received {
    /// The stored bytes of one segment, a few megabytes at most.
    pub fn stored(&self, index: usize) -> io::Result<Bytes> {
        self.spool.read(index)
    }

    /// The same as work for a thread, where it means to read a file; `None` where it does not.
    pub fn fetch(&self, index: usize) -> Option<impl FnOnce() -> io::Result<Bytes> + Send + 'static> {
        let spool = self.spool.is_file().then(|| self.spool.clone())?;
        Some(move || spool.read(index))
    }
}

impl Sink for Intake {
    fn begin(&mut self, offset: u64) {
        self.header.begin(offset);
        self.segments.begin(offset);
    }

    #[inline]
    fn mark(&mut self, bytes: &[u8], at: usize, mark: Mark, depth: usize) {
        if depth <= 2 {
            self.header.mark(bytes, at, mark, depth);
        }
        self.segments.mark(bytes, at, mark, depth);
    }

    #[inline]
    fn opening_quote(&mut self, bytes: &[u8], at: usize, role: Role, depth: usize) {
        if depth == 1 {
            self.header.opening_quote(bytes, at, role, depth);
        }
        self.segments.opening_quote(bytes, at, role, depth);
    }

    #[inline]
    fn text(&mut self, bytes: &[u8], span: Range<usize>, role: Role, depth: usize) {
        if depth == 1 {
            self.header.text(bytes, span.clone(), role, depth);
        }
        self.segments.text(bytes, span, role, depth);
    }

    fn escape(&mut self, bytes: &[u8], span: Range<usize>, role: Role, depth: usize) {
        self.header.escape(bytes, span.clone(), role, depth);
        self.segments.escape(bytes, span, role, depth);
    }

    #[inline]
    fn closing_quote(&mut self, bytes: &[u8], at: usize, role: Role, depth: usize) {
        if depth == 1 {
            self.header.closing_quote(bytes, at, role, depth);
        }
        self.segments.closing_quote(bytes, at, role, depth);
    }

    #[inline]
    fn scalar(&mut self, bytes: &[u8], span: Range<usize>, part: Part, depth: usize) {
        if depth == 1 {
            self.header.scalar(bytes, span.clone(), part, depth);
        }
        self.segments.scalar(bytes, span, part, depth);
    }

    #[inline]
    fn scalar_end(&mut self, depth: usize) {
        if depth == 1 {
            self.header.scalar_end(depth);
        }
    }

    #[inline]
    fn space(&mut self, bytes: &[u8], span: Range<usize>, depth: usize) {
        self.segments.space(bytes, span, depth);
    }

    const LINES: bool = true;

    #[inline]
    fn line(&mut self, bytes: &[u8], at: usize, line: &Line) -> bool {
        // The header looks at nothing that stands so deep.
        self.segments.line(bytes, at, line)
    }

    fn end(&mut self, bytes: &[u8]) {
        self.segments.end(bytes);
    }
}
