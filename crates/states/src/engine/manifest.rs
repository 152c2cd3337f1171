//! What stands at the end of an upload: everything that is known of the version whose bytes are before it.
//!
//! A head finds the manifest by its offset. An upload whose head vanished is found by the trailer, the last bytes of
//! the upload, so that the head can be rebuilt from what is left. Documents are JSON, packed with the words that all of
//! them have: of a small difference its manifest is the larger part.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::codec::{self, Segment};
use crate::head::{Facts, Packing, Version};

/// The last bytes of an upload: where the manifest begins, and what kind of upload it is.
pub(super) const TRAILER: usize = 16;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The number that the version got; what was expected when nobody else wrote at the same time.
    pub(super) number: u64,
    pub(super) facts: Facts,
    pub(super) by: Option<String>,
    pub(super) at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<u64>,
    /// Of a file that is no sequence of segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) packing: Option<Packing>,
    /// The segments of the version, in their order, which never changes however they are stored.
    pub(super) parts: Vec<Part>,
}

/// How one segment is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Part {
    Whole(Segment),
    /// As the difference to a segment of the base.
    Delta {
        segment: Segment,
        of: usize,
    },
    /// A segment of the base has the same bytes.
    Same(usize),
}

impl Part {
    /// Bytes in this upload.
    pub(super) fn stored(&self) -> u64 {
        match self {
            Part::Whole(segment) | Part::Delta { segment, .. } => segment.stored,
            Part::Same(_) => 0,
        }
    }
}

/// What an upload holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Version,
    /// A list of old versions.
    Page,
    /// The key that seals a state.
    Key,
}

const MAGIC: [(Kind, &[u8; 8]); 3] =
    [(Kind::Version, b"stw-ver2"), (Kind::Page, b"stw-pag2"), (Kind::Key, b"stw-key2")];

/// What documents have in common, as the prefix of their compression. Other words mean another number in [`MAGIC`].
const WORDS: &[u8] = br#""wrapped":{"key":"copy":"[{"number":1,"facts":{"size":10,"sha256":"","md5":"","serial":"1","lineage":"","terraform_version":"1.12.1","encrypted":false},"by":"system:serviceaccount:","at":"2026-11-17T00:00:00.0Z","body":{"inline":{"segments":[{"difference":{"against":"bytes":"","sealed":"spilled":{"packing":"gzip","chunks":{"extent":{"upload":"","chunk":1048576,"length":100,"sealed":true},"manifest":10,"base":2}}},"base":2,"parts":[{"whole":{"original":10,"shaped":10,"stored":10,"hash":"","shape":{"minified":{"place":"token","depth":4}},"encoding":"zstd"}},"as-sent"{"delta":{"segment":{"original":10,"shaped":10,"stored":10,"hash":"","shape":{"minified":{"place":"text","depth":6}},"encoding":{"zstd-delta":""}},"of":1}},{"same":0},{"same":1},{"same":2},{"same":3},{"same":4}]}"#;

/// A document with its trailer, as it stands behind `offset` bytes of the upload.
pub(super) fn ended<T: Serialize>(document: &T, offset: u64, kind: Kind) -> Result<Vec<u8>, Error> {
    let text = serde_json::to_vec(document).map_err(|error| Error::Internal(error.to_string()))?;
    let packed = codec::difference(&text, WORDS);
    let packed = packed.ok_or_else(|| Error::Internal("a document cannot be packed".to_owned()))?;
    let magic = MAGIC.iter().find(|(known, _)| *known == kind).map_or(&[0; 8], |(_, magic)| *magic);
    Ok([&(text.len() as u64).to_be_bytes(), &*packed, &offset.to_be_bytes(), magic].concat())
}

/// Kind and offset of the document at the end of an upload; `None` if the upload is not complete.
pub(super) fn trailer(last: &[u8]) -> Option<(Kind, u64)> {
    let last = last.last_chunk::<TRAILER>()?;
    let (offset, magic) = last.split_first_chunk::<8>()?;
    let (kind, _) = MAGIC.iter().find(|(_, known)| *known == magic)?;
    Some((*kind, u64::from_be_bytes(*offset)))
}

/// Reads a document from the bytes behind its offset, trailer included.
pub(super) fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8], what: &str) -> Result<T, Error> {
    let document = bytes.len().checked_sub(TRAILER).and_then(|length| bytes.get(..length));
    let (length, packed) = document
        .and_then(<[u8]>::split_first_chunk::<8>)
        .ok_or_else(|| Error::Damaged(format!("{what} is cut short")))?;
    let text = codec::apply(packed, WORDS, u64::from_be_bytes(*length));
    let text = text.map_err(|error| Error::Damaged(format!("{what}: {error}")))?;
    serde_json::from_slice(&text).map_err(|error| Error::Damaged(format!("{what}: {error}")))
}

impl Manifest {
    /// Of a version that is about to be stored in another way.
    pub(super) fn of(version: &Version, base: Option<u64>, packing: Option<Packing>, parts: Vec<Part>) -> Manifest {
        let Version { number, facts, by, at, .. } = version.clone();
        Manifest { number, facts, by, at, base, packing, parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Encoding, Place, Resume, Shape};

    #[test]
    fn a_document_is_found_by_its_trailer_and_an_incomplete_one_is_not() {
        let bytes = ended(&vec![1, 2], 77, Kind::Page).unwrap();
        assert_eq!(trailer(&bytes), Some((Kind::Page, 77)));
        assert_eq!(read::<Vec<u32>>(&bytes, "a page").unwrap(), [1, 2]);
        assert_eq!(trailer(&bytes[..bytes.len() - 1]), None);
        assert_eq!(trailer(b"short"), None);
        assert!(read::<Vec<u32>>(b"short", "a page").is_err());
        assert!(read::<Vec<u32>>(&bytes[1..], "a page").is_err());
    }

    #[test]
    fn the_words_of_a_manifest_cost_little() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut hash = || std::array::from_fn::<u8, 32, _>(|_| random.u8(..));
        let mut segment = || Segment {
            original: 2_300_123,
            shaped: 1_400_456,
            stored: 207,
            hash: hash(),
            shape: Shape::Minified(Resume { place: Place::Text, depth: 6 }),
            encoding: Encoding::ZstdDelta(hash()),
        };
        let parts = vec![Part::Same(0), Part::Delta { segment: segment(), of: 1 }, Part::Same(2)];
        let facts =
            Facts { size: 10_000_000, serial: Some("17".to_owned()), sha256: segment().hash, ..Facts::of_nothing() };
        let (by, at) = (Some("ann".to_owned()), Timestamp::UNIX_EPOCH);
        let manifest = Manifest { number: 17, facts, by, at, base: Some(18), packing: None, parts };
        let (packed, hashes) = (ended(&manifest, 414, Kind::Version).unwrap(), 3 * 32);
        assert!(packed.len() < 3 * hashes, "{} bytes", packed.len());
        let again: Manifest = read(&packed, "a manifest").unwrap();
        assert_eq!((again.number, again.facts, again.parts), (manifest.number, manifest.facts, manifest.parts));
    }
}
