//! What may be done with records. Pure: no database, no clock.

pub mod aliases;
pub mod deletion;
pub mod locks;
pub mod names;
pub mod texts;
