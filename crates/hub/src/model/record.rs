//! A record, its versions and its lock.

use jiff::Timestamp;

use super::{AttributeRef, Place, TypeRef};

/// The record of the built-in store, which every other one begins with.
pub const BUILT_IN: &str = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";

/// What is known of a record beside its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: String,
    /// Unique and for ever, if there is one.
    pub name: Option<String>,
    pub namespace: String,
    pub type_ref: TypeRef,
    /// The record of the store that keeps its values.
    pub backend: String,
    /// Whether it is a backend itself.
    pub storage: bool,
    pub created_at: Timestamp,
    /// The number of its newest version; they are counted from 1.
    pub latest: u32,
    /// As it was granted; it may have expired.
    pub lock: Option<Lock>,
    pub place: Place,
}

/// A version, without its value and context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub number: u32,
    pub created_by: Option<String>,
    pub created_at: Timestamp,
    pub attributes: Vec<AttributeRef>,
}

/// Who holds a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub owner: String,
    pub since: Timestamp,
    /// `None` holds until it is released.
    pub expires: Option<Timestamp>,
}

impl Record {
    /// The name by which permissions are asked for.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    pub fn is_built_in(&self) -> bool {
        self.id == BUILT_IN
    }

    /// Whether the hub itself keeps its values.
    pub fn is_kept_here(&self) -> bool {
        self.backend == BUILT_IN
    }
}
