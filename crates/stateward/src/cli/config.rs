//! `stateward config check`.

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use super::failure::Failure;
use super::key_flags::KeyFlags;
use super::output::{self, Format, FormatParser};
use crate::config::{Entry, Environment, Problem, resolve_to_serve};

/// Look at the configuration
#[derive(Args)]
pub struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(Check),
}

/// Show every key, its value and where it came from, and everything that is wrong
///
/// Takes the flags of `serve`. Secrets are shown as `(set)`. Ends with 2 if `serve` would refuse the configuration. What
/// is in files is not looked at; one that is not there is a warning, as it may be there where the server runs.
#[derive(Args)]
struct Check {
    /// How to show it
    #[arg(short, long, value_parser = FormatParser, default_value_t, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    keys: KeyFlags,
}

#[derive(Serialize)]
struct Report {
    values: Vec<ReportedValue>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

#[derive(Serialize)]
struct ReportedValue {
    key: &'static str,
    value: Value,
    source: String,
}

impl Config {
    pub fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let Command::Check(check) = self.command;
        let resolution = resolve_to_serve(&check.keys.0, environment);
        let values = resolution.entries.iter().map(reported).collect();
        let report = Report { values, problems: resolution.problems, warnings: resolution.warnings };
        output::show(check.output, &report, || table(&report.values))?;
        for warning in &report.warnings {
            output::talk(format_args!("warning: {warning}"));
        }
        for problem in &report.problems {
            output::talk(format_args!("problem: {problem}"));
        }
        match report.problems.len() {
            0 => Ok(()),
            1 => Err(bad("the configuration has a problem")),
            several => Err(bad(&format!("the configuration has {several} problems"))),
        }
    }
}

fn bad(message: &str) -> anyhow::Error {
    Failure::usage(message, "docs/reference/configuration.md describes every key").into()
}

fn reported(entry: &Entry) -> ReportedValue {
    ReportedValue { key: entry.key.path, value: entry.shown(), source: entry.source.to_string() }
}

fn table(values: &[ReportedValue]) -> String {
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    };
    let rows: Vec<Vec<String>> =
        values.iter().map(|value| vec![value.key.to_owned(), text(&value.value), value.source.clone()]).collect();
    output::table(&["KEY", "VALUE", "SOURCE"], &rows)
}
