//! Reading a version: segment by segment, each checked against its hash before a byte of it leaves. A file that other
//! programs read too comes out as it is: its head says what it must be, and gzip has a checksum of its own.

use std::fmt;
use std::io::{Cursor, Read};

use bytes::Bytes;

use super::State;
use super::chunks::Reader;
use super::write::Manifest;
use crate::Error;
use crate::codec::{self, Segment};
use crate::head::{Body, Facts, Version};
use crate::packing;

/// A version that is being read.
#[derive(Debug)]
pub struct Reading {
    pub number: u64,
    pub facts: Facts,
    segments: std::vec::IntoIter<Segment>,
    from: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Inline(Bytes),
    Chunks(Reader),
    File(File),
}

/// A state that stands in the head as a file; `None` while a thread unpacks the next piece.
struct File(Option<Box<dyn Read + Send>>);

impl fmt::Debug for File {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("File")
    }
}

/// How much of a file is unpacked at a time.
const PIECE: u64 = 1 << 20;

impl State {
    /// The current version, if there is one.
    pub async fn read(&self) -> Result<Option<Reading>, Error> {
        let Some(head) = self.head().await? else { return Ok(None) };
        match head.here()?.visible() {
            Some(version) => self.open(version.clone()).await.map(Some),
            None => Ok(None),
        }
    }

    /// Any version that the head or its history has.
    pub async fn open(&self, version: Version) -> Result<Reading, Error> {
        let Version { number, facts, body, .. } = version;
        let (segments, source) = match body {
            Body::Inline { segments, bytes } => (segments, Source::Inline(bytes.into())),
            Body::File { packing, bytes } => {
                (Vec::new(), Source::File(File(Some(packing::reader(packing, Cursor::new(bytes))))))
            }
            Body::Chunks { extent, manifest } => {
                let mut reader = Reader::new(self.clone(), extent);
                let length = extent.length.saturating_sub(manifest);
                let list = reader.range(manifest, length).await?;
                let list: Manifest = serde_json::from_slice(&list)
                    .map_err(|error| Error::Damaged(format!("the manifest of version {number}: {error}")))?;
                (list.segments, Source::Chunks(reader))
            }
        };
        Ok(Reading { number, facts, segments: segments.into_iter(), from: 0, source })
    }
}

impl Reading {
    /// The next piece of the state; `None` at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if let Source::File(file) = &mut self.source {
            return file.next().await;
        }
        let Some(segment) = self.segments.next() else { return Ok(None) };
        let (from, length) = (self.from, segment.stored);
        self.from += length;
        let stored = match &mut self.source {
            Source::File(_) => return Ok(None),
            Source::Chunks(reader) => reader.range(from, length).await?,
            Source::Inline(bytes) => {
                let range = usize::try_from(from).ok().zip(usize::try_from(from + length).ok());
                let range = range.filter(|(_, to)| *to <= bytes.len());
                let (from, to) = range.ok_or_else(|| Error::Damaged("the head holds too few bytes".to_owned()))?;
                bytes.slice(from..to)
            }
        };
        let restored = tokio::task::spawn_blocking(move || {
            let mut out = Vec::with_capacity(usize::try_from(segment.original).unwrap_or(0).min(8 << 20));
            codec::restore(&segment, &stored, None, &mut out).map(|()| out)
        });
        let restored = restored.await.map_err(|error| Error::Internal(error.to_string()))?;
        let restored = restored.map_err(|error| Error::Damaged(format!("version {}: {error}", self.number)))?;
        Ok(Some(restored.into()))
    }
}

impl File {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(mut file) = self.0.take() else { return Ok(None) };
        let unpacked = tokio::task::spawn_blocking(move || {
            let mut piece = Vec::new();
            let read = (&mut file).take(PIECE).read_to_end(&mut piece);
            read.map(|_| (file, piece))
        });
        let unpacked = unpacked.await.map_err(|error| Error::Internal(error.to_string()))?;
        let (file, piece) = unpacked.map_err(|_| Error::Damaged("the gzip of a state".to_owned()))?;
        if piece.is_empty() {
            return Ok(None);
        }
        self.0 = Some(file);
        Ok(Some(piece.into()))
    }
}
