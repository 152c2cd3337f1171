//! How a hub comes to the driver of a backend: whoever opens it says so.

use std::fmt;
use std::sync::Arc;

use backends::{Driver, Failure, Mode};

use super::config::Encoding;

/// Makes drivers. It waits for nobody: a driver connects when it is called.
pub trait Connect: fmt::Debug + Send + Sync + 'static {
    fn connect(&self, endpoint: &Endpoint) -> Result<Arc<dyn Driver>, Failure>;
}

/// What is known of a backend before it is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The id of its record.
    pub backend: String,
    /// `host:port`, alone or after `http://` or `https://`.
    pub url: String,
    pub mode: Mode,
    pub encoding: Encoding,
}
