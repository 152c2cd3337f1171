//! What this process is told to do: one table of keys, four places that may set them, one typed result.
//!
//! The door is [`resolve`]: it lays flags over the environment over the YAML file over the defaults and keeps, for
//! every key, the value and where it came from. `Resolution::settings` then gives the typed [`Settings`], or every
//! problem at once. A key is one line in [`keys::KEYS`] and one field in [`settings`]; flags, variables, the reference
//! page and `config check` follow from the table.
//!
//! Nothing here opens a socket, a database or a certificate, and nothing but [`Environment`] reads the environment.

pub mod check;
pub mod database;
pub mod environment;
pub mod explored;
mod file;
pub mod keys;
pub mod kind;
pub mod lists;
pub mod named_keys;
mod problem;
pub mod profile;
pub mod reference;
mod resolve;
mod secret;
pub mod settings;
mod suggest;
#[cfg(test)]
mod tests;
pub mod units;

pub use environment::Environment;
pub use problem::{Invalid, Problem};
pub use resolve::{DEFAULT_FILE, Entry, Given, resolve, resolve_to_serve};
pub use secret::Secret;
pub use settings::{S3, S3Identity, Settings};
