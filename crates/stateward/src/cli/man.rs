//! `stateward man`.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use super::{Cli, output};

/// Print the manual page, or write one page per command
#[derive(Args)]
pub struct Man {
    /// Directory to write stateward.1, stateward-serve.1 and so on to
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Man {
    pub fn run(self) -> anyhow::Result<()> {
        let Some(directory) = self.directory else {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            return output::print(&String::from_utf8(page)?);
        };
        let failed = || format!("failed to write manual pages to {}", directory.display());
        std::fs::create_dir_all(&directory).with_context(failed)?;
        clap_mangen::generate_to(Cli::command(), &directory).with_context(failed)
    }
}
