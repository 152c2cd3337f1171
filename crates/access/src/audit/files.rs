//! The files of a log and their names: `audit.log`, and `audit-<first>-<last>.log` for each that was rotated away.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::line::MAX_LINE;

pub(super) const CURRENT: &str = "audit.log";
/// The file that becomes `audit.log` by the rotation under way.
pub(super) const NEXT: &str = "audit.log.next";
pub(super) const INSTANCE: &str = "audit.instance";

/// A file that was rotated away, as its name tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rotated {
    pub(super) path: PathBuf,
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Rotated {
    pub(super) fn at(directory: &Path, first: u64, last: u64) -> Rotated {
        Rotated { path: directory.join(format!("audit-{first:012}-{last:012}.log")), first, last }
    }

    fn parse(path: PathBuf) -> Option<Rotated> {
        let range = path.file_name()?.to_str()?.strip_prefix("audit-")?.strip_suffix(".log")?;
        let (first, last) = range.split_once('-')?;
        Some(Rotated { first: first.parse().ok()?, last: last.parse().ok()?, path })
    }
}

/// The rotated files of a log, oldest first.
pub(super) fn rotated(directory: &Path) -> io::Result<Vec<Rotated>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        files.extend(Rotated::parse(entry?.path()));
    }
    files.sort_by_key(|file| (file.first, file.last));
    Ok(files)
}

/// The name of a file without its directory, for people.
pub(super) fn display_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The last line of a file without its newline, however the file ends.
pub(super) fn last_line(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(MAX_LINE as u64 + 1);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let end = end.strip_suffix(b"\n").unwrap_or(&end);
    Ok(end.rsplit(|byte| *byte == b'\n').next().unwrap_or_default().to_vec())
}

/// Reads lines of bounded length. Where the file ended once is its end, also if somebody is adding to it: what is read later
/// could be the other half of a line that is given already.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    buffer: Vec<u8>,
    ended: bool,
}

/// What stands between two newlines.
pub(super) enum Piece<'a> {
    /// A line without its newline.
    Whole(&'a [u8]),
    /// More bytes than a line may have; how many, and whether there is a zero byte among them.
    TooLong { bytes: u64, zeros: bool },
    /// The end of the file without a newline.
    Partial(&'a [u8]),
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R) -> Lines<R> {
        Lines { reader: BufReader::with_capacity(64 * 1024, reader), buffer: Vec::new(), ended: false }
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        if self.ended {
            return Ok(None);
        }
        self.buffer.clear();
        Read::by_ref(&mut self.reader).take(MAX_LINE as u64).read_until(b'\n', &mut self.buffer)?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        if self.buffer.ends_with(b"\n") {
            return Ok(Some(Piece::Whole(&self.buffer[..self.buffer.len() - 1])));
        }
        if self.buffer.len() < MAX_LINE {
            self.ended = true;
            return Ok(Some(Piece::Partial(&self.buffer)));
        }
        let (mut bytes, mut zeros) = (0, false);
        loop {
            bytes += self.buffer.len() as u64;
            zeros |= self.buffer.contains(&0);
            if self.buffer.is_empty() || self.buffer.ends_with(b"\n") {
                self.ended = self.buffer.is_empty();
                return Ok(Some(Piece::TooLong { bytes, zeros }));
            }
            self.buffer.clear();
            Read::by_ref(&mut self.reader).take(MAX_LINE as u64).read_until(b'\n', &mut self.buffer)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_behind_half_a_line_is_not_read_as_a_line() {
        // A file whose writer goes on between two reads.
        struct Growing(Vec<&'static [u8]>);
        impl Read for Growing {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let Some(next) = self.0.pop() else { return Ok(0) };
                buffer[..next.len()].copy_from_slice(next);
                Ok(next.len())
            }
        }
        let mut lines = Lines::new(Growing(vec![&b"lf\nmore\n"[..], b"", b"one\nha"]));
        assert!(matches!(lines.next().unwrap(), Some(Piece::Whole(b"one"))));
        assert!(matches!(lines.next().unwrap(), Some(Piece::Partial(b"ha"))));
        assert!(lines.next().unwrap().is_none());
    }
}
