//! Bodies of requests: a LockInfo, or a state that streams through the codec.
//!
//! Validating and compressing is work for a thread, waiting for a client is not: pieces are handed to a blocking thread
//! in batches, while the next ones arrive, so that a slow client holds no thread.

use std::io::{self, Write};
use std::time::Duration;

use ::http::header::CONTENT_ENCODING;
use ::http::{HeaderMap, StatusCode};
use access::http::Problem;
use axum::body::Body;
use axum::extract::Request;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::{BodyExt as _, Limited};
use md5::{Digest as _, Md5};
use tokio::task::{JoinError, JoinHandle};

use super::CONTENT_MD5;
use super::problem::bad_state;
use crate::codec::{BadState, Received, Receiver, SpoolPlace};
use crate::engine::{Settings, States};

/// Small enough to be nothing for memory, large enough to be worth a thread.
const BATCH: usize = 512 << 10;
/// How long an upload waits for its place among others.
const PATIENCE: Duration = Duration::from_secs(5);

type Md5Bytes = [u8; 16];

/// The whole of a small body.
pub(super) async fn small(request: Request, limit: usize) -> Result<Bytes, Problem> {
    let md5 = content_md5(request.headers())?;
    if encoding(request.headers())? == Encoding::Gzip {
        return Err(unsupported());
    }
    let collected = Limited::new(request.into_body(), limit).collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            let message = format!("the LockInfo is larger than {limit} bytes");
            let hint =
                "send the JSON that terraform and tofu send, or ask the operator to raise states.lock_info_bytes";
            return Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message, hint);
        }
        cut_short()
    })?;
    let bytes = collected.to_bytes();
    match md5 {
        Some(expected) if expected != Md5Bytes::from(Md5::digest(&bytes)) => Err(other_md5()),
        _ => Ok(bytes),
    }
}

/// A state, checked and compressed as it arrives. What is larger than a first piece takes one of the places for uploads
/// and gives it back when it is received: a slow client with little to send keeps nobody out.
pub(super) async fn receive(request: Request, states: &States) -> Result<Received, Problem> {
    let settings = states.settings();
    let mut place = None;
    let md5 = content_md5(request.headers())?;
    let encoding = encoding(request.headers())?;
    let receiver = Receiver::new(settings.codec.clone(), SpoolPlace::new(settings.spool.clone()));
    let mut sink = Some(Sink::new(encoding, receiver));
    let mut working: Option<JoinHandle<Result<Sink, Fault>>> = None;
    let mut body: Body = request.into_body();
    let mut batch = Vec::new();
    loop {
        let frame = body.frame().await.transpose().map_err(|_| cut_short())?;
        let ended = frame.is_none();
        if let Some(frame) = frame
            && let Ok(data) = frame.into_data()
        {
            batch.extend_from_slice(&data);
        }
        if batch.len() < BATCH && !ended {
            continue;
        }
        if place.is_none() && !ended {
            let free = tokio::time::timeout(PATIENCE, states.uploads().acquire()).await;
            place = Some((free.map_err(|_| too_many(settings))?, states.metrics().upload()));
        }
        if let Some(working) = working.take() {
            sink = Some(joined(working.await)?);
        }
        let Some(mut ready) = sink.take() else { return Err(stopped()) };
        let bytes = std::mem::take(&mut batch);
        if ended {
            let finish = tokio::task::spawn_blocking(move || {
                ready.push(&bytes)?;
                ready.finish(md5)
            });
            let received: Received = joined(finish.await)?;
            states.metrics().received(received.facts.size);
            return Ok(received);
        }
        working = Some(tokio::task::spawn_blocking(move || ready.push(&bytes).map(|()| ready)));
    }
}

fn joined<T>(done: Result<Result<T, Fault>, JoinError>) -> Result<T, Problem> {
    done.map_err(|_| stopped())?.map_err(|fault| match fault {
        Fault::State(bad) => bad_state(&bad),
        Fault::Gzip => Problem::bad_request("the body is not the gzip that its Content-Encoding says", "send it again"),
        Fault::Md5 => other_md5(),
    })
}

/// What can be wrong with the body of a state.
enum Fault {
    State(BadState),
    Gzip,
    Md5,
}

impl From<BadState> for Fault {
    fn from(bad: BadState) -> Fault {
        Fault::State(bad)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Identity,
    Gzip,
}

/// The receiver, behind the decoder that the request asks for.
enum Sink {
    Plain(Box<Receiver>),
    Gzip { decoder: Box<MultiGzDecoder<Pusher>>, md5: Md5 },
}

impl Sink {
    fn new(encoding: Encoding, receiver: Receiver) -> Sink {
        match encoding {
            Encoding::Identity => Sink::Plain(Box::new(receiver)),
            Encoding::Gzip => {
                let decoder = Box::new(MultiGzDecoder::new(Pusher { receiver, fault: None }));
                Sink::Gzip { decoder, md5: Md5::new() }
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match self {
            Sink::Plain(receiver) => Ok(receiver.push(bytes)?),
            Sink::Gzip { decoder, md5 } => {
                md5.update(bytes);
                decoder.write_all(bytes).map_err(|_| decoder.get_mut().fault.take().map_or(Fault::Gzip, Fault::State))
            }
        }
    }

    fn finish(self, md5: Option<Md5Bytes>) -> Result<Received, Fault> {
        match self {
            Sink::Plain(receiver) => Ok(receiver.finish(md5)?),
            Sink::Gzip { mut decoder, md5: found } => {
                // The header is about the bytes as they were sent.
                if md5.is_some_and(|expected| expected != Md5Bytes::from(found.finalize())) {
                    return Err(Fault::Md5);
                }
                let ended = decoder.try_finish();
                ended.map_err(|_| decoder.get_mut().fault.take().map_or(Fault::Gzip, Fault::State))?;
                Ok(decoder.finish().map_err(|_| Fault::Gzip)?.receiver.finish(None)?)
            }
        }
    }
}

/// Passes inflated bytes on, and keeps the fault that a `Write` cannot tell.
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

fn content_md5(headers: &HeaderMap) -> Result<Option<Md5Bytes>, Problem> {
    let Some(value) = headers.get(CONTENT_MD5) else { return Ok(None) };
    let decoded = BASE64_STANDARD.decode(value.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    let wrong = || {
        let hint = "send the base64 of the 16 bytes of the MD5, or leave the header out";
        Problem::bad_request("the header Content-MD5 is not an MD5", hint)
    };
    decoded.ok_or_else(wrong).map(Some)
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, Problem> {
    match headers.get(CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase()).as_deref() {
        None | Some(b"identity") => Ok(Encoding::Identity),
        Some(b"gzip" | b"x-gzip") => Ok(Encoding::Gzip),
        Some(_) => Err(unsupported()),
    }
}

fn unsupported() -> Problem {
    let message = "the Content-Encoding is not known here";
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message, "send a state plain or as gzip, a LockInfo plain")
}

fn too_many(settings: &Settings) -> Problem {
    let message = format!("{} uploads are under way already; nothing was changed", settings.uploads);
    let hint = "try again in a few seconds, or ask the operator to raise states.uploads";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, message, hint)
}

fn cut_short() -> Problem {
    Problem::bad_request("the body did not arrive whole", "send it again, with a correct length")
}

fn other_md5() -> Problem {
    Problem::bad_request("the body does not have the MD5 of its Content-MD5 header", "send it again")
}

fn stopped() -> Problem {
    Problem::unavailable("the body could not be worked on")
}
