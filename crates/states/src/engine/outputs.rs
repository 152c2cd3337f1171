//! The outputs of a state, for those who may not read the state itself.
//!
//! The codec reads in passes and knows nothing of stores, so it runs on a thread of its own, which fetches the pieces
//! of the state for it; what it writes goes through a short channel, so that a slow reader stops it.

use std::io::{self, Write};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::State;
use crate::Error;
use crate::codec::{self, Sensitive, Unreadable};
use crate::head::Version;

/// The pieces of an outputs document.
pub type Outputs = mpsc::Receiver<Result<Bytes, Error>>;

/// How many pieces wait for their reader.
const WAITING: usize = 4;

impl State {
    /// A state document with the outputs of the current version and no resources.
    pub async fn outputs(&self, sensitive: Sensitive) -> Result<Outputs, Error> {
        let head = self.head().await?.ok_or(Error::NotFound)?;
        let version = head.here()?.visible().cloned().ok_or(Error::NotFound)?;
        if version.facts.encrypted {
            return Err(Error::Encrypted);
        }
        let (sender, receiver) = mpsc::channel(WAITING);
        let (state, runtime) = (self.clone(), Handle::current());
        tokio::task::spawn_blocking(move || {
            let mut source = |out: &mut dyn Write| runtime.block_on(state.pass(&version, out));
            let mut out = Sender(sender.clone());
            let error = match codec::outputs(&mut source, sensitive, &mut out) {
                // Nobody is there to be told.
                Ok(()) | Err(Unreadable::Output(_)) => return,
                Err(Unreadable::Encrypted) => Error::Encrypted,
                Err(error) => Error::Damaged(format!("version {}: {error}", version.number)),
            };
            let _ = sender.blocking_send(Err(error));
        });
        Ok(receiver)
    }

    /// One pass over a version.
    pub(super) async fn pass(&self, version: &Version, out: &mut dyn Write) -> io::Result<()> {
        let mut reading = self.open(version.clone()).await.map_err(io::Error::other)?;
        while let Some(piece) = reading.next().await.map_err(io::Error::other)? {
            out.write_all(&piece)?;
        }
        Ok(())
    }
}

struct Sender(mpsc::Sender<Result<Bytes, Error>>);

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
