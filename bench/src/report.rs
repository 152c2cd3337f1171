//! Showing what was measured: the result on stdout, talk on stderr.

use std::fmt;
use std::io::Write as _;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::benchmarks::Benchmark;
use crate::latency::Series;
use crate::measure::{Comparison, median};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Table,
    Json,
}

/// One comparison as it is shown, or one side alone.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    ours: Side,
    against: Option<Side>,
    ratio: Option<Ratio>,
    bound: Option<Bound>,
}

/// One side of a comparison: what it is, and every figure that was taken of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Side {
    name: String,
    figures: Vec<Figure>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Figure {
    PerSecond(f64),
    MegabytesPerSecond(f64),
    MedianMilliseconds(f64),
    P99Milliseconds(f64),
    CpuSeconds(f64),
    CpuMilliseconds(f64),
    PeakMegabytes(f64),
    StoredMegabytes(f64),
    ResidentMegabytes(f64),
    BytesEach(f64),
    Seconds(f64),
}

/// Ours divided by the other, or a figure that has a bound of its own.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Ratio {
    of: &'static str,
    value: f64,
    lowest: f64,
    highest: f64,
}

/// How far a ratio may go.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Bound {
    pub(crate) side: Within,
    pub(crate) means: Means,
    pub(crate) why: &'static str,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum Within {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Means {
    /// Only a real change for the worse breaks it: the run fails.
    Limit,
    /// What is wanted on a machine of its own: marked when missed.
    Goal,
}

impl Row {
    pub(crate) fn of_rates(comparison: &Comparison) -> Row {
        let question = &comparison.question;
        let side = |name: &str, rate| Side::new(name, vec![Figure::PerSecond(rate)]);
        let (lowest, highest) = comparison.spread();
        let within = Within::AtLeast(question.limit.at_least);
        Row {
            ours: side(question.ours, comparison.ours()),
            against: Some(side(question.against, comparison.theirs())),
            ratio: Some(Ratio { of: "rate", value: comparison.ratio(), lowest, highest }),
            bound: Some(Bound { side: within, means: Means::Limit, why: question.limit.why }),
        }
    }

    /// A row that only tells.
    pub(crate) fn new(ours: Side) -> Row {
        Row { ours, against: None, ratio: None, bound: None }
    }

    #[must_use]
    pub(crate) fn against(self, side: Side) -> Row {
        Row { against: Some(side), ..self }
    }

    /// The median of these ratios is what counts.
    #[must_use]
    pub(crate) fn ratios(self, of: &'static str, ratios: &[f64]) -> Row {
        let (lowest, highest) =
            ratios.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &ratio| (low.min(ratio), high.max(ratio)));
        Row { ratio: Some(Ratio { of, value: median(ratios.iter().copied()), lowest, highest }), ..self }
    }

    /// A value that is known better than the median of a few ratios.
    #[must_use]
    pub(crate) fn ratio(self, of: &'static str, value: f64, ratios: &[f64]) -> Row {
        let mut row = self.ratios(of, ratios);
        if let Some(ratio) = &mut row.ratio {
            ratio.value = value;
        }
        row
    }

    #[must_use]
    pub(crate) fn goal(self, side: Within, why: &'static str) -> Row {
        Row { bound: Some(Bound { side, means: Means::Goal, why }), ..self }
    }

    #[must_use]
    pub(crate) fn limit(self, side: Within, why: &'static str) -> Row {
        Row { bound: Some(Bound { side, means: Means::Limit, why }), ..self }
    }

    pub(crate) fn is_beyond_its_limit(&self) -> bool {
        !self.is_within() && self.bound.is_some_and(|bound| bound.means == Means::Limit)
    }

    fn is_within(&self) -> bool {
        match (self.ratio, self.bound) {
            (Some(ratio), Some(bound)) => match bound.side {
                Within::AtLeast(least) => ratio.value >= least,
                Within::AtMost(most) => ratio.value <= most,
            },
            _ => true,
        }
    }

    fn cells(&self, benchmark: &str) -> [String; COLUMNS] {
        let ratio = |text: fn(&Ratio) -> String| self.ratio.as_ref().map(text).unwrap_or_default();
        let verdict = match self.bound {
            None => "",
            Some(_) if self.is_within() => "yes",
            Some(Bound { means: Means::Limit, .. }) => "NO",
            Some(Bound { means: Means::Goal, .. }) => "MISSED",
        };
        let bound = self.bound.map(|bound| match bound.side {
            Within::AtLeast(least) => format!(">= {least}"),
            Within::AtMost(most) => format!("<= {most}"),
        });
        [
            benchmark.to_owned(),
            self.ours.to_string(),
            self.against.as_ref().map(Side::to_string).unwrap_or_default(),
            ratio(|ratio| ratio.of.to_owned()),
            ratio(|ratio| short(ratio.value)),
            ratio(|ratio| format!("{}..{}", short(ratio.lowest), short(ratio.highest))),
            bound.unwrap_or_default(),
            verdict.to_owned(),
            self.bound.filter(|_| !self.is_within()).map(|bound| bound.why.to_owned()).unwrap_or_default(),
        ]
    }
}

impl Side {
    pub(crate) fn new(name: impl Into<String>, figures: Vec<Figure>) -> Side {
        Side { name: name.into(), figures }
    }

    /// How often clients got through, and how long they waited.
    pub(crate) fn of_series(name: impl Into<String>, series: &Series) -> Side {
        let milliseconds = |part| series.percentile(part).as_secs_f64() * 1e3;
        let figures = vec![
            Figure::PerSecond(series.rate()),
            Figure::MedianMilliseconds(milliseconds(0.5)),
            Figure::P99Milliseconds(milliseconds(0.99)),
        ];
        Side::new(name, figures)
    }

    #[must_use]
    pub(crate) fn with(mut self, figure: Figure) -> Side {
        self.figures.push(figure);
        self
    }
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures: Vec<String> = self.figures.iter().map(Figure::to_string).collect();
        write!(formatter, "{}: {}", self.name, figures.join(", "))
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::PerSecond(rate) if *rate < 10.0 => write!(formatter, "{rate:.1}/s"),
            Figure::PerSecond(rate) => write!(formatter, "{rate:.0}/s"),
            Figure::MegabytesPerSecond(rate) => write!(formatter, "{rate:.0} MB/s"),
            Figure::MedianMilliseconds(time) => write!(formatter, "p50 {} ms", short(*time)),
            Figure::P99Milliseconds(time) => write!(formatter, "p99 {} ms", short(*time)),
            Figure::CpuSeconds(time) => write!(formatter, "CPU {} s", short(*time)),
            Figure::CpuMilliseconds(time) => write!(formatter, "CPU {} ms", short(*time)),
            Figure::PeakMegabytes(size) => write!(formatter, "peak {size:.0} MB"),
            Figure::StoredMegabytes(size) => write!(formatter, "stored {} MB", short(*size)),
            Figure::ResidentMegabytes(size) => write!(formatter, "resident {size:.0} MB"),
            Figure::BytesEach(size) => write!(formatter, "{size:.0} bytes each"),
            Figure::Seconds(time) => write!(formatter, "{} s", short(*time)),
        }
    }
}

pub(crate) fn show(format: Format, rows: &[(&str, Row)]) -> Result<()> {
    print(&match format {
        Format::Table => table(rows),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(rows)?),
    })
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Says what a row of the table will say, as soon as it is known.
pub(crate) fn tell(benchmark: &str, row: &Row) {
    talk(format_args!("{}", row.cells(benchmark).join("  ").trim_end()));
}

pub(crate) fn list(benchmarks: &[&Benchmark]) -> Result<()> {
    let lines = benchmarks.iter().map(|benchmark| format!("{:<22} {}\n", benchmark.name, benchmark.about));
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

const COLUMNS: usize = 9;

fn table(rows: &[(&str, Row)]) -> String {
    let header = ["BENCHMARK", "OURS", "AGAINST", "RATIO OF", "RATIO", "SPREAD", "LIMIT", "OK", ""].map(str::to_owned);
    let lines: Vec<[String; COLUMNS]> =
        std::iter::once(header).chain(rows.iter().map(|(benchmark, row)| row.cells(benchmark))).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
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

    fn rates(at_least: f64) -> Row {
        let question = Question { ours: "a", against: "b", limit: Limit { at_least, why: "the reason" } };
        Row::of_rates(&Comparison { question, rounds: vec![(50.0, 100.0)] })
    }

    #[test]
    fn a_ratio_beyond_its_limit_says_no_and_why_there_is_a_limit() {
        let shown = table(&[("x", rates(0.4)), ("x", rates(0.6))]);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "BENCHMARK  OURS     AGAINST   RATIO OF  RATIO  SPREAD      LIMIT   OK");
        assert_eq!(lines[1], "x          a: 50/s  b: 100/s  rate      0.50   0.50..0.50  >= 0.4  yes");
        assert_eq!(lines[2], "x          a: 50/s  b: 100/s  rate      0.50   0.50..0.50  >= 0.6  NO   the reason");
        assert!(!rates(0.4).is_beyond_its_limit() && rates(0.6).is_beyond_its_limit());
    }

    #[test]
    fn a_missed_goal_is_marked_and_fails_nothing() {
        let side = |time| Side::new("s", vec![Figure::PerSecond(1.25), Figure::MedianMilliseconds(time)]);
        let row = |most| {
            let row = Row::new(side(30.0)).against(side(20.0));
            row.ratios("p50", &[1.4, 1.5, 1.6]).goal(Within::AtMost(most), "because")
        };
        let cells = row(1.3).cells("x");
        assert_eq!(cells[1], "s: 1.2/s, p50 30.0 ms");
        assert_eq!(cells[4..], ["1.50", "1.40..1.60", "<= 1.3", "MISSED", "because"]);
        assert_eq!(row(1.5).cells("x")[7..], ["yes", ""]);
        assert!(!row(1.3).is_beyond_its_limit());
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
