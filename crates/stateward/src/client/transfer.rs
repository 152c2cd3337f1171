//! Bodies too large for memory, on their way in or out.
//!
//! The doors are [`Download`] and [`Upload`]. Both take as long as they need and give up when nothing moves; what is
//! received is compared with the length and the MD5 that the sender announced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use md5::{Digest as _, Md5};
use reqwest::{Body, RequestBuilder, Response};

use super::causes;
use crate::cli::failure::{Exit, Failure};

const CONTENT_MD5: &str = "content-md5";

/// Pieces of a state, in order.
pub type Pieces = BoxStream<'static, anyhow::Result<Bytes>>;

/// A body that is being received.
#[derive(Debug)]
pub struct Download {
    response: Response,
    from: String,
    timeout: Duration,
    received: u64,
    md5: Md5,
}

impl Download {
    /// `from` is what errors call the sender.
    pub fn new(response: Response, from: String, timeout: Duration) -> Download {
        Download { response, from, timeout, received: 0, md5: Md5::new() }
    }

    /// The next piece; `None` at the end of a body that is what was announced.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let piece = tokio::time::timeout(self.timeout, self.response.chunk()).await;
        let piece = piece.map_err(|_| silent(&self.from, self.timeout))?;
        let piece = piece.map_err(|error| cut_short(&format!("{}: {}", self.from, causes(&error))))?;
        match piece {
            Some(piece) => {
                self.received += piece.len() as u64;
                self.md5.update(&piece);
                Ok(Some(piece))
            }
            None => self.check().map(|()| None),
        }
    }

    /// The same as a stream that owns itself.
    pub fn pieces(self) -> Pieces {
        futures::stream::try_unfold(self, |mut download| async move {
            Ok(download.next().await?.map(|piece| (piece, download)))
        })
        .boxed()
    }

    fn check(&self) -> Result<(), Failure> {
        let header = |name: &str| self.response.headers().get(name).and_then(|value| value.to_str().ok());
        let announced = header(CONTENT_LENGTH.as_str()).and_then(|length| length.parse::<u64>().ok());
        if announced.is_some_and(|length| length != self.received) {
            return Err(cut_short(&format!("{} sent {} bytes", self.from, self.received)));
        }
        let announced = header(CONTENT_MD5).and_then(|md5| BASE64_STANDARD.decode(md5).ok());
        if announced.is_some_and(|md5| md5 != self.md5.clone().finalize().as_slice()) {
            return Err(cut_short(&format!("{} sent other bytes than its Content-MD5 says", self.from)));
        }
        Ok(())
    }
}

/// A body that is to be sent.
pub struct Upload {
    pub size: u64,
    pub md5: [u8; 16],
    pub pieces: Pieces,
}

impl Upload {
    /// Puts the body on a request; `idle` is told of every piece.
    pub fn on(self, request: RequestBuilder, idle: &Idle) -> RequestBuilder {
        let idle = idle.clone();
        let pieces = self.pieces.map(move |piece| {
            idle.moved();
            piece.map_err(|error| -> Box<dyn std::error::Error + Send + Sync> { error.into() })
        });
        request
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, self.size)
            .header(CONTENT_MD5, BASE64_STANDARD.encode(self.md5))
            .body(Body::wrap_stream(pieces))
    }
}

/// Tells when nothing has moved for too long.
#[derive(Clone, Debug)]
pub struct Idle {
    limit: Duration,
    begun: Instant,
    /// Milliseconds from the beginning to the last movement.
    last: Arc<AtomicU64>,
}

impl Idle {
    pub fn new(limit: Duration) -> Idle {
        Idle { limit, begun: Instant::now(), last: Arc::default() }
    }

    fn moved(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Ends when nothing has moved for the limit.
    pub async fn over(&self) {
        loop {
            let end = Duration::from_millis(self.last.load(Ordering::Relaxed)) + self.limit;
            let left = end.saturating_sub(self.begun.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// The same pieces, from a sender that may not fall silent.
pub fn patient(pieces: Pieces, from: String, timeout: Duration) -> Pieces {
    futures::stream::try_unfold((pieces, from), move |(mut pieces, from)| async move {
        let piece = tokio::time::timeout(timeout, pieces.try_next()).await;
        let piece = piece.map_err(|_| silent(&from, timeout))??;
        Ok(piece.map(|piece| (piece, (pieces, from))))
    })
    .boxed()
}

/// Nothing came for too long.
pub fn silent(from: &str, timeout: Duration) -> Failure {
    let message = format!("{from} has been silent for {timeout:?}");
    Failure::new(Exit::Unavailable, message, "try again, or allow more time with --timeout")
}

fn cut_short(message: &str) -> Failure {
    let message = format!("the state did not arrive as it was sent: {message}");
    Failure::new(Exit::Unavailable, message, "try again")
}
