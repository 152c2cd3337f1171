//! `stateward serve`.

use clap::Args;

use super::key_flags::KeyFlags;
use super::logging;
use crate::config::{Environment, resolve_to_serve};

/// Run the server
///
/// Without any configuration: SQLite under the data directory, loopback only. Every key of the configuration may be
/// given as a flag, as a variable or in a YAML file; `stateward config check` shows what would hold.
#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    keys: KeyFlags,
}

impl Serve {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let mut resolution = resolve_to_serve(&self.keys.0, environment);
        let warnings = std::mem::take(&mut resolution.warnings);
        let settings = resolution.settings()?;
        logging::start(&settings.log, environment)?;
        logging::warn_of(&warnings);
        crate::serve::run(settings, environment).await
    }
}
