//! Files that other programs read too: a state plain or minified, as it is or as gzip.
//!
//! The doors are [`pack`] and [`reader`]. A minified file comes back exactly as it was sent where its white space was
//! Terraform's, which is then laid out again. Any other white space is lost with minifying, as in the original: such a
//! file is from then on a plain one, and what is known of the version is corrected.

use std::io::{self, Read, Write};

use aws_lc_rs::digest::{Context, SHA256};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use md5::{Digest as _, Md5};

use crate::codec::{self, Damaged, LaidOut, Segment, Shape};
use crate::head::{Facts, Packing};

/// A state as it is to be stored.
pub(crate) struct File {
    /// How it has to be read.
    pub(crate) packing: Packing,
    pub(crate) bytes: Vec<u8>,
    /// What will come back, if that is not what was sent.
    changed: Option<Measure>,
}

impl File {
    pub(crate) fn correct(&self, facts: &mut Facts) {
        if let Some(Measure { size, sha256, md5 }) = &self.changed {
            facts.sent = Some(facts.sha256);
            facts.size = *size;
            facts.sha256.copy_from_slice(sha256.clone().finish().as_ref());
            facts.md5 = md5.clone().finalize().into();
        }
    }
}

/// Packs the stored bytes of all segments of a state.
pub(crate) fn pack(segments: &[Segment], stored: &[u8], packing: Packing) -> Result<File, Damaged> {
    let mut out = match packing {
        Packing::Plain | Packing::Minified => Out::Plain(Vec::new()),
        Packing::Gzip | Packing::GzipMinified => Out::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::new(6)))),
    };
    let (packing, changed) = match packing {
        Packing::Plain | Packing::Gzip => {
            restore(segments, stored, &mut out)?;
            (packing, None)
        }
        Packing::Minified | Packing::GzipMinified => {
            let mut minify = Minify { out: &mut out, measure: Measure::default(), place: Place::Between };
            restore(segments, stored, &mut minify)?;
            let measure = minify.measure;
            if segments.iter().all(|segment| matches!(segment.shape, Shape::Minified(_))) {
                (packing, None)
            } else {
                let as_it_is = if packing == Packing::Minified { Packing::Plain } else { Packing::Gzip };
                (as_it_is, Some(measure))
            }
        }
    };
    Ok(File { packing, bytes: out.finish().map_err(Damaged::Output)?, changed })
}

/// The state in a file.
pub(crate) fn reader(packing: Packing, file: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    match packing {
        Packing::Plain => Box::new(file),
        Packing::Gzip => Box::new(MultiGzDecoder::new(file)),
        Packing::Minified => Box::new(LaidOut::new(file)),
        Packing::GzipMinified => Box::new(LaidOut::new(MultiGzDecoder::new(file))),
    }
}

/// The bytes of a state, from the stored bytes of all its segments.
pub(crate) fn unpacked(segments: &[Segment], stored: &[u8]) -> Result<Vec<u8>, Damaged> {
    let mut out = Vec::new();
    restore(segments, stored, &mut out)?;
    Ok(out)
}

/// The bytes of a state in a file, which are so many.
pub(crate) fn read(packing: Packing, file: &[u8], size: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    reader(packing, io::Cursor::new(file.to_vec())).take(size + 1).read_to_end(&mut out)?;
    if out.len() as u64 == size { Ok(out) } else { Err(io::Error::other("a file of another size")) }
}

fn restore(segments: &[Segment], stored: &[u8], out: &mut dyn Write) -> Result<(), Damaged> {
    let mut rest = stored;
    for segment in segments {
        let length = usize::try_from(segment.stored).unwrap_or(usize::MAX);
        let missing = Damaged::Length { found: rest.len() as u64, expected: segment.stored };
        let (this, after) = rest.split_at_checked(length).ok_or(missing)?;
        rest = after;
        codec::restore(segment, this, None, out)?;
    }
    Ok(())
}

enum Out {
    Plain(Vec<u8>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

impl Out {
    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Out::Plain(bytes) => Ok(bytes),
            Out::Gzip(encoder) => encoder.finish(),
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::Plain(out) => out.write(bytes),
            Out::Gzip(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Size and hashes of what passes.
#[derive(Clone)]
struct Measure {
    size: u64,
    sha256: Context,
    md5: Md5,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure { size: 0, sha256: Context::new(&SHA256), md5: Md5::new() }
    }
}

/// Leaves out the white space between tokens, as the original does: numbers and strings stay as they are written.
struct Minify<'a> {
    out: &'a mut Out,
    measure: Measure,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Between,
    Text,
    Escape,
}

impl Write for Minify<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            self.place = match (self.place, byte) {
                (Place::Between, b' ' | b'\n' | b'\r' | b'\t') => continue,
                (Place::Between, b'"') | (Place::Escape, _) => Place::Text,
                (Place::Text, b'\\') => Place::Escape,
                (Place::Text, b'"') => Place::Between,
                (place, _) => place,
            };
            kept.push(byte);
        }
        self.measure.size += kept.len() as u64;
        self.measure.sha256.update(&kept);
        self.measure.md5.update(&kept);
        self.out.write_all(&kept)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read as _};

    use super::*;
    use crate::codec::{Limits, Receiver, SpoolPlace};

    const CANONICAL: &str = "{\n  \"version\": 4,\n  \"a \\\" b\": [\n    1.50,\n    \"\\\\\"\n  ]\n}\n";
    const MINIFIED: &str = r#"{"version":4,"a \" b":[1.50,"\\"]}"#;

    fn packed(state: &str, packing: Packing) -> (File, Facts) {
        let limits = Limits { body_bytes: 1 << 20, depth: 64, memory: 1 << 20, segment: (1 << 10)..(4 << 10) };
        let mut receiver = Receiver::new(limits, SpoolPlace::new(std::env::temp_dir()));
        receiver.push(state.as_bytes()).expect("a state");
        let received = receiver.finish(None).expect("a state");
        let stored: Vec<u8> =
            (0..received.segments.len()).flat_map(|index| received.stored(index).expect("a segment")).collect();
        let facts = Facts::from(&received.facts);
        (pack(&received.segments, &stored, packing).expect("a file"), facts)
    }

    fn unpacked(file: &File, packing: Packing) -> String {
        let mut text = String::new();
        reader(packing, Cursor::new(file.bytes.clone())).read_to_string(&mut text).expect("text");
        text
    }

    #[test]
    fn a_file_holds_what_the_original_would_store_and_comes_back_as_it_was_sent() {
        let table = [
            (Packing::Plain, Packing::Plain, CANONICAL),
            (Packing::Gzip, Packing::Gzip, CANONICAL),
            (Packing::Minified, Packing::Plain, MINIFIED),
            (Packing::GzipMinified, Packing::Gzip, MINIFIED),
        ];
        for (packing, as_others_read, stored) in table {
            let (file, mut facts) = packed(CANONICAL, packing);
            assert_eq!((file.packing, unpacked(&file, as_others_read).as_str()), (packing, stored), "{packing:?}");
            assert_eq!(unpacked(&file, packing), CANONICAL, "{packing:?}");
            let before = facts.clone();
            file.correct(&mut facts);
            assert_eq!(facts, before, "{packing:?}");
        }
    }

    #[test]
    fn odd_white_space_is_lost_with_minifying_and_the_facts_say_so() {
        let odd = "{ \"version\":4,\t\"a \\\" b\": [1.50, \"\\\\\"] }\n\n";
        for (packing, found) in [(Packing::Minified, Packing::Plain), (Packing::GzipMinified, Packing::Gzip)] {
            let (file, mut facts) = packed(odd, packing);
            assert_eq!((file.packing, unpacked(&file, file.packing).as_str()), (found, MINIFIED));
            file.correct(&mut facts);
            let ((_, minified), (_, sent)) = (packed(MINIFIED, Packing::Plain), packed(odd, Packing::Plain));
            assert_eq!(facts, Facts { sent: Some(sent.sha256), ..minified });
        }
        let (file, _) = packed(odd, Packing::Plain);
        assert_eq!(unpacked(&file, Packing::Plain), odd);
    }
}
