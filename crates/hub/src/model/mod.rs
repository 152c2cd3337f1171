//! Records and the names of things.

mod place;
mod record;
mod reference;

pub use place::Place;
pub use record::{BUILT_IN, Lock, Record, Version};
pub use reference::{AttributeRef, NodePath, ReferenceError, Revision, TypeRef};
