//! The drivers of this crate: one file each, one line each in [`DRIVERS`].
//!
//! A driver says by which options it is opened, so that the command line and whoever configures it need know nothing more.

pub mod file;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use crate::{Driver, Error};

/// Every driver, in the order in which they are shown.
pub const DRIVERS: &[Kind] = &[file::KIND];

/// What is known of a driver before it is opened.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// More, for whoever asks.
    pub more: &'static str,
    pub options: &'static [Setting],
    pub open: fn(&Options) -> Result<Arc<dyn Driver>, Error>,
}

/// An option of a driver; it must be given unless it has a default.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    /// What stands for its value in help.
    pub placeholder: &'static str,
    pub help: &'static str,
    pub default: Option<&'static str>,
}

/// Options by name.
pub type Options = BTreeMap<&'static str, OsString>;
