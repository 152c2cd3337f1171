//! Bodies of requests: a LockInfo, or a state that streams through the codec.
//!
//! Waiting for a client is done here, in batches; what is done with them is the business of [`lanes`](super::lanes).

use ::http::header::CONTENT_ENCODING;
use ::http::{HeaderMap, StatusCode};
use access::http::Problem;
use axum::body::Body;
use axum::extract::Request;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use md5::{Digest as _, Md5};

use super::CONTENT_MD5;
use super::lanes::{Batch, Fault, Work, at_once};
use super::problem::bad_state;
use crate::codec::Received;
use crate::engine::{Settings, States};
use crate::uploads::{Full, TooSlow};

/// Small enough to be nothing for memory, large enough to be worth a thread.
const BATCH: usize = 256 << 10;
/// What has a place among the uploads comes in larger ones: to hand one over costs more than to wait for it.
const LARGER: usize = 512 << 10;

pub(super) type Md5Bytes = [u8; 16];

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

/// A state, checked and compressed as it arrives. What is larger than a first piece, or may turn out to be when it is
/// unpacked, takes one of the places for uploads and gives it back when it is received, or when somebody else needs it and
/// it comes too slowly: a slow client keeps nobody out.
pub(super) async fn receive(request: Request, states: &States) -> Result<Received, Problem> {
    let settings = states.settings();
    // Dropped after the work: a place is free again when nothing is left in it.
    let upload = states.uploads().begin();
    let mut place = None;
    let md5 = content_md5(request.headers())?;
    let encoding = encoding(request.headers())?;
    let mut body: Body = request.into_body();
    let mut work: Option<Work> = None;
    let mut batch = Batch::default();
    loop {
        let frame = upload.waits(body.frame()).await.map_err(|TooSlow| too_slow(settings))?;
        let frame = frame.transpose().map_err(|_| cut_short())?;
        let ended = frame.is_none();
        if let Some(data) = frame.and_then(|frame| frame.into_data().ok()) {
            upload.arrived(data.len());
            batch.push(data);
        }
        let enough = if place.is_some() { LARGER } else { BATCH };
        if batch.len() < enough && !ended {
            continue;
        }
        if place.is_none() && (!ended || encoding == Encoding::Gzip) {
            upload.sit().await.map_err(|Full| too_many(settings))?;
            place = Some(states.metrics().upload());
        }
        if ended {
            upload.settle();
        }
        if ended && work.is_none() {
            break;
        }
        let under_way = work.get_or_insert_with(|| Work::new(encoding, settings));
        if !under_way.push(std::mem::take(&mut batch)).await || ended {
            break;
        }
    }
    let received = match work {
        Some(work) => work.finish(md5).await,
        None => at_once(encoding, settings, batch, md5).await,
    };
    let received = received.map_err(problem)?;
    states.metrics().received(received.facts.size);
    Ok(received)
}

fn problem(fault: Fault) -> Problem {
    match fault {
        Fault::State(bad) => bad_state(&bad),
        Fault::Gzip => Problem::bad_request("the body is not the gzip that its Content-Encoding says", "send it again"),
        Fault::Md5 => other_md5(),
        Fault::Stopped => Problem::unavailable("the body could not be worked on"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
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

fn too_slow(settings: &Settings) -> Problem {
    let message = format!(
        "the body came more slowly than {} bytes per second, and another upload needed its place; nothing was changed",
        settings.upload_rate
    );
    let hint = "send it over a faster connection, or ask the operator to raise states.uploads or to lower \
                states.upload_rate";
    Problem::new(StatusCode::REQUEST_TIMEOUT, message, hint)
}

fn cut_short() -> Problem {
    Problem::bad_request("the body did not arrive whole", "send it again, with a correct length")
}

fn other_md5() -> Problem {
    Problem::bad_request("the body does not have the MD5 of its Content-MD5 header", "send it again")
}
