//! What the explorer is measured with: objects that look like those of real clusters, and two people who ask.

mod bodies;
mod feed;
mod users;

pub(crate) use feed::Feed;
pub(crate) use users::{Person, questions};
