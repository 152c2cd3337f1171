//! What stands at the end of an upload: everything that is known of the version whose bytes are before it.
//!
//! A head finds the manifest by its offset. An upload whose head vanished is found by the trailer, the last bytes of
//! the upload, so that the head can be rebuilt from what is left.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::codec::Segment;
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
    [(Kind::Version, b"stw-ver1"), (Kind::Page, b"stw-pag1"), (Kind::Key, b"stw-key1")];

/// A document with its trailer, as it stands behind `offset` bytes of the upload.
pub(super) fn ended<T: Serialize>(document: &T, offset: u64, kind: Kind) -> Result<Vec<u8>, Error> {
    let mut text = serde_json::to_vec(document).map_err(|error| Error::Internal(error.to_string()))?;
    text.extend_from_slice(&offset.to_be_bytes());
    let magic = MAGIC.iter().find(|(known, _)| *known == kind).map(|(_, magic)| *magic);
    text.extend_from_slice(magic.unwrap_or(&[0; 8]));
    Ok(text)
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
    let text = bytes.len().checked_sub(TRAILER).and_then(|length| bytes.get(..length));
    let text = text.ok_or_else(|| Error::Damaged(format!("{what} is cut short")))?;
    serde_json::from_slice(text).map_err(|error| Error::Damaged(format!("{what}: {error}")))
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

    #[test]
    fn a_document_is_found_by_its_trailer_and_an_incomplete_one_is_not() {
        let bytes = ended(&vec![1, 2], 77, Kind::Page).unwrap();
        assert_eq!(trailer(&bytes), Some((Kind::Page, 77)));
        assert_eq!(read::<Vec<u32>>(&bytes, "a page").unwrap(), [1, 2]);
        assert_eq!(trailer(&bytes[..bytes.len() - 1]), None);
        assert_eq!(trailer(b"short"), None);
        assert!(read::<Vec<u32>>(b"short", "a page").is_err());
    }
}
