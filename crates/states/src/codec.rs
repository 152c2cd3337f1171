//! A plain codec behind the seam of the real one: one zstd segment, held in memory, validated by serde_json.

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use aws_lc_rs::digest::{Context, SHA256};
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Clone, Debug)]
pub struct Limits {
    pub body_bytes: u64,
    pub depth: usize,
    pub memory: usize,
    pub segment: Range<usize>,
}

#[derive(Clone, Debug)]
pub struct SpoolPlace(PathBuf);

impl SpoolPlace {
    pub fn new(directory: impl Into<PathBuf>) -> SpoolPlace {
        SpoolPlace(directory.into())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BadState {
    #[error("the state is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the state is not JSON")]
    NotJson,
    #[error("the state does not have the MD5 of its Content-MD5 header")]
    Md5,
    #[error("failed to spool the state")]
    Spool(#[from] io::Error),
}

#[derive(Debug)]
pub struct Receiver {
    limits: Limits,
    bytes: Vec<u8>,
}

impl Receiver {
    pub fn new(limits: Limits, _spool: SpoolPlace) -> Receiver {
        Receiver { limits, bytes: Vec::new() }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<(), BadState> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() as u64 > self.limits.body_bytes {
            return Err(BadState::TooLarge { limit: self.limits.body_bytes });
        }
        Ok(())
    }

    pub fn finish(self, content_md5: Option<[u8; 16]>) -> Result<Received, BadState> {
        let md5: [u8; 16] = Md5::digest(&self.bytes).into();
        if content_md5.is_some_and(|expected| expected != md5) {
            return Err(BadState::Md5);
        }
        let top: Top = serde_json::from_slice(&self.bytes).map_err(|_| BadState::NotJson)?;
        let facts = Facts {
            size: self.bytes.len() as u64,
            sha256: sha256(&self.bytes),
            md5,
            serial: top.serial.map(|raw| raw.get().to_owned()),
            lineage: top.lineage,
            terraform_version: top.terraform_version,
            encrypted: top.encrypted_data.is_some(),
        };
        let mut segments = Vec::new();
        let mut stored = Vec::new();
        for part in self.bytes.chunks(self.limits.segment.end.max(1)) {
            let packed = zstd::encode_all(part, 3)?;
            let sizes = (part.len() as u64, packed.len() as u64);
            segments.push(Segment { original: sizes.0, stored: sizes.1, sha256: sha256(part) });
            stored.push(packed);
        }
        Ok(Received { facts, segments, stored })
    }
}

#[derive(Deserialize)]
struct Top<'a> {
    #[serde(borrow)]
    serial: Option<&'a RawValue>,
    lineage: Option<String>,
    terraform_version: Option<String>,
    #[serde(borrow)]
    encrypted_data: Option<&'a RawValue>,
}

#[derive(Debug)]
pub struct Received {
    pub facts: Facts,
    pub segments: Vec<Segment>,
    stored: Vec<Vec<u8>>,
}

impl Received {
    pub fn stored(&mut self, index: usize) -> io::Result<Vec<u8>> {
        self.stored.get(index).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub size: u64,
    pub sha256: [u8; 32],
    pub md5: [u8; 16],
    pub serial: Option<String>,
    pub lineage: Option<String>,
    pub terraform_version: Option<String>,
    pub encrypted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub original: u64,
    pub stored: u64,
    pub sha256: [u8; 32],
}

#[derive(Debug, thiserror::Error)]
#[error("a segment of the state is damaged")]
pub struct Damaged;

pub fn restore(segment: &Segment, stored: &[u8], _base: Option<&[u8]>, out: &mut dyn Write) -> Result<(), Damaged> {
    let bytes = zstd::decode_all(stored).map_err(|_| Damaged)?;
    if sha256(&bytes) != segment.sha256 {
        return Err(Damaged);
    }
    out.write_all(&bytes).map_err(|_| Damaged)
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}
