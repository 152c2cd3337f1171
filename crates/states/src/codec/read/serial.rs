//! A state with another serial: only those digits change, because Terraform compares the rest byte for byte.

use std::io::{self, Write};
use std::ops::Range;

use super::super::fault::BadState;
use super::super::header::Header;
use super::super::scan::{Mark, Part, Role, Scanner, Sink};
use super::{Source, Unreadable};

/// Copies a state to `out` with `serial` in the place of its own. On an error `out` holds part of it.
pub fn with_serial(source: &mut Source<'_>, serial: u64, out: &mut dyn Write) -> Result<(), Unreadable> {
    let copy = Copy { header: Header::new(), serial, out, copied: 0, replaced: false, failure: None };
    let mut copier = Copier { scanner: Scanner::new(1 << 16), copy, fault: None };
    let written = source(&mut copier);
    if let Some(failure) = copier.copy.failure {
        return Err(Unreadable::Output(failure));
    }
    if let Some(fault) = copier.fault {
        return Err(Unreadable::NotAState(fault));
    }
    written.map_err(Unreadable::Source)?;
    copier.scanner.finish().map_err(Unreadable::NotAState)?;
    if copier.copy.header.encrypted() {
        return Err(Unreadable::Encrypted);
    }
    if copier.copy.header.serial.is_some() { Ok(()) } else { Err(Unreadable::NoSerial) }
}

struct Copier<'o> {
    scanner: Scanner,
    copy: Copy<'o>,
    fault: Option<BadState>,
}

impl Write for Copier<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let scanned = self.scanner.push(bytes, &mut self.copy);
        match scanned.and(self.copy.header.check()) {
            Err(fault) => {
                self.fault = Some(fault);
                Err(io::ErrorKind::InvalidData.into())
            }
            Ok(()) if self.copy.failure.is_some() => Err(io::ErrorKind::BrokenPipe.into()),
            Ok(()) => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Copy<'o> {
    header: Header,
    serial: u64,
    out: &'o mut dyn Write,
    /// How much of the current push is copied or replaced.
    copied: usize,
    replaced: bool,
    failure: Option<io::Error>,
}

impl Copy<'_> {
    fn write(&mut self, bytes: &[u8]) {
        if self.failure.is_none()
            && let Err(error) = self.out.write_all(bytes)
        {
            self.failure = Some(error);
        }
    }
}

impl Sink for Copy<'_> {
    fn begin(&mut self, offset: u64) {
        self.header.begin(offset);
        self.copied = 0;
    }

    fn mark(&mut self, bytes: &[u8], at: usize, mark: Mark, depth: usize) {
        self.header.mark(bytes, at, mark, depth);
    }

    fn opening_quote(&mut self, bytes: &[u8], at: usize, role: Role, depth: usize) {
        self.header.opening_quote(bytes, at, role, depth);
    }

    fn text(&mut self, bytes: &[u8], span: Range<usize>, role: Role, depth: usize) {
        self.header.text(bytes, span, role, depth);
    }

    fn closing_quote(&mut self, bytes: &[u8], at: usize, role: Role, depth: usize) {
        self.header.closing_quote(bytes, at, role, depth);
    }

    fn scalar(&mut self, bytes: &[u8], span: Range<usize>, part: Part, depth: usize) {
        self.header.scalar(bytes, span.clone(), part, depth);
        if depth == 1 && self.header.at_serial() {
            self.write(&bytes[self.copied..span.start]);
            self.copied = span.end;
            if !std::mem::replace(&mut self.replaced, true) {
                self.write(self.serial.to_string().as_bytes());
            }
        }
    }

    fn scalar_end(&mut self, depth: usize) {
        self.header.scalar_end(depth);
    }

    fn end(&mut self, bytes: &[u8]) {
        self.write(&bytes[self.copied..]);
    }
}
