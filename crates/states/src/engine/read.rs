//! Reading a version: segment by segment, each checked against its hash before a byte of it leaves. A file that other
//! programs read too comes out as it is: its head says what it must be, and gzip has a checksum of its own.

use std::fmt;
use std::io::{Cursor, Read};

use bytes::Bytes;
use keys::Position;
use uuid::Uuid;

use super::State;
use super::chain::{Chain, blocking};
use super::chunks::Reader;
use crate::Error;
use crate::codec::{self, Segment};
use crate::head::{Body, Facts, Packing, Version};
use crate::packing;

/// A version that is being read.
#[derive(Debug)]
pub struct Reading {
    pub number: u64,
    pub facts: Facts,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// What is left of the segments and of their stored bytes.
    Inline {
        segments: std::vec::IntoIter<Segment>,
        bytes: Bytes,
    },
    Chunks {
        chain: Box<Chain>,
        next: usize,
    },
    File(File),
}

/// A state that stands in the head as a file; `None` while a thread unpacks the next piece.
struct File(Option<Box<dyn Read + Send>>);

impl fmt::Debug for File {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("File")
    }
}

/// A segment of so many bytes is restored in less time than it takes to wake a thread and to be woken by it.
const SHORT: u64 = 64 << 10;
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

    /// Any version that the head or its history has, or had when somebody looked.
    pub async fn open(&self, mut version: Version) -> Result<Reading, Error> {
        let source = loop {
            match self.opened(&version).await {
                Err(Error::Damaged(what)) => {
                    version = Box::pin(self.stored_anew(&version)).await?.ok_or(Error::Damaged(what))?;
                }
                source => break source?,
            }
        };
        let Version { number, facts, .. } = version;
        Ok(Reading { number, facts, source })
    }

    async fn opened(&self, version: &Version) -> Result<Source, Error> {
        Ok(match &version.body {
            Body::Chunks { .. } => {
                Source::Chunks { chain: Box::new(Chain::open(self.clone(), version).await?), next: 0 }
            }
            Body::Spilled { packing, .. } => Source::file(*packing, self.spilled(&version.body).await?),
            Body::File { packing, bytes } => Source::file(*packing, bytes.clone().into()),
            Body::Difference { .. } => Source::file(Packing::Plain, Box::pin(self.apply(version)).await?.into()),
            Body::Inline { segments, bytes, sealed } => {
                let bytes = self.open_inline(bytes.clone().into(), *sealed).await?;
                Source::Inline { segments: segments.clone().into_iter(), bytes }
            }
        })
    }

    /// The stored bytes of a body that stands in the head.
    pub(super) async fn open_inline(&self, bytes: Bytes, sealed: Option<Uuid>) -> Result<Bytes, Error> {
        match sealed {
            Some(id) => self.cover_of(id).await?.open(0, Position::Last, bytes),
            None => Ok(bytes),
        }
    }

    /// A file that went into chunks: never larger than the object that it stood in before.
    pub(super) async fn spilled(&self, body: &Body) -> Result<Bytes, Error> {
        match body {
            Body::Spilled { extent, manifest, .. } => Reader::new(self.clone(), *extent).range(0, *manifest).await,
            _ => Err(Error::Internal("a body that is no file in chunks".to_owned())),
        }
    }
}

impl Source {
    fn file(packing: Packing, bytes: Bytes) -> Source {
        Source::File(File(Some(packing::reader(packing, Cursor::new(bytes)))))
    }
}

impl Reading {
    /// The next piece of the state; `None` at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match &mut self.source {
            Source::File(file) => file.next().await,
            Source::Chunks { chain, next } if *next < chain.len() => {
                *next += 1;
                chain.original(*next - 1).await.map(Some)
            }
            Source::Chunks { .. } => Ok(None),
            Source::Inline { segments, bytes } => {
                let Some(segment) = segments.next() else { return Ok(None) };
                let length = usize::try_from(segment.stored).ok().filter(|length| *length <= bytes.len());
                let length = length.ok_or_else(|| Error::Damaged("the head holds too few bytes".to_owned()))?;
                let stored = bytes.split_to(length);
                let is_short = segment.original <= SHORT && segment.shaped <= SHORT;
                let restore = move || {
                    let mut out = Vec::new();
                    codec::restore(&segment, &stored, None, &mut out).map(|()| out)
                };
                let restored = if is_short { restore() } else { blocking(restore).await? };
                let restored = restored.map_err(|error| Error::Damaged(format!("version {}: {error}", self.number)))?;
                Ok(Some(restored.into()))
            }
        }
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
