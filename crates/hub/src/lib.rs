//! Typed records: what they are, who holds them, what uses what, and values that nobody reads without the right key.
//!
//! The one door is [`Hub`]: create, update, delete, lock, list, and the Types that say what values look like. [`model`] has
//! records and their names, [`rules`] what may be done with them (pure), [`types`] the OCF Types with their schemas (pure);
//! `store` keeps all of it in a [`db::Db`], and `seal` covers values and contexts before they get there. [`guard`] is the hub as
//! one caller may use it, [`graphql`] and [`http`] are how callers meet it.
//!
//! What must never be here: a value or a context in a log, an error, a Debug text or an unsealed column; a schema that can
//! fetch something or take for ever; a version that is changed once it is there.

mod error;
mod json;

pub mod model;
pub mod rules;
pub mod types;

mod seal;
mod store;

mod hub;

pub mod guard;

pub mod graphql;
pub mod http;

pub use error::{Error, Reason};
pub use hub::{Hub, Settings};
pub use json::{Json, JsonError};
pub use store::{
    AttributeFilter, Batch, Change, Created, Cursor, DEFAULT_ATTRIBUTE, Deletion, Filter, MIGRATIONS, NewRecord, Page, Relation, Rule,
    StorageChoice, TypeFilter, VersionId, Versions,
};
