//! `stateward generate-docs`, hidden: writes the reference pages that `cargo xtask generate` commits and compares.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Command, CommandFactory};

use super::{Cli, failure};
use crate::config::reference;

/// Write the reference pages
#[derive(Args)]
#[command(hide = true)]
pub struct GenerateDocs {
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl GenerateDocs {
    pub fn run(self) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.directory)
            .with_context(|| format!("failed to make {}", self.directory.display()))?;
        let pages = [
            ("cli.md", cli_page()),
            ("configuration.md", reference::page()),
            ("openapi.json", states::http::manage::openapi::document()),
            ("explorer-openapi.json", explorer::http::openapi::document()),
            ("schema.graphql", hub::graphql::sdl()),
        ];
        for (name, page) in pages {
            let path = self.directory.join(name);
            std::fs::write(&path, page).with_context(|| format!("failed to write {}", path.display()))?;
        }
        Ok(())
    }
}

fn cli_page() -> String {
    let mut page = format!(
        "<!-- Made by `cargo xtask generate` from the command line itself; edits are lost. -->\n\
         # Command line\n\n\
         Data goes to stdout, talk to stderr. Every error ends with a hint.\n\n```text\n{}\n```\n",
        failure::EXIT_CODES
    );
    // A fixed width: the page must not depend on the terminal of whoever makes it.
    let mut command = Cli::command().term_width(100);
    command.build();
    describe(&command, &mut page);
    page
}

fn describe(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut copy = command.clone().disable_help_subcommand(true);
    let help = copy.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for child in command.get_subcommands().filter(|child| !child.is_hide_set() && child.get_name() != "help") {
        describe(child, page);
    }
}
