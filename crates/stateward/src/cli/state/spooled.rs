//! A state on its way from one place to another: read once, checked, and kept until it was taken.
//!
//! The door is [`Spooled`]. It is the server's own codec: memory is bounded whatever the size, what does not fit waits
//! compressed in a sealed file without a name, and what is handed on has the SHA-256 of what came in.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use states::codec::{self, BadState, Facts, Limits, Received, Receiver, SpoolPlace};
use tokio::sync::mpsc;

use crate::cli::failure::{Exit, Failure};
use crate::cli::output::hexadecimal;
use crate::client::transfer::{Pieces, Upload};
use crate::config::Environment;

/// What a state may be is the server's business; these only bound our memory, with smaller pieces than a store wants.
fn limits() -> Limits {
    Limits { body_bytes: u64::MAX, depth: 1 << 16, memory: 2 << 20, segment: 256 << 10..1 << 20 }
}

/// A whole and valid state.
#[derive(Clone, Debug)]
pub struct Spooled {
    pub facts: Facts,
    received: Arc<Mutex<Received>>,
    segments: usize,
}

impl Spooled {
    /// Reads a state to its end. `from` is what errors call the place that it comes from.
    pub async fn read(from: &str, mut pieces: Pieces, environment: &Environment) -> anyhow::Result<Spooled> {
        let directory = environment.non_empty("TMPDIR").unwrap_or("/tmp");
        let mut receiver = Receiver::new(limits(), SpoolPlace::new(PathBuf::from(directory)));
        let (sender, mut waiting) = mpsc::channel::<Bytes>(4);
        let taking = tokio::task::spawn_blocking(move || {
            while let Some(piece) = waiting.blocking_recv() {
                receiver.push(&piece)?;
            }
            receiver.finish(None)
        });
        while let Some(piece) = pieces.try_next().await? {
            // The other end hung up: it has found a fault, which it tells below.
            if sender.send(piece).await.is_err() {
                break;
            }
        }
        drop(sender);
        let received = taking.await?.map_err(|fault| bad(from, &fault))?;
        let (facts, segments) = (received.facts.clone(), received.segments.len());
        Ok(Spooled { facts, received: Arc::new(Mutex::new(received)), segments })
    }

    /// The same bytes again, as often as one likes.
    pub fn pieces(&self) -> Pieces {
        let (received, segments) = (self.received.clone(), self.segments);
        futures::stream::iter(0..segments)
            .then(move |index| {
                let received = received.clone();
                async move { tokio::task::spawn_blocking(move || restored(&received, index)).await? }
            })
            .boxed()
    }

    pub fn upload(&self, pieces: Pieces) -> Upload {
        Upload { size: self.facts.size, md5: self.facts.md5, pieces }
    }

    pub fn sha256(&self) -> String {
        hexadecimal(&self.facts.sha256)
    }
}

fn restored(received: &Mutex<Received>, index: usize) -> anyhow::Result<Bytes> {
    let received = received.lock().unwrap_or_else(PoisonError::into_inner);
    let stored = received.stored(index)?;
    let mut bytes = Vec::new();
    codec::restore(&received.segments[index], &stored, None, &mut bytes)?;
    Ok(bytes.into())
}

fn bad(from: &str, fault: &BadState) -> Failure {
    match fault {
        BadState::Spool(error) => {
            let hint = "make room there, or name another directory with TMPDIR";
            Failure::new(Exit::Failed, format!("failed to keep {from} for the copy: {error}"), hint)
        }
        fault => {
            Failure::new(Exit::Failed, format!("{from} is not a state: {fault}"), "check that it is the right one")
        }
    }
}
