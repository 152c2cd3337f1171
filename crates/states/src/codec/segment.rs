//! One stored segment: its description, and the way back to the bytes that were sent.
//!
//! The doors are [`restore`] and, for what a delta refers to, [`unpack`]. Nothing is handed on before its hash was
//! compared, so a reader never sees damaged bytes.

use std::io;

use serde::{Deserialize, Serialize};
use zstd::zstd_safe::DCtx;

use super::contexts;
use super::fault::Damaged;
use super::layout::{Gap, Place, Resume, lay_out};

/// What is known of a segment beside its stored bytes. Holds no content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Bytes as sent.
    pub original: u64,
    /// Bytes in the stored shape, before compression.
    pub shaped: u64,
    /// Bytes as stored.
    pub stored: u64,
    /// BLAKE3 of the bytes as sent: by it segments are taken to be the same, so that nothing weaker will do.
    #[serde(with = "super::hash_text")]
    pub hash: [u8; 32],
    pub shape: Shape,
    pub encoding: Encoding,
}

/// What was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Without white space between tokens: the original has Terraform's, which is laid out from here.
    Minified(Resume),
    AsSent,
}

/// How it was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    Zstd,
    /// zstd with the shaped bytes of another segment as its prefix, known by the hash of its original bytes; packed once
    /// more.
    ZstdDelta(#[serde(with = "super::hash_text")] [u8; 32]),
}

/// No segment is longer, whatever its description claims: what comes from a store must not decide on our memory.
const LONGEST: u64 = 64 << 20;

/// Writes the bytes that were sent. `base` is what [`unpack`] gives for the segment that a delta refers to.
pub fn restore(segment: &Segment, stored: &[u8], base: Option<&[u8]>, out: &mut dyn io::Write) -> Result<(), Damaged> {
    let original = original(segment, unpack(segment, stored, base)?)?;
    out.write_all(&original).map_err(Damaged::Output)
}

/// The bytes that were sent, from those that [`unpack`] gives.
pub fn original(segment: &Segment, shaped: Vec<u8>) -> Result<Vec<u8>, Damaged> {
    let original = match segment.shape {
        Shape::AsSent => shaped,
        Shape::Minified(from) => expand(&shaped, from, segment.original)?,
    };
    verify(segment, &original)?;
    Ok(original)
}

/// The bytes of a segment in their stored shape: what a delta against this segment needs.
pub fn unpack(segment: &Segment, stored: &[u8], base: Option<&[u8]>) -> Result<Vec<u8>, Damaged> {
    match segment.encoding {
        Encoding::Zstd => unpacked(stored, None, segment.shaped),
        Encoding::ZstdDelta(_) => {
            let base = base.ok_or(Damaged::NoBase)?;
            let length = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
            let length = length.ok_or_else(|| Damaged::Compression(io::Error::other("a frame without its length")))?;
            let difference = unpacked(stored, None, length)?;
            unpacked(&difference, Some(base), segment.shaped)
        }
    }
}

/// So many bytes out of zstd, with a prefix or without.
pub(super) fn unpacked(stored: &[u8], prefix: Option<&[u8]>, length: u64) -> Result<Vec<u8>, Damaged> {
    let mut bytes = Vec::with_capacity(bounded(length)?);
    match prefix {
        None => contexts::decompress(stored, &mut bytes).map_err(Damaged::Compression)?,
        Some(prefix) => {
            let mut context = DCtx::create();
            context.ref_prefix(prefix).map_err(compression)?;
            context.decompress(&mut bytes, stored).map_err(compression)?;
        }
    }
    same_length(&bytes, length)?;
    Ok(bytes)
}

fn expand(minified: &[u8], from: Resume, length: u64) -> Result<Vec<u8>, Damaged> {
    let most = bounded(length)?;
    let mut original = Vec::with_capacity(most);
    let end = lay_out(minified, from, &mut original, most);
    let end = end.ok_or(Damaged::Length { found: length + 1, expected: length })?;
    if end.place == Place::End {
        Gap::LAST.write(&mut original);
    }
    Ok(original)
}

fn verify(segment: &Segment, original: &[u8]) -> Result<(), Damaged> {
    same_length(original, segment.original)?;
    if *blake3::hash(original).as_bytes() == segment.hash { Ok(()) } else { Err(Damaged::Checksum) }
}

fn same_length(bytes: &[u8], expected: u64) -> Result<(), Damaged> {
    let found = bytes.len() as u64;
    if found == expected { Ok(()) } else { Err(Damaged::Length { found, expected }) }
}

fn bounded(length: u64) -> Result<usize, Damaged> {
    let bounded = usize::try_from(length).ok().filter(|_| length <= LONGEST);
    bounded.ok_or(Damaged::Length { found: length, expected: LONGEST })
}

fn compression(code: usize) -> Damaged {
    Damaged::Compression(io::Error::other(zstd::zstd_safe::get_error_name(code)))
}
