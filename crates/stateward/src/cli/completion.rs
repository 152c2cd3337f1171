//! `stateward completion`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, output};

/// Print a completion script for a shell
///
/// For bash: `stateward completion bash > /etc/bash_completion.d/stateward`.
#[derive(Args)]
pub struct Completion {
    #[arg(value_enum)]
    shell: Shell,
}

impl Completion {
    pub fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "stateward", &mut script);
        output::print(&String::from_utf8(script)?)
    }
}
