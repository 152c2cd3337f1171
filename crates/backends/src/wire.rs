//! The messages of the protocol as they go over the wire, and how documents and times stand in them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::Document;

/// Package `storage_backend`, generated; with a message that nothing uses, as in the original.
#[allow(clippy::pedantic, dead_code, missing_debug_implementations, unreachable_pub)]
pub(crate) mod storage_backend {
    tonic::include_proto!("storage_backend");
}

/// Package `grpc.health.v1`, generated.
#[allow(clippy::pedantic, missing_debug_implementations, unreachable_pub)]
pub(crate) mod health {
    tonic::include_proto!("grpc.health.v1");
}

/// In the trailers of an UNAVAILABLE: the backend is sure that nothing took place. Without it nobody knows, since the
/// original's backends and every proxy on the way say UNAVAILABLE for whatever broke.
pub(crate) const NOTHING_DONE: &str = "stateward-nothing-done";

/// A field that is always there: no bytes are no document.
pub(crate) fn bytes(document: Option<&Document>) -> Bytes {
    document.map(|document| document.0.clone()).unwrap_or_default()
}

/// A field that may be left out.
pub(crate) fn optional_bytes(document: Option<&Document>) -> Option<Bytes> {
    document.map(|document| document.0.clone())
}

/// The other way: no bytes, and no field, are no document.
pub(crate) fn document(bytes: impl Into<Option<Bytes>>) -> Option<Document> {
    bytes.into().filter(|bytes| !bytes.is_empty()).map(Document)
}

/// A time that has come this far from now, in milliseconds since 1970.
pub(crate) fn deadline_ms(within: Duration) -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + within;
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How long it is until that time; nothing if it is over.
pub(crate) fn until_ms(deadline_ms: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(deadline_ms).saturating_sub(now)
}
