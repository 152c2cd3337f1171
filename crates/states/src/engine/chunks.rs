//! Runs of bytes in chunks: written in order, a few at a time, and read back by range.

use bytes::{Bytes, BytesMut};
use futures::stream::{self, FuturesUnordered, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use keys::Position;
use uuid::Uuid;

use super::State;
use super::seal::Cover;
use crate::Error;
use crate::failpoints::Step;
use crate::head::{Extent, Upload};
use crate::store::{Answer, ChunkId};

/// How many chunks of one upload or download are under way at once.
const AT_ONCE: usize = 4;

/// The chunks of one upload as they are put.
pub(super) struct Writer<'a> {
    state: &'a State,
    upload: Upload,
    cover: Cover,
    chunk: usize,
    buffer: BytesMut,
    length: u64,
    number: u32,
    under_way: FuturesUnordered<Answer<'a, ()>>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(state: &'a State, upload: Upload, cover: Cover) -> Writer<'a> {
        let chunk = state.store.limits().chunk - cover.overhead();
        let under_way = FuturesUnordered::new();
        Writer { state, upload, cover, chunk, buffer: BytesMut::new(), length: 0, number: 0, under_way }
    }

    /// Where the next byte will be.
    pub(super) fn position(&self) -> u64 {
        self.length
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.length += bytes.len() as u64;
        self.state.fits(self.length)?;
        self.buffer.extend_from_slice(bytes);
        // The last chunk is known as such: there may be bytes behind one that is only full.
        while self.buffer.len() > self.chunk {
            let full = self.buffer.split_to(self.chunk).freeze();
            self.put(full, Position::More).await?;
        }
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<Extent, Error> {
        if !self.buffer.is_empty() {
            let rest = self.buffer.split().freeze();
            self.put(rest, Position::Last).await?;
        }
        while self.under_way.try_next().await?.is_some() {}
        let (upload, sealed) = (self.upload.id, self.cover.is_sealed());
        Ok(Extent { upload, chunk: self.chunk as u64, length: self.length, sealed })
    }

    async fn put(&mut self, bytes: Bytes, position: Position) -> Result<(), Error> {
        if Timestamp::now() > self.upload.deadline {
            return Err(Error::UploadExpired);
        }
        while self.under_way.len() >= AT_ONCE {
            self.under_way.try_next().await?;
        }
        let (state, deadline) = (self.state, self.upload.deadline);
        let bytes = self.cover.close(self.number, position, bytes)?;
        let id = ChunkId { key: state.key.clone(), upload: self.upload.id, number: self.number };
        self.number += 1;
        self.under_way.push(Box::pin(async move {
            // A chunk is the same whenever it is put, so that one repetition is safe, whatever became of the first.
            let first = state.store.put_chunk(&id, deadline, bytes.clone()).await;
            let done = match first {
                Err(crate::store::StoreError::Unknown(_) | crate::store::StoreError::Unavailable(_)) => {
                    state.store.put_chunk(&id, deadline, bytes).await
                }
                other => other,
            };
            Step::ChunkPut.hit();
            done
        }));
        Ok(())
    }
}

/// Reads ranges of one extent, remembering the chunk that was read last.
#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    extent: Extent,
    /// Found when it is needed.
    cover: Option<Cover>,
    last: Option<(u32, Bytes)>,
}

impl Reader {
    pub(super) fn new(state: State, extent: Extent) -> Reader {
        let cover = (!extent.sealed).then_some(Cover::Clear);
        Reader { state, extent, cover, last: None }
    }

    /// With a cover that does not follow from the head.
    pub(super) fn covered(state: State, extent: Extent, cover: Cover) -> Reader {
        Reader { state, extent, cover: Some(cover), last: None }
    }

    /// Lets go of the chunk that it remembers.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    pub(super) async fn range(&mut self, from: u64, length: u64) -> Result<Bytes, Error> {
        let missing = || Error::Damaged("a range that its chunks do not have".to_owned());
        let to = from.checked_add(length).filter(|to| *to <= self.extent.length).ok_or_else(missing)?;
        if length == 0 {
            return Ok(Bytes::new());
        }
        let size = self.extent.chunk;
        let number = |at: u64| u32::try_from(at / size).map_err(|_| missing());
        let (first, end, last) = (number(from)?, number(to - 1)?, number(self.extent.length - 1)?);
        let remembered = self.last.take();
        let (state, upload) = (&self.state, self.extent.upload);
        let cover = match &self.cover {
            Some(cover) => cover,
            None => self.cover.insert(state.cover_of(upload).await?),
        };
        let chunks = stream::iter(first..=end).map(|number| {
            let remembered = remembered.as_ref().filter(|(known, _)| *known == number).map(|(_, bytes)| bytes.clone());
            async move {
                match remembered {
                    Some(bytes) => Ok(bytes),
                    None => {
                        let position = if number == last { Position::Last } else { Position::More };
                        cover.open(number, position, fetch(state, upload, number).await?)
                    }
                }
            }
        });
        let chunks: Vec<Bytes> = chunks.buffered(AT_ONCE).try_collect().await?;
        self.last = chunks.last().map(|bytes| (end, bytes.clone()));
        let offset = usize::try_from(from - u64::from(first) * size).map_err(|_| missing())?;
        let length = usize::try_from(length).map_err(|_| missing())?;
        if let [only] = chunks.as_slice() {
            return slice(only, offset, length).ok_or_else(missing);
        }
        let mut joined = BytesMut::with_capacity(chunks.iter().map(Bytes::len).sum());
        for chunk in &chunks {
            joined.extend_from_slice(chunk);
        }
        slice(&joined.freeze(), offset, length).ok_or_else(missing)
    }
}

async fn fetch(state: &State, upload: Uuid, number: u32) -> Result<Bytes, Error> {
    let id = ChunkId { key: state.key.clone(), upload, number };
    let found = state.store.get_chunk(&id).await?;
    found.ok_or_else(|| Error::Damaged(format!("chunk {number} of upload {upload} is not there")))
}

fn slice(bytes: &Bytes, offset: usize, length: usize) -> Option<Bytes> {
    let end = offset.checked_add(length)?;
    (end <= bytes.len()).then(|| bytes.slice(offset..end))
}
