//! `stateward rescue`: the way back in for whoever has the data directory and no token.

use clap::Args;

use super::key_flags::KeyFlags;
use super::output;
use crate::config::{Environment, resolve};

/// Create an admin token on the server's machine, when every other token is lost
///
/// Works on the data directory itself and needs no token; the server must be stopped. The token alone goes to stdout; its
/// making is in the audit log.
#[derive(Args)]
pub struct Rescue {
    /// What the token is called in lists
    name: String,
    #[command(flatten)]
    keys: KeyFlags,
}

impl Rescue {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let settings = resolve(&self.keys.0, environment).settings()?;
        let token = crate::serve::rescue_token(&settings, self.name).await?;
        output::talk(format_args!("created an admin token; revoke it when there is another"));
        output::print(token.reveal())
    }
}
