//! `stateward version`.

use clap::Args;
use serde::Serialize;

use super::output::{self, Format, FormatParser};

/// Show the version of this program
#[derive(Args)]
pub struct Version {
    /// How to show it
    #[arg(short, long, value_parser = FormatParser, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Serialize)]
struct Facts {
    version: &'static str,
    /// The Git commit, if the build was told.
    commit: Option<&'static str>,
    rustc: &'static str,
    features: Vec<&'static str>,
}

impl Version {
    pub fn run(self) -> anyhow::Result<()> {
        let facts = Facts {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("STATEWARD_GIT_COMMIT"),
            rustc: env!("STATEWARD_RUSTC"),
            features: if cfg!(feature = "testing") { vec!["testing"] } else { Vec::new() },
        };
        output::show(self.output, &facts, || {
            let commit = facts.commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
            let features = if facts.features.is_empty() { "none".to_owned() } else { facts.features.join(", ") };
            format!("stateward {}{commit}\ncompiler: {}\nfeatures: {features}\n", facts.version, facts.rustc)
        })
    }
}
