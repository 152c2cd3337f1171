//! The one binary: parses the command line, runs one command, turns its end into an exit code.
//!
//! Only here are the environment read and the process ended. Each command is a file in [`cli`].

#![expect(
    unreachable_pub,
    reason = "nothing is reachable from outside a binary; pub is what a module offers to the others"
)]

mod allocator;
mod cli;
mod client;
mod config;
mod document;
mod serve;
mod workflow;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::cli::{Cli, failure};
use crate::config::Environment;

fn main() -> ExitCode {
    allocator::give_back_early();
    // First of all: whoever asks rustls for a provider before this gets none. It fails only if one is there already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match Cli::try_parse_from(cli::names::arguments(std::env::args_os())) {
        Ok(cli) => failure::exit_code(run(cli)),
        Err(error) => {
            // Help goes to stdout, complaints to stderr; a reader that went away is no reason to complain.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let environment = Environment::of_process();
    #[cfg(feature = "testing")]
    failpoint::arm_from(environment.get("STATEWARD_FAILPOINTS").unwrap_or_default()).map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
    runtime.block_on(cli::run(cli, &environment))
}
