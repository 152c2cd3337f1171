//! What is left of a request's body that nobody read to its end, because the answer was clear before.
//!
//! Were it dropped, an HTTP/1.1 connection would be closed with bytes in it: the reset that follows may overtake the
//! answer, or fail a client that is still sending. Over h2, some clients take the reset of the stream for a failure of
//! the request. So it is read and thrown away for a while; after that, the answer has had its time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::EXPECT;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How long it may take, how long nothing may come, and how much may come at most.
const LONGEST: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_secs(2);
const MOST: usize = 16 << 20;

/// A body whose rest is read when it is dropped.
pub(super) struct Drained {
    body: Option<Incoming>,
    /// Whether its sender waits to be told to send it, which a first read does.
    is_held_back: bool,
}

impl Drained {
    pub(super) fn of(request: Request<Incoming>) -> Request<Drained> {
        let is_held_back = request.headers().contains_key(EXPECT);
        request.map(|body| Drained { body: Some(body), is_held_back })
    }
}

impl Body for Drained {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        self.is_held_back = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !body.is_end_stream() && !self.is_held_back) else { return };
        // At the end of the process there is nothing to spawn on, and nobody to answer.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(timeout(LONGEST, drain(body)));
        }
    }
}

async fn drain(mut body: Incoming) {
    let mut left = MOST;
    while left > 0 {
        let frame = timeout(QUIET, poll_fn(|context| Pin::new(&mut body).poll_frame(context))).await;
        let Ok(Some(Ok(frame))) = frame else { return };
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
    }
}
