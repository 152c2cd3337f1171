//! A version as the body of an answer.

use ::http::HeaderMap;
use ::http::header::ACCEPT_ENCODING;
use axum::body::Body;
use bytes::Bytes;
use futures::stream::try_unfold;

use crate::Error;
use crate::engine::{Outputs, Reading};
use crate::head::{self, Packing, Version};

/// The gzip of exactly this version, where the store keeps it so and the client takes it: it need not be unpacked here.
/// Clients of Terraform always do.
pub(super) fn packed(version: &mut Version, headers: &HeaderMap) -> Option<Vec<u8>> {
    match &mut version.body {
        head::Body::File { packing: Packing::Gzip, bytes } if takes_gzip(headers) => Some(std::mem::take(bytes)),
        _ => None,
    }
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|weight| weight > 0.0)
    })
}

/// What is left of a reading, after a first piece that was read already.
pub(super) fn stream(first: Option<Bytes>, reading: Reading) -> Body {
    Body::from_stream(try_unfold((first, reading), |(first, mut reading)| async move {
        let piece = match first {
            Some(piece) => Ok(Some(piece)),
            None => reading.next().await,
        };
        // The status is long sent: the client sees a body that ends early, the log says why.
        let piece = piece.inspect_err(|error| tracing::error!(%error, "failed to read a state to its end"))?;
        Ok::<_, Error>(piece.map(|piece| (piece, (None, reading))))
    }))
}

/// What is left of an outputs document, after a first piece that was read already.
pub(super) fn outputs(first: Option<Bytes>, rest: Outputs) -> Body {
    Body::from_stream(try_unfold((first, rest), |(first, mut rest)| async move {
        let piece = match first {
            Some(piece) => Some(piece),
            None => rest.recv().await.transpose()?,
        };
        Ok::<_, Error>(piece.map(|piece| (piece, (None, rest))))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_only_to_those_who_say_that_they_take_it() {
        let table = [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip; q=1.0", true),
            ("gzip;q=0", false),
            ("gzip;q=0.0, identity", false),
            ("gzip;q=much", false),
            ("identity", false),
            ("", false),
        ];
        for (value, expected) in table {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, value.parse().expect("a header"))]);
            assert_eq!(takes_gzip(&headers), expected, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
