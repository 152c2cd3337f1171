//! Checks a log on disk, from its first line to its last, also while a writer is adding to it.
//!
//! The doors are [`verify`] for a whole log and [`scan`] for the part that a start of the writer needs. Memory is
//! bounded by one line and a thousand findings of each sort. Nothing is ever changed.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::chain::{Chain, Start};
use super::files::{self, CURRENT, Lines, Piece};
use super::key::Key;
use super::line::{Head, Line};
use super::report::{Fault, Finding, Place, Report, Witness};

/// Checks the log in `directory`. A database that should remember this log and does not is [`Head::NONE`]. Read the heads **before** calling: a head that is read later may name a line that
/// is written after the end was seen.
pub fn verify(directory: &Path, key: &Key, heads: &[(Witness, Head)]) -> io::Result<Report> {
    for _ in 0..REPEATS {
        match verify_once(directory, key, heads) {
            // A file expired between listing and reading; its checkpoint is now in the log.
            Err(error) if error.kind() == io::ErrorKind::NotFound && directory.exists() => {}
            result => return result,
        }
    }
    Err(io::Error::other("the files of the log keep changing"))
}

const REPEATS: usize = 10;

fn verify_once(directory: &Path, key: &Key, heads: &[(Witness, Head)]) -> io::Result<Report> {
    // The current file comes first: if it is rotated away while we list, it is in both, and known by its inode.
    let current = match File::open(directory.join(CURRENT)) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let inode = current.as_ref().map(|file| file.metadata().map(|metadata| metadata.ino())).transpose()?;
    let mut chain = Chain::new(key, Start::Unknown, heads);
    let mut end = Place { file: CURRENT.to_owned(), line: 0 };
    for rotated in files::rotated(directory)? {
        let file = File::open(&rotated.path)?;
        if Some(file.metadata()?.ino()) == inode {
            break;
        }
        end.file = files::display_name(&rotated.path);
        feed(&mut chain, &end.file, file, Ending::Whole, heads)?;
    }
    if let Some(file) = current {
        CURRENT.clone_into(&mut end.file);
        feed(&mut chain, CURRENT, file, Ending::MayBeTorn, heads)?;
    }
    let newest = heads.iter().map(|(_, head)| head.n).max();
    let mut report = chain.finish(&end);
    if let (Some(newest), Some(last)) = (newest, report.last.filter(|last| newest.is_some_and(|n| last.n > n))) {
        let (from, through) = (newest + 1, last.n);
        report.findings.push(Finding {
            fault: Fault::BeyondHead,
            place: end,
            from,
            through,
            witness: None,
            count: None,
        });
    }
    Ok(report)
}

/// Whether the end of a file may be half written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// A rotated file was complete before it got its name.
    Whole,
    MayBeTorn,
}

/// What a start of the writer wants to know of the current file.
pub(super) struct Scan {
    pub(super) report: Report,
    /// Where the good lines end; what is after it was torn by a crash.
    pub(super) good: u64,
    pub(super) length: u64,
}

/// Checks one file that follows `start`, the end of the file before it.
pub(super) fn scan(file: File, key: &Key, start: Start, head: Head) -> io::Result<Scan> {
    let length = file.metadata()?.len();
    let heads = [(Witness::Database, head)];
    let mut chain = Chain::new(key, start, &heads);
    let good = feed(&mut chain, CURRENT, file, Ending::MayBeTorn, &heads)?;
    let report = chain.finish(&Place { file: CURRENT.to_owned(), line: 0 });
    Ok(Scan { report, good, length })
}

/// Bytes that may be what a crash left, until a good line after them proves otherwise.
struct Suspect {
    place: Place,
    bytes: u64,
    /// Unreadable pieces so far.
    pieces: u64,
    zeros: bool,
}

/// Feeds one file and gives the offset up to which its lines are whole.
fn feed(chain: &mut Chain<'_>, name: &str, file: File, ending: Ending, heads: &[(Witness, Head)]) -> io::Result<u64> {
    let newest = heads.iter().map(|(_, head)| head.n).max();
    let mut lines = Lines::new(file);
    let (mut number, mut good) = (0, 0);
    let mut suspect: Option<Suspect> = None;
    chain.file();
    while let Some(piece) = lines.next()? {
        number += 1;
        let place = Place { file: name.to_owned(), line: number };
        let (size, zeros, half, text) = match piece {
            Piece::Whole(text) => (text.len() as u64 + 1, text.contains(&0), false, Some(text)),
            Piece::Partial(text) => (text.len() as u64, text.contains(&0), true, None),
            Piece::TooLong { bytes, zeros } => (bytes, zeros, false, None),
        };
        // A crash leaves the first part of what was written, or zeros: what has its end and is no line was put there.
        let may_be_torn = ending == Ending::MayBeTorn && (half || zeros);
        let parsed = text.and_then(|text| Some((text, Line::parse(text)?)));
        if let Some(suspect) = &mut suspect {
            // After a power cut, pages that were not synced may be zeros while later ones are there. With a head that
            // does not know these lines nothing is lost by calling that torn: they could as well have been cut off.
            let hole = suspect.zeros && newest.is_some();
            if parsed.is_none() || hole {
                suspect.bytes += size;
                suspect.pieces += 1;
                suspect.zeros |= zeros;
                continue;
            }
        }
        if let Some(broken) = suspect.take() {
            for offset in 0..broken.pieces {
                let line = broken.place.line + offset;
                chain.unreadable(Place { file: name.to_owned(), line });
            }
            good += broken.bytes;
        }
        match parsed {
            Some((text, line)) => chain.line(place, &line, text),
            None if may_be_torn && newest.is_none_or(|n| chain.expected() > n) => {
                suspect = Some(Suspect { place, bytes: size, pieces: 1, zeros });
                continue;
            }
            None => chain.unreadable(place),
        }
        good += size;
    }
    if let Some(torn) = suspect {
        let n = chain.expected();
        chain.note(Finding {
            fault: Fault::Torn,
            place: torn.place,
            from: n,
            through: n,
            witness: None,
            count: Some(torn.bytes),
        });
    }
    Ok(good)
}
