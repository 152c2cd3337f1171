//! A version as the body of an answer.

use axum::body::Body;
use bytes::Bytes;
use futures::stream::try_unfold;

use crate::Error;
use crate::engine::{Outputs, Reading};

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
