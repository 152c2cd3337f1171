//! How much one request can ask for.

use std::time::Duration;

/// Bodies of one answer, together; what goes beyond is left out and told.
pub(super) const BODIES: usize = 16 << 20;
/// Suggestions, Events of an object.
pub(super) const LIST: usize = 100;
/// Rows of one request for an act.
pub(super) const ROWS: usize = 100;
/// Acts that are under way for one request.
pub(super) const ACTS_AT_ONCE: usize = 8;
/// One act of one row, with everything.
pub(super) const ACT_DEADLINE: Duration = Duration::from_secs(10);
