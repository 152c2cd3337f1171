//! The work on the body of a state: hashed, unpacked, checked and compressed beside the runtime, as it arrives.
//!
//! The doors are [`Work`], for what arrives in several batches, and [`at_once`]. A [`Lane`] has a thread only while it
//! has a batch, so that a slow client holds none. A large body goes through two of them at the same time: one hashes
//! it, the other does all else.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use md5::{Digest as _, Md5};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use super::receive::{Encoding, Md5Bytes};
use crate::codec::{BadState, Digests, Received, Receiver, Shaper, SpoolPlace};
use crate::engine::Settings;

/// How many batches may wait for each lane: to compress a segment takes as long as to hash a few of them.
const AHEAD: usize = 2;
/// What is not longer takes less time than to wake a thread for it and to be woken by it. Not so gzip, whatever its length.
const SHORT: usize = 32 << 10;
/// A smaller piece is copied to others like it: each that is kept holds on to the buffer it came in.
const SMALL: usize = 4 << 10;

/// What can be wrong with the body of a state.
pub(super) enum Fault {
    State(BadState),
    Gzip,
    Md5,
    /// Ours: a thread ended without a result.
    Stopped,
}

impl From<BadState> for Fault {
    fn from(bad: BadState) -> Fault {
        Fault::State(bad)
    }
}

/// Pieces of a body as they came, without a copy where they are large.
#[derive(Default)]
pub(super) struct Batch {
    pieces: Vec<Bytes>,
    small: Vec<u8>,
    length: usize,
}

impl Batch {
    pub(super) fn push(&mut self, piece: Bytes) {
        self.length += piece.len();
        if piece.len() < SMALL {
            self.small.extend_from_slice(&piece);
        } else {
            self.join();
            self.pieces.push(piece);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    fn join(&mut self) {
        if !self.small.is_empty() {
            self.pieces.push(std::mem::take(&mut self.small).into());
        }
    }

    fn into_pieces(mut self) -> Vec<Bytes> {
        self.join();
        self.pieces
    }
}

/// What is done with bytes, in their order.
pub(super) trait Take: Send + 'static {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault>;
}

/// The work on one body.
pub(super) enum Work {
    Plain { shape: Lane<Shaper>, hash: Lane<Digests> },
    Gzip(Lane<Unpacker>),
}

impl Work {
    pub(super) fn new(encoding: Encoding, settings: &Settings) -> Work {
        match encoding {
            Encoding::Identity => {
                let shaper = Shaper::new(settings.codec.clone(), SpoolPlace::new(settings.spool.clone()));
                Work::Plain { shape: Lane::new(shaper), hash: Lane::new(Digests::new()) }
            }
            Encoding::Gzip => Work::Gzip(Lane::new(Unpacker::new(settings))),
        }
    }

    /// Tells whether it goes on: if not, [`Work::finish`] knows why.
    pub(super) async fn push(&mut self, batch: Batch) -> bool {
        let pieces: Arc<[Bytes]> = batch.into_pieces().into();
        match self {
            Work::Plain { shape, hash } => hash.push(pieces.clone()).await && shape.push(pieces).await,
            Work::Gzip(lane) => lane.push(pieces).await,
        }
    }

    /// The body is complete; `md5` is what its sender says of it.
    pub(super) async fn finish(self, md5: Option<Md5Bytes>) -> Result<Received, Fault> {
        match self {
            Work::Plain { shape, hash } => {
                let (shaper, digests) = (shape.finish().await?, hash.finish().await?);
                blocking(move || Ok(shaper.finish(digests.finish(), md5)?)).await
            }
            Work::Gzip(lane) => {
                let unpacker = lane.finish().await?;
                blocking(move || unpacker.finish(md5)).await
            }
        }
    }
}

/// The work on a body that came as one batch.
pub(super) async fn at_once(
    encoding: Encoding,
    settings: &Settings,
    batch: Batch,
    md5: Option<Md5Bytes>,
) -> Result<Received, Fault> {
    let is_short = batch.len() <= SHORT;
    let pieces = batch.into_pieces();
    match encoding {
        Encoding::Identity => {
            let mut receiver = receiver(settings);
            let work = move || {
                pieces.iter().try_for_each(|piece| receiver.push(piece))?;
                Ok(receiver.finish(md5)?)
            };
            if is_short { work() } else { blocking(work).await }
        }
        Encoding::Gzip => {
            let mut unpacker = Unpacker::new(settings);
            blocking(move || {
                pieces.iter().try_for_each(|piece| unpacker.take(piece))?;
                unpacker.finish(md5)
            })
            .await
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Fault> + Send + 'static) -> Result<T, Fault> {
    spawn_blocking(work).await.map_err(|_| Fault::Stopped)?
}

fn receiver(settings: &Settings) -> Receiver {
    Receiver::new(settings.codec.clone(), SpoolPlace::new(settings.spool.clone()))
}

/// A queue of batches and the task that works them off.
pub(super) struct Lane<T> {
    batches: mpsc::Sender<Arc<[Bytes]>>,
    worker: JoinHandle<Result<T, Fault>>,
}

impl<T: Take> Lane<T> {
    fn new(work: T) -> Lane<T> {
        let (batches, mut waiting) = mpsc::channel::<Arc<[Bytes]>>(AHEAD);
        let worker = tokio::spawn(async move {
            let mut work = work;
            while let Some(first) = waiting.recv().await {
                let batches = move || {
                    let mut next = Some(first);
                    while let Some(pieces) = next {
                        pieces.iter().try_for_each(|piece| work.take(piece))?;
                        // What has come in the meantime needs no other thread.
                        next = waiting.try_recv().ok();
                    }
                    Ok((work, waiting))
                };
                (work, waiting) = blocking(batches).await?;
            }
            Ok(work)
        });
        Lane { batches, worker }
    }

    async fn push(&self, pieces: Arc<[Bytes]>) -> bool {
        self.batches.send(pieces).await.is_ok()
    }

    async fn finish(self) -> Result<T, Fault> {
        drop(self.batches);
        self.worker.await.map_err(|_| Fault::Stopped)?
    }
}

impl Take for Shaper {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        Ok(self.push(bytes)?)
    }
}

impl Take for Digests {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.update(bytes);
        Ok(())
    }
}

/// A receiver behind gzip.
pub(super) struct Unpacker {
    decoder: MultiGzDecoder<Pusher>,
    /// Of the bytes as they were sent: that is what the header is about.
    md5: Md5,
}

impl Unpacker {
    fn new(settings: &Settings) -> Unpacker {
        let pusher = Pusher { receiver: receiver(settings), fault: None };
        Unpacker { decoder: MultiGzDecoder::new(pusher), md5: Md5::new() }
    }

    fn fault(&mut self) -> Fault {
        self.decoder.get_mut().fault.take().map_or(Fault::Gzip, Fault::State)
    }

    fn finish(mut self, md5: Option<Md5Bytes>) -> Result<Received, Fault> {
        if md5.is_some_and(|expected| expected != Md5Bytes::from(self.md5.clone().finalize())) {
            return Err(Fault::Md5);
        }
        self.decoder.try_finish().map_err(|_| self.fault())?;
        Ok(self.decoder.finish().map_err(|_| Fault::Gzip)?.receiver.finish(None)?)
    }
}

impl Take for Unpacker {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.md5.update(bytes);
        self.decoder.write_all(bytes).map_err(|_| self.fault())
    }
}

/// Passes unpacked bytes on, and keeps the fault that a `Write` cannot tell.
struct Pusher {
    receiver: Receiver,
    fault: Option<BadState>,
}

impl Write for Pusher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.receiver.push(bytes).map(|()| bytes.len()).map_err(|fault| {
            self.fault = Some(fault);
            io::ErrorKind::InvalidData.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_keeps_the_order_of_its_pieces_and_joins_small_ones() {
        let mut batch = Batch::default();
        let large = Bytes::from(vec![b'L'; SMALL]);
        for piece in [Bytes::from_static(b"a"), Bytes::from_static(b"b"), large.clone(), Bytes::from_static(b"c")] {
            batch.push(piece);
        }
        assert_eq!(batch.len(), SMALL + 3);
        assert_eq!(batch.into_pieces(), [Bytes::from_static(b"ab"), large, Bytes::from_static(b"c")]);
    }
}
