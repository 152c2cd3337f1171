//! What the explorer is measured with: objects that look like those of real clusters, their RBAC, and two people who ask.

mod bodies;
mod feed;
mod rbac;
mod users;

pub(crate) use feed::Feed;
pub(crate) use rbac::Clusters;
pub(crate) use users::{Person, bindings, questions};
