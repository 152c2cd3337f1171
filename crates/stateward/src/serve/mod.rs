//! The server. Its place in this binary; the code comes with its own change.

use crate::config::Settings;

/// Serves until told to stop.
#[expect(clippy::unused_async, reason = "the server awaits")]
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    anyhow::bail!("this build has no server for {}", settings.listen)
}
