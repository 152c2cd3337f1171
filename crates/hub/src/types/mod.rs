//! OCF Types: manifests, what their schemas accept, and how they are found. Pure.

mod manifest;
mod pattern;
mod schema;
mod wording;

pub use manifest::{ManifestError, Type};
pub use pattern::{PathPattern, PatternError, STORAGE_NODES, attaches_to_storage};
pub use schema::{Schema, SchemaError};
