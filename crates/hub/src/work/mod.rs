//! What is done with records: checked, journalled where a backend is concerned, called, and made visible in one transaction.
//!
//! Whatever fails on the way leaves nothing behind: what backends have done by then is undone, or, of what was to be deleted
//! or released, carried through.

mod calls;

mod create;
mod delete;
mod left;
mod locks;
mod moving;
mod retire;
mod update;

pub use left::{LeftKind, LeftOutside};
pub use moving::{Moved, OldCopy};
pub use retire::{Retire, Retired};
