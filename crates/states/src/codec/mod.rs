//! The bytes of states: received, kept small, given back exactly as they were sent.
//!
//! The doors are [`Receiver`] (an upload becomes [`Segment`]s in a spool), [`restore`] (segments become the upload
//! again), [`delta`] (history), and what reads a restored state: [`with_serial`], [`outputs`], [`output_list`],
//! [`resources`], [`diff`].
//!
//! Synchronous, bounded in memory whatever the size, and without knowledge of stores or HTTP. Nothing is parsed into a
//! tree and no number or escape is ever decoded and written again: what comes back has the SHA-256 of what came.
//!
//! How a state is kept: it is cut into segments of 1 to 4 MiB by content, so that an edit changes one or two of them.
//! A segment whose white space is what Terraform writes is stored without it and laid out again on the way out; any
//! other is stored as sent. zstd compresses both.

mod contexts;
mod digests;
mod fault;
mod gear;
mod hash_text;
mod header;
mod history;
mod laid_out;
mod layout;
mod line;
mod md5_block;
mod number;
mod pack;
mod read;
mod receive;
mod scan;
mod segment;
mod segmenter;
mod spool;
mod text;

pub use digests::{Digested, Digests};
pub use fault::{BadState, Damaged};
pub use history::{align, apply, delta, difference, whole};
pub use laid_out::LaidOut;
pub use layout::{Place, Resume};
pub use read::{
    Change, Diff, Output, OutputChange, Resource, ResourceChange, Sensitive, Source, Unreadable, Value, diff,
    output_list, outputs, resources, with_serial,
};
pub use receive::{Facts, Limits, Received, Receiver, Shaper};
pub use segment::{Encoding, Segment, Shape, original, restore, unpack};
pub use spool::SpoolPlace;
