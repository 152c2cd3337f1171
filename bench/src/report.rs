//! Showing what was measured: the result on stdout, talk on stderr.

use std::fmt;
use std::io::Write as _;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::benchmarks::Benchmark;
use crate::measure::Comparison;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Table,
    Json,
}

/// One comparison as it is shown. Rates are operations per second.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    benchmark: &'static str,
    ours: &'static str,
    ours_per_second: f64,
    against: &'static str,
    against_per_second: f64,
    ratio: f64,
    lowest_ratio: f64,
    highest_ratio: f64,
    at_least: f64,
    why: &'static str,
    pub(crate) ok: bool,
}

impl Row {
    pub(crate) fn new(benchmark: &'static str, comparison: &Comparison) -> Row {
        let question = &comparison.question;
        let (lowest_ratio, highest_ratio) = comparison.spread();
        Row {
            benchmark,
            ours: question.ours,
            ours_per_second: comparison.ours(),
            against: question.against,
            against_per_second: comparison.theirs(),
            ratio: comparison.ratio(),
            lowest_ratio,
            highest_ratio,
            at_least: question.limit.at_least,
            why: question.limit.why,
            ok: comparison.is_within_limit(),
        }
    }

    fn cells(&self) -> [String; 8] {
        [
            self.benchmark.to_owned(),
            format!("{}: {:.0}/s", self.ours, self.ours_per_second),
            format!("{}: {:.0}/s", self.against, self.against_per_second),
            short(self.ratio),
            format!("{}..{}", short(self.lowest_ratio), short(self.highest_ratio)),
            format!(">= {}", self.at_least),
            if self.ok { "yes" } else { "NO" }.to_owned(),
            if self.ok { String::new() } else { self.why.to_owned() },
        ]
    }
}

pub(crate) fn show(format: Format, rows: &[Row]) -> Result<()> {
    print(&match format {
        Format::Table => table(rows),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(rows)?),
    })
}

pub(crate) fn list(benchmarks: &[&Benchmark]) -> Result<()> {
    let lines = benchmarks.iter().map(|benchmark| format!("{:<15} {}\n", benchmark.name, benchmark.about));
    print(&lines.collect::<String>())
}

/// Says something to whoever sits there; nobody listening is fine.
pub(crate) fn talk(message: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{message}");
}

/// Not `println!`, which panics when the reader of a pipe goes away.
fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

fn table(rows: &[Row]) -> String {
    let header = ["BENCHMARK", "OURS", "AGAINST", "RATIO", "SPREAD", "LIMIT", "OK", ""].map(str::to_owned);
    let lines: Vec<[String; 8]> = std::iter::once(header).chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Three digits or so: more would pretend that they come out the same again.
fn short(ratio: f64) -> String {
    let decimals = match ratio {
        ratio if ratio >= 100.0 => 0,
        ratio if ratio >= 10.0 => 1,
        ratio if ratio >= 0.1 => 2,
        _ => 3,
    };
    format!("{ratio:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Limit, Question};

    #[test]
    fn a_ratio_beyond_its_limit_says_no_and_why_there_is_a_limit() {
        let row = |at_least| {
            let limit = Limit { at_least, why: "the reason" };
            let question = Question { ours: "a", against: "b", limit };
            Row::new("x", &Comparison { question, rounds: vec![(50.0, 100.0)] })
        };
        let shown = table(&[row(0.4), row(0.6)]);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "BENCHMARK  OURS     AGAINST   RATIO  SPREAD      LIMIT   OK");
        assert_eq!(lines[1], "x          a: 50/s  b: 100/s  0.50   0.50..0.50  >= 0.4  yes");
        assert_eq!(lines[2], "x          a: 50/s  b: 100/s  0.50   0.50..0.50  >= 0.6  NO   the reason");
    }

    #[test]
    fn ratios_are_rounded_to_what_can_be_meant() {
        let cases =
            [(1234.5, "1234"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.5, "0.50"), (0.0123, "0.012")];
        for (ratio, expected) in cases {
            assert_eq!(short(ratio), expected);
        }
    }
}
