//! Finds objects of many clusters, limited to what the caller may see.
//!
//! The door is [`Explorer`], the service with its clusters. In reading order: what a row is ([`row`]), what its status is
//! ([`status`]), how one asks ([`query`]), what answers ([`index`]: rows in memory, asked with a [`Query`] under a
//! [`Visibility`]), what survives ([`durable`]: the same rows on disk, so that a restart is warm), what is collected
//! ([`kinds`]), and who collects it and says who may see it ([`service`]).
//!
//! What must never be here: an answer, a count, a facet or a suggestion from a row that the caller may not see; a word of a
//! body for somebody who may only list; an empty grant that is taken for no limit; a body kept as a tree in memory.

pub mod related;
pub mod row;
pub mod status;

pub mod query;

pub mod index;

pub mod durable;

pub mod kinds;

pub mod service;

pub mod http;

#[doc(hidden)]
pub mod failpoints;

pub use index::{Index, Page, Settings, Visibility};
pub use query::Query;
pub use row::{Key, Row};
pub use service::{Error, Explorer};
pub use status::Status;
