//! Begins what resolvers ask to be read once all of them wait for something: so each batch is as large as it can be, and
//! nobody waits for the clock.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, poll_fn as poll_stream};
use futures::{FutureExt as _, StreamExt as _};

/// What one request asked for and nobody has begun yet. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Loads(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

impl Loads {
    pub(super) fn add(&self, load: BoxFuture<'static, ()>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(load);
    }

    /// Carries out work that adds to these loads.
    pub(super) async fn serve<W: Future>(&self, work: W) -> W::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            let polled = work.poll_unpin(context);
            self.begin();
            polled
        })
        .await
    }

    /// The same for work with several answers.
    pub(super) fn serve_all<T: Send + 'static>(
        self,
        work: impl Stream<Item = T> + Send + 'static,
    ) -> BoxStream<'static, T> {
        let mut work = work.boxed();
        poll_stream(move |context| {
            let polled = work.poll_next_unpin(context);
            self.begin();
            polled
        })
        .boxed()
    }

    fn begin(&self) {
        let waiting = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for load in waiting {
            tokio::spawn(load);
        }
    }
}
