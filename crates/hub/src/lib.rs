//! Typed records: what they are, who holds them, what uses what, and values that nobody reads without the right key.
//!
//! The one door is [`Hub`]: create, update, delete, lock, move, list, and the Types that say what values look like. [`model`]
//! has records and their names, [`rules`] what may be done with them (pure), [`types`] the OCF Types with their schemas (pure).
//! `work` does things: it checks, tells the journal, calls backends and commits. `store` keeps records in a [`db::Db`] and has
//! every transaction, `storage` has the backends that keep values elsewhere, `journal` what was begun with them and is not
//! over, `changes` the feed of what happened, and `seal` covers values and contexts before they get to the database. [`guard`] is
//! the hub as one caller may use it, [`graphql`] and [`http`] are how callers meet it.
//!
//! What must never be here: a value or a context in a log, an error, a Debug text or an unsealed column; a value that is kept
//! elsewhere in the database at all; a call of a backend without an end, or before the journal knows of it; a schema that
//! can fetch something or take for ever; a version that is changed once it is there.

mod error;
mod json;
mod settings;

pub mod model;
pub mod rules;
pub mod types;

mod aside;
mod clock;
mod remembered;
mod seal;
mod storage;
mod store;

mod changes;
mod journal;
mod work;

#[doc(hidden)]
pub mod failpoints;

mod hub;

pub mod guard;

pub mod graphql;
pub mod http;

pub use changes::{ChangeCursor, ChangeEvent, ChangeKind};
pub use error::{Error, Reason};
pub use hub::Hub;
pub use journal::{IntentKind, IntentState, JournalEntry};
pub use json::{Json, JsonError};
pub use settings::{Settings, Times};
pub use storage::{AllowedUrls, Connect, Encoding, Endpoint, LockedBy, PolicyRule, StorageBackend, UrlError};
pub use store::{
    AttributeFilter, Batch, Change, Created, Cursor, DEFAULT_ATTRIBUTE, Deletion, Filter, MIGRATIONS, NewRecord,
    OnBackendFailure, Page, Relation, Rule, StorageChoice, TypeFilter, VersionId, Versions,
};
pub use work::{LeftKind, LeftOutside, Moved, OldCopy, Retire, Retired};
