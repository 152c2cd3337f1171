//! OCF Types: manifests, what their schemas accept, and how they are found. Pure, but that large schemas and values let other
//! tasks go on.

mod manifest;
mod pattern;
mod schema;

mod expressions;
mod order;
mod wording;

pub use manifest::{ManifestError, Type};
pub use pattern::{PathPattern, PatternError, STORAGE_NODES, attaches_to_storage};
pub use schema::{Schema, SchemaError};
