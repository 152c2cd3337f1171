//! Whole files sealed under a data key of their own, written and read as they stream, in bounded memory.
//!
//! A sealed stream begins with a head: eight letters that also tell the version of this format, the length of what
//! follows, and the wrapped data key as JSON. Then come frames of [`FRAME`] bytes, each [`Stream::OVERHEAD`] longer when
//! sealed; only the last one may be shorter. The frames do not depend on the head, so that rotation may write the head
//! anew.

use std::fmt;
use std::io::{self, Read, Write};

use crate::data_key::DataKey;
use crate::error::Error;
use crate::stream::{Position, Stream};
use crate::wrapped::Wrapped;

const MAGIC: &[u8; 8] = b"STWSEAL1";
const HEAD_LIMIT: u32 = 64 * 1024;
/// Plain bytes of a frame.
pub(crate) const FRAME: usize = 64 * 1024;
const SEALED_FRAME: u64 = (FRAME + Stream::OVERHEAD) as u64;

/// Why a sealed stream cannot be begun.
#[derive(Debug, thiserror::Error)]
pub enum SealedError {
    #[error(transparent)]
    Key(#[from] Error),
    #[error("failed to read or write the sealed stream: {0}")]
    Io(#[from] io::Error),
}

/// Seals what is written to it. Whoever does not [`Sealer::finish`] it leaves a stream that does not open to its end.
pub struct Sealer<W> {
    writer: W,
    stream: Stream,
    number: u32,
    /// Held back until more comes, since the last frame is marked.
    frame: Vec<u8>,
}

impl<W: Write> Sealer<W> {
    /// `wrapped` is `data_key`, which must be used for nothing else.
    pub(crate) fn new(mut writer: W, wrapped: &Wrapped, data_key: &DataKey, context: &[u8]) -> io::Result<Sealer<W>> {
        let head = serde_json::to_vec(wrapped)?;
        let length = u32::try_from(head.len()).ok().filter(|length| *length <= HEAD_LIMIT);
        let length = length.ok_or_else(|| io::Error::other("the wrapped key is too long"))?;
        writer.write_all(MAGIC)?;
        writer.write_all(&length.to_be_bytes())?;
        writer.write_all(&head)?;
        Ok(Sealer { writer, stream: data_key.stream(context), number: 0, frame: Vec::new() })
    }

    /// Writes the end. It does not sync anything.
    pub fn finish(mut self) -> io::Result<W> {
        self.put(Position::Last)?;
        self.writer.flush()?;
        Ok(self.writer)
    }

    fn put(&mut self, position: Position) -> io::Result<()> {
        let frame = std::mem::take(&mut self.frame);
        let sealed = self.stream.seal(self.number, position, &[], frame).map_err(io::Error::other)?;
        self.writer.write_all(&sealed)?;
        if position == Position::More {
            self.number = self.number.checked_add(1).ok_or_else(|| io::Error::other("the stream is too long"))?;
        }
        Ok(())
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.frame.len() == FRAME && !bytes.is_empty() {
            self.put(Position::More)?;
        }
        if self.frame.capacity() == 0 {
            // With room for the tag: sealing never moves it.
            self.frame.reserve_exact(FRAME + Stream::OVERHEAD);
        }
        let taken = bytes.len().min(FRAME - self.frame.len());
        self.frame.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Passes on what is sealed; a frame that is not full stays here.
    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Opens what is read from it. A byte comes out only when the whole frame around it is authentic, and the end is
/// reported only when it is the end that was written.
pub struct Opener<R> {
    reader: R,
    stream: Stream,
    /// Of the frame that is opened next.
    number: u32,
    /// The sealed frame that is opened next; `None` before the first one is read.
    next: Option<Vec<u8>>,
    frame: Vec<u8>,
    given: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Opening,
    Ended,
    /// After an error there is nothing more to be had.
    Failed,
}

impl<R: Read> Opener<R> {
    pub(crate) fn new(reader: R, data_key: &DataKey, context: &[u8]) -> Opener<R> {
        let stream = data_key.stream(context);
        Opener { reader, stream, number: 0, next: None, frame: Vec::new(), given: 0, state: State::Opening }
    }

    fn advance(&mut self) -> io::Result<()> {
        let sealed = match self.next.take() {
            Some(sealed) => sealed,
            None => self.read_frame()?,
        };
        let following = self.read_frame()?;
        let position = if following.is_empty() { Position::Last } else { Position::More };
        self.frame = self.stream.open(self.number, position, &[], sealed).map_err(invalid)?;
        self.given = 0;
        match position {
            Position::Last => self.state = State::Ended,
            Position::More => {
                self.number = self.number.checked_add(1).ok_or_else(|| invalid(Error::Changed))?;
                self.next = Some(following);
            }
        }
        Ok(())
    }

    fn read_frame(&mut self) -> io::Result<Vec<u8>> {
        let mut frame = Vec::new();
        self.reader.by_ref().take(SEALED_FRAME).read_to_end(&mut frame)?;
        Ok(frame)
    }
}

impl<R: Read> Read for Opener<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.state == State::Failed {
            return Err(invalid(Error::Changed));
        }
        while self.given == self.frame.len() && self.state == State::Opening {
            self.advance().inspect_err(|_| self.state = State::Failed)?;
        }
        let left = &self.frame[self.given..];
        let taken = left.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&left[..taken]);
        self.given += taken;
        Ok(taken)
    }
}

/// The wrapped key at the beginning of a sealed stream.
pub(crate) fn read_head(reader: &mut impl Read) -> io::Result<Wrapped> {
    let mut magic = [0; MAGIC.len()];
    let mut length = [0; 4];
    reader.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is not a sealed stream of this version"));
    }
    reader.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > HEAD_LIMIT {
        return Err(invalid(Error::Changed));
    }
    let mut head = vec![0; length as usize];
    reader.read_exact(&mut head)?;
    serde_json::from_slice(&head).map_err(|_| invalid(Error::Changed))
}

fn invalid(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<W> fmt::Debug for Sealer<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sealer").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<R> fmt::Debug for Opener<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Opener")
            .field("number", &self.number)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
