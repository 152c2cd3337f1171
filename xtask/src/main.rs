//! Code generation and checks of the workspace: `cargo xtask COMMAND`.
//!
//! One file per command. Nothing here is part of the product.

mod directions;
mod generate;
mod sizes;
mod tests;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
cargo xtask COMMAND [--root DIR]

  directions          check which crate may use which, and that none is built that deny.toml bans
  generate [--check]  write docs/reference and the hub's schema, or name the files that are stale
  lint-sizes          name Rust files that are too long
  test [ARGUMENTS]    run all tests, three suites at a time; the arguments are those of cargo test

  --root DIR          the workspace, if not this one";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Vec<String>) -> Result<()> {
    let root = take_root(&mut arguments)?;
    if let Some(("test", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return tests::run(&root, rest);
    }
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["directions"] => directions::check(&root),
        ["generate"] => generate::write(&root),
        ["generate", "--check"] => generate::check(&root),
        ["lint-sizes"] => sizes::check(&root),
        _ => bail!("usage:\n{USAGE}"),
    }
}

fn take_root(arguments: &mut Vec<String>) -> Result<PathBuf> {
    let Some(place) = arguments.iter().position(|argument| argument == "--root") else {
        return Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).context("xtask has no workspace");
    };
    let root = arguments.get(place + 1).context("--root needs a directory")?.into();
    arguments.drain(place..place + 2);
    Ok(root)
}
