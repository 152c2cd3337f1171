//! How fast things are, as ratios: ours against a floor or a peer, measured in turns in the same run.
//!
//! `make bench` runs all of it in some minutes (`--full`: in the counts that its figures are published with);
//! `bench NAME...` runs some, `bench --list` tells which there are. An
//! absolute number says more about the machine than about this code, so that only ratios are judged: the run fails
//! when one is beyond its limit. Nothing is timed anywhere else, so that no test fails because a machine is slow.
//!
//! # Adding one
//! 1. A file in `benchmarks/` with a `run` function. It sets both sides up and hands them to [`Bench::compare`] as
//!    closures that answer with operations per second; [`Bench::alone`] and [`Bench::together`] count those.
//! 2. A line in the list [`benchmarks::ALL`].
//! 3. A limit that only a real change for the worse breaks, a third or less of what is usually seen, with the reason
//!    why it is no tighter ([`Limit::why`](measure::Limit)).
//!
//! Both sides must do the same work on the same disk, in the same state (see `sqlite::settle`), and the other side is
//! always the program or the system call that one would use instead of ours, never an older number.

mod benchmarks;
mod explore;
mod floors;
mod latency;
mod measure;
mod report;
mod server;
mod sqlite;
mod states;
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::benchmarks::{ALL, Benchmark, Run};
use crate::measure::{Bench, Effort};
use crate::report::{Format, Row};
use crate::states::Peer;

/// Speed of Stateward's parts, as ratios against a floor or a peer measured in the same run.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Which to run: every benchmark whose name begins so; none means all
    names: Vec<String>,
    /// Tell what there is instead of running it
    #[arg(long)]
    list: bool,
    /// How to show the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Rounds of each comparison; more give steadier medians
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Milliseconds that each side gets in a round
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice: u64,
    /// Measure what takes long as often as published figures need; it takes the better part of an hour
    #[arg(long)]
    full: bool,
    /// Measure what takes long a few times only, which is the default
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Another HTTP state backend, already running, that takes part in the cycles of states: NAME=URL[,USER:PASSWORD];
    /// a state is one path segment below the URL
    #[arg(long = "peer")]
    peers: Vec<Peer>,
    /// Where databases and logs are put; by default beside the build, because /tmp may be memory, where a sync
    /// costs nothing and the limits on shared syncs do not hold
    #[arg(long)]
    directory: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            report::talk(format_args!("bench: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// 0: every ratio is within its limit; 1: one is not; 2 (from `main`): something could not be measured.
fn run(arguments: &Arguments) -> Result<ExitCode> {
    let chosen = choose(&arguments.names)?;
    if arguments.list {
        report::list(&chosen)?;
        return Ok(ExitCode::SUCCESS);
    }
    let parent = match &arguments.directory {
        Some(directory) => directory.clone(),
        None => build_directory()?,
    };
    let directory = tempfile::Builder::new().prefix("stateward-bench-").tempdir_in(&parent);
    let directory = directory.with_context(|| format!("failed to make a directory in {}", parent.display()))?;
    let slice = Duration::from_millis(arguments.slice);
    let effort = if arguments.full { Effort::Full } else { Effort::Quick };
    let mut bench = Bench::new(arguments.rounds, slice, directory.path().to_owned(), effort)?;
    bench.peers.clone_from(&arguments.peers);
    let mut rows = Vec::new();
    for benchmark in chosen {
        report::talk(format_args!("bench: {}", benchmark.name));
        let measured = match benchmark.run {
            Run::Rates(run) => run(&bench).map(|compared| compared.iter().map(Row::of_rates).collect()),
            Run::Rows(run) => run(&bench),
        };
        let measured: Vec<Row> = measured.with_context(|| format!("failed to measure {}", benchmark.name))?;
        rows.extend(measured.into_iter().map(|row| (benchmark.name, row)));
    }
    report::show(arguments.output, &rows)?;
    let all_within = rows.iter().all(|(_, row)| !row.is_beyond_its_limit());
    Ok(if all_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn choose(names: &[String]) -> Result<Vec<&'static Benchmark>> {
    let known = || ALL.iter().map(|benchmark| benchmark.name).collect::<Vec<_>>().join(", ");
    for name in names {
        let found = ALL.iter().any(|benchmark| benchmark.name.starts_with(name.as_str()));
        ensure!(found, "there is no benchmark '{name}': there are {}", known());
    }
    let wanted =
        |benchmark: &&Benchmark| names.is_empty() || names.iter().any(|name| benchmark.name.starts_with(name.as_str()));
    Ok(ALL.iter().filter(wanted).collect())
}

/// The directory of this program, which is the one that cargo built it into.
fn build_directory() -> Result<PathBuf> {
    let program = std::env::current_exe().context("failed to find this program's own path")?;
    program.parent().map(PathBuf::from).context("this program has no directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chooses_all_that_begin_with_it_in_the_order_of_the_list() {
        let chosen = |names: &[&str]| -> Result<Vec<&str>> {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            Ok(choose(&names)?.iter().map(|benchmark| benchmark.name).collect())
        };
        assert_eq!(chosen(&[]).unwrap().len(), ALL.len());
        assert_eq!(chosen(&["db"]).unwrap(), ["db-write", "db-read"]);
        assert_eq!(chosen(&["http", "db-read"]).unwrap(), ["db-read", "http"]);
        let error = chosen(&["db", "disk"]).unwrap_err().to_string();
        assert!(error.contains("'disk'") && error.contains("db-write"), "{error}");
    }
}
